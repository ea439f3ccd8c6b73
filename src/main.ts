import { readFileSync } from 'node:fs';
import { pino } from 'pino';
import { run } from './cli/run.ts';

const { version } = JSON.parse(readFileSync(new URL('../package.json', import.meta.url), 'utf8')) as {
  version: string;
};
const log = pino.destination({ dest: 1, sync: false });

process.on('uncaughtException', (error) => {
  log.write(`${JSON.stringify({ level: 'fatal', msg: 'crash', stack: error.stack })}\n`);
  exit(1);
});

function exit(code: number): never {
  log.flushSync();
  process.exit(code);
}

exit(
  await run(process.argv.slice(2), {
    stdin: process.stdin,
    stdout: process.stdout,
    stderr: process.stderr,
    env: process.env,
    log,
    version,
    clock: Date.now,
    onSignal: (signal, handler) => void process.on(signal, handler),
  }),
);

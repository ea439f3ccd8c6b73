import { readFileSync } from 'node:fs';
import { run } from './cli/run.ts';
import { LogOutput } from './telemetry/log-output.ts';

const { version } = JSON.parse(readFileSync(new URL('../package.json', import.meta.url), 'utf8')) as {
  version: string;
};
const log = new LogOutput(1);

// Whoever read what a command prints has left: nobody is there for more.
process.stdout.on('error', () => process.exit(1));

// Nothing is certain any more: the reason is said, and the process ends.
process.on('uncaughtException', (error) => {
  try {
    log.crash(error);
  } finally {
    process.exit(1);
  }
});

const exitCode = await run(process.argv.slice(2), {
  stdin: process.stdin,
  stdout: process.stdout,
  stderr: process.stderr,
  env: process.env,
  log,
  version,
  clock: Date.now,
  onSignal: (signal, handler) => void process.on(signal, handler),
});
await log.end();
process.exit(exitCode);

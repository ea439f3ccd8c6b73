import { readFileSync } from 'node:fs';
import { setTimeout } from 'node:timers/promises';
import { pino } from 'pino';
import { run } from './cli/run.ts';
import { createLogger } from './telemetry/logger.ts';

/** How long whoever reads the log may take for its last lines before the process ends without them. Milliseconds. */
const lastLinesTime = 1_000;

const { version } = JSON.parse(readFileSync(new URL('../package.json', import.meta.url), 'utf8')) as {
  version: string;
};
// A line is written as soon as it is there, without waiting for the reader. Only with a least length is there a `flush`
// that waits for lines already on their way; `flushSync` overtakes them.
const log = pino.destination({ dest: 1, sync: false, minLength: 1 });

process.on('uncaughtException', (error) => {
  // Nothing is certain any more, so nothing is waited for.
  createLogger('fatal', log).fatal({ err: error }, 'crash');
  log.flushSync();
  process.exit(1);
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
const flushed = new Promise<void>((resolve) => log.flush(() => resolve()));
await Promise.race([flushed, setTimeout(lastLinesTime)]);
process.exit(exitCode);

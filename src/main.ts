import { readFileSync } from 'node:fs';
import { setTimeout } from 'node:timers/promises';
import { pino } from 'pino';
import { run } from './cli/run.ts';
import { createLogger } from './telemetry/logger.ts';

/** How long whoever reads the log may take for its last lines before the process ends without them. Milliseconds. */
const lastLinesTime = 2_000;

/** What may wait for whoever reads the log. Bytes; what comes then is lost, and counted. */
const mostWaiting = 4 * 1_048_576;

const { version } = JSON.parse(readFileSync(new URL('../package.json', import.meta.url), 'utf8')) as {
  version: string;
};
let ended = false;
let tries = Infinity;
// Lines go out some at a time, the last ones after a moment: a write for each costs a tenth of a request.
const log = pino.destination({
  dest: 1,
  sync: false,
  minLength: 65_536,
  maxWrite: 131_072,
  periodicFlush: 100,
  maxLength: mostWaiting,
  // Asked each tenth of a second while the reader of the log takes nothing.
  retryEAGAIN: () => tries-- > 0,
});

let lost = 0;
log.on('drop', () => (lost += 1));
log.on('drain', () => {
  if (lost === 0) return;
  const lines = lost;
  lost = 0;
  createLogger('warn', log).warn({ lines }, 'lines of the log were lost');
});
// A full disk, for instance. What could not be written stays and is tried again; traffic matters more than its log.
log.on('error', () => {});

// Whoever read what a command prints has left: nobody is there for more.
process.stdout.on('error', () => process.exit(1));

process.on('uncaughtException', (error) => {
  // Nothing is certain any more, so only the reader is waited for, and not long: `fatal` overtakes even lines that are on their way.
  tries = lastLinesTime / 100;
  try {
    createLogger('fatal', log).fatal({ err: error }, 'crash');
  } finally {
    exit(1);
  }
});

const exitCode = await run(process.argv.slice(2), {
  stdin: process.stdin,
  stdout: process.stdout,
  stderr: process.stderr,
  env: process.env,
  // What is still under way when a second signal ends all at once may go on logging for a moment.
  log: { write: (line) => void (ended || log.write(line)) },
  version,
  clock: Date.now,
  onSignal: (signal, handler) => void process.on(signal, handler),
});
ended = true;
const written = new Promise((resolve) => void log.once('close', resolve));
log.end();
await Promise.race([written, setTimeout(lastLinesTime)]);
exit(exitCode);

function exit(code: number): never {
  // Or its own last attempt to write would wait for the reader for ever.
  log.destroy();
  process.exit(code);
}

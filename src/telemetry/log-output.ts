import { writeSync } from 'node:fs';
import { setTimeout as sleep } from 'node:timers/promises';
import { pino } from 'pino';
import { createLogger } from './logger.ts';

/** How long the log's reader may take for the last lines before the process ends without them. Milliseconds. */
const lastLinesTime = 2_000;

/** Milliseconds between two attempts to write while the reader takes nothing. */
const pause = 100;

/** How much is gathered, in characters, and how long, in milliseconds: a write for each line costs a tenth of a request. */
const gathered = 65_536;
const gatheringTime = 100;

/** How much may wait for the log's reader. Bytes; lines beyond it are lost, and counted. */
const mostWaiting = 4 * 1_048_576;

/** The destination of log lines: a file descriptor whose reader may be slow or gone, or whose disk may be full. */
export class LogOutput {
  readonly #fd: number;
  readonly #destination: ReturnType<typeof pino.destination>;
  /** Gathered here: pino's own destination looks at all it has gathered again for each line. */
  readonly #lines: string[] = [];
  #length = 0;
  #timer: NodeJS.Timeout | undefined;
  #lost = 0;
  #failing = false;
  #ended = false;
  #tries = Infinity;

  constructor(fd: number) {
    this.#fd = fd;
    this.#destination = pino.destination({
      dest: fd,
      sync: false,
      // What could not be written is tried again then; only with a minimum length is there such a time.
      periodicFlush: pause,
      minLength: 1,
      maxWrite: 2 * gathered,
      maxLength: mostWaiting,
      retryEAGAIN: () => this.#tries-- > 0,
    });
    this.#destination.on('drop', (lines: string) => (this.#lost += lines.split('\n').length - 1));
    this.#destination.on('drain', () => this.#tellLost());
    this.#destination.on('write', () => (this.#failing = false));
    // What could not be written stays and is tried again; traffic matters more than its log.
    this.#destination.on('error', () => (this.#failing = true));
  }

  write(line: string): void {
    if (this.#ended) return;
    this.#lines.push(line);
    this.#length += line.length;
    if (this.#length >= gathered) this.#passOn();
    else this.#timer ??= setTimeout(() => this.#passOn(), gatheringTime).unref();
  }

  #passOn(): void {
    clearTimeout(this.#timer);
    this.#timer = undefined;
    if (this.#length === 0) return;
    this.#destination.write(this.#lines.join(''));
    this.#lines.length = 0;
    this.#length = 0;
  }

  /** Resolves when all lines are written, or when the reader has had its time. What comes now is not written any more. */
  async end(): Promise<void> {
    this.#tellLost();
    this.#passOn();
    this.#ended = true;
    const written = new Promise((resolve) => void this.#destination.once('close', resolve));
    this.#destination.end();
    await Promise.race([written, sleep(lastLinesTime)]);
    this.#destroy();
  }

  /**
   * The line of a crash, at once and before all that waits: a queue that is full would drop it, and a disk that is full
   * would be tried for ever. If that succeeds, the lines that wait follow.
   */
  crash(error: Error): void {
    this.#ended = true;
    this.#tries = lastLinesTime / pause;
    try {
      createLogger('fatal', { write: (line) => this.#writeNow(line) }).fatal({ err: error }, 'crash');
      this.#passOn();
      if (!this.#failing) this.#destination.flushSync();
    } finally {
      this.#destroy();
    }
  }

  #writeNow(line: string): void {
    let rest = Buffer.from(line);
    while (rest.length > 0) {
      try {
        rest = rest.subarray(writeSync(this.#fd, rest));
      } catch (error) {
        if ((error as NodeJS.ErrnoException).code !== 'EAGAIN' || this.#tries-- <= 0) throw error;
        Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0, pause);
      }
    }
  }

  #tellLost(): void {
    if (this.#lost === 0) return;
    const lines = this.#lost;
    this.#lost = 0;
    createLogger('warn', this).warn({ lines }, 'lines of the log were lost');
  }

  /** Or its own last attempt to write would wait for the reader for ever. */
  #destroy(): void {
    this.#destination.destroy();
  }
}

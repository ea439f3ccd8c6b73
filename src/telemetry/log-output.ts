import { writeSync } from 'node:fs';
import { setTimeout as sleep } from 'node:timers/promises';
import { pino } from 'pino';
import { createLogger } from './logger.ts';

/** How long the process waits, when it exits, for the log's reader to read the last lines, in milliseconds. */
const lastLinesTime = 2_000;

/** Milliseconds between two attempts to write while the reader is stalled. */
const pause = 100;

/**
 * How many characters are gathered before a write, and for how long, in milliseconds. One write per line would add a tenth to a request's
 * cost.
 */
const gathered = 65_536;
const gatheringTime = 100;

/** How many bytes may wait for the log's reader. Further lines are dropped and counted. */
const mostWaiting = 4 * 1_048_576;

/** The destination of log lines: a file descriptor whose reader may stall or exit, or whose disk may be full. */
export class LogOutput {
  readonly #fd: number;
  readonly #destination: ReturnType<typeof pino.destination>;
  /** Lines are gathered here, because pino's own destination scans all gathered text for each line. */
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
      // pino tries failed writes again after this time, but only if a minimum length is set.
      periodicFlush: pause,
      minLength: 1,
      maxWrite: 2 * gathered,
      maxLength: mostWaiting,
      retryEAGAIN: () => this.#tries-- > 0,
    });
    this.#destination.on('drop', (lines: string) => (this.#lost += lines.split('\n').length - 1));
    this.#destination.on('drain', () => this.#reportLost());
    this.#destination.on('write', () => (this.#failing = false));
    // Lines that cannot be written are kept and written later, so that traffic never waits for the log.
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

  /** Writes the remaining lines. Resolves when all lines are written, or after a timeout. Later lines are dropped. */
  async end(): Promise<void> {
    this.#reportLost();
    this.#passOn();
    this.#ended = true;
    const written = new Promise((resolve) => void this.#destination.once('close', resolve));
    this.#destination.end();
    await Promise.race([written, sleep(lastLinesTime)]);
    // Without this call, the last write of the stream would wait for the reader forever.
    this.#destination.destroy();
  }

  /**
   * Writes the line about a crash at once, ahead of the queued lines. A full queue would drop the line, and on a full disk the queue would
   * be retried forever. If the write succeeds, the queued lines are written after it.
   */
  crash(error: Error): void {
    this.#ended = true;
    this.#tries = lastLinesTime / pause;
    try {
      createLogger('fatal', { write: (line) => this.#writeNow(line) }).fatal({ err: error }, 'crash');
      this.#passOn();
      if (!this.#failing) this.#destination.flushSync();
    } finally {
      this.#destination.destroy();
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

  #reportLost(): void {
    if (this.#lost === 0) return;
    const lines = this.#lost;
    this.#lost = 0;
    createLogger('warn', this).warn({ lines }, 'lines of the log were lost');
  }
}

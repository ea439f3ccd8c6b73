import { createWriteStream, fstatSync } from 'node:fs';
import type { Writable } from 'node:stream';

/** Thrown if the output cannot be written. */
export class OutputFailed extends Error {
  /** Whether the reader closed its end of the pipe, as `head` does. */
  readonly readerLeft: boolean;

  constructor(cause: NodeJS.ErrnoException) {
    super(`cannot write the output: ${cause.message}`, { cause });
    this.readerLeft = cause.code === 'EPIPE' || cause.code === 'ECONNRESET';
  }
}

/** Standard output or standard error. A command that awaits each write holds no more data in memory than the stream's buffer. */
export class Output {
  readonly #stream: Writable;
  readonly isTerminal: boolean;
  #written: Promise<void> = Promise.resolve();
  #failure: OutputFailed | undefined;
  /** Resolves at the first failure. */
  readonly failed: Promise<void>;

  constructor(stream: Writable) {
    this.#stream = stream;
    this.isTerminal = 'isTTY' in stream && stream.isTTY === true;
    this.failed = new Promise((resolve) => {
      stream.on('error', (error) => {
        this.#failure ??= new OutputFailed(error);
        resolve();
      });
    });
  }

  /**
   * Resolves as soon as there is room for more data.
   *
   * @throws OutputFailed if this or an earlier write failed. A caller that cannot wait may ignore the error, because `flush` throws it
   *   again
   */
  write(data: string | Uint8Array): Promise<void> {
    const result = this.#write(data);
    result.catch(() => {});
    return result;
  }

  async #write(data: string | Uint8Array): Promise<void> {
    this.#check();
    const { promise, resolve } = Promise.withResolvers<void>();
    // The callbacks are called in the order of the writes, even after a failed write.
    const hasRoom = this.#stream.write(data, () => resolve());
    this.#written = promise;
    if (hasRoom) return;
    await promise;
    this.#check();
  }

  /** Resolves when everything is written, so that the process may exit. @throws OutputFailed */
  async flush(): Promise<void> {
    await this.#written;
    // The stream emits its error event after it has called the callback of the failed write.
    await new Promise(setImmediate);
    this.#check();
  }

  #check(): void {
    if (this.#failure !== undefined) throw this.#failure;
  }
}

/**
 * Returns the stream to use for a file descriptor. For a regular file, this is not Node's own stream, because that stream calls `write`
 * once and ignores a partial write to an almost full disk.
 *
 * @param stream Node's own stream for that descriptor
 */
export function completeStream(fd: number, stream: Writable): Writable {
  return fstatSync(fd).isFile() ? createWriteStream('', { fd, autoClose: false }) : stream;
}

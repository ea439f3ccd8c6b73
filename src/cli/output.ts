import { createWriteStream, fstatSync } from 'node:fs';
import type { Writable } from 'node:stream';

/** The output could not be written. */
export class OutputFailed extends Error {
  /** Whether the reader closed its end of the pipe, as `head` does. */
  readonly readerLeft: boolean;

  constructor(cause: NodeJS.ErrnoException) {
    super(`cannot write the output: ${cause.message}`, { cause });
    this.readerLeft = cause.code === 'EPIPE' || cause.code === 'ECONNRESET';
  }
}

/** The width of a terminal that does not report one. */
const usualWidth = 80;

type OutputStream = Writable & { readonly isTTY?: boolean; readonly columns?: number };

/** Standard output or standard error. A command that awaits each write holds no more than the stream's buffer. */
export class Output {
  readonly #stream: OutputStream;
  #written: Promise<void> = Promise.resolve();
  #failure: OutputFailed | undefined;
  /** Resolves at the first failure. */
  readonly failed: Promise<void>;

  constructor(stream: OutputStream) {
    this.#stream = stream;
    this.failed = new Promise((resolve) => {
      stream.on('error', (error) => {
        this.#failure ??= new OutputFailed(error);
        resolve();
      });
    });
  }

  get isTerminal(): boolean {
    return this.#stream.isTTY === true;
  }

  /** The cells in a line of the terminal. Infinite elsewhere: programs and files get lines as long as they are. */
  get width(): number {
    // A terminal may report 0 if it does not know.
    return this.isTerminal ? this.#stream.columns || usualWidth : Infinity;
  }

  /**
   * Resolves as soon as there is room for more.
   *
   * @throws OutputFailed also if an earlier write failed. A caller that cannot wait may ignore it: `flush` throws it again.
   */
  write(data: string | Uint8Array): Promise<void> {
    const result = this.#write(data);
    result.catch(() => {});
    return result;
  }

  async #write(data: string | Uint8Array): Promise<void> {
    this.#check();
    const { promise, resolve } = Promise.withResolvers<void>();
    // Called in the order of the writes, for failed ones too.
    const hasRoom = this.#stream.write(data, () => resolve());
    this.#written = promise;
    if (hasRoom) return;
    await promise;
    this.#check();
  }

  /** Resolves when everything is written, so that the process may exit. @throws OutputFailed */
  async flush(): Promise<void> {
    await this.#written;
    // The stream's error event follows the callback of the write that failed.
    await new Promise(setImmediate);
    this.#check();
  }

  #check(): void {
    if (this.#failure !== undefined) throw this.#failure;
  }
}

/**
 * The stream for writing to a descriptor. For a regular file, Node's own stream calls `write` once and ignores a
 * partial write to an almost full disk.
 *
 * @param stream Node's own for that descriptor
 */
export function completeStream(fd: number, stream: Writable): Writable {
  return fstatSync(fd).isFile() ? createWriteStream('', { fd, autoClose: false }) : stream;
}

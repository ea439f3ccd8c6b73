import { extname } from 'node:path';
import { Worker, parentPort } from 'node:worker_threads';

/** The thread was ended, or has ended by itself. The message says why and may be shown to users. */
export class ThreadEnded extends Error {}

/** A thread that gets one request at a time and sends one reply to each. It keeps the process alive only during a request. */
export class Thread<Request, Reply> {
  readonly #worker: Worker;
  #asked: PromiseWithResolvers<Reply> | undefined;
  #failure: unknown;

  /**
   * Starts the thread.
   *
   * @param name the name of the thread's script, without extension, in the folder of `caller`; the script calls `replyWith`
   * @param caller URL of the module that starts the thread
   * @throws the system's error if the system refuses to start another thread; `DataCloneError` if the data cannot be sent
   */
  constructor(name: string, caller: string, workerData: unknown) {
    this.#worker = new Worker(new URL(`./${name}${extname(caller)}`, caller), {
      workerData: withOwnBuffers(workerData),
    });
    this.#worker.on('message', (reply: Reply) => this.#asked?.resolve(reply));
    this.#worker.on('error', (error) => this.#fail(error));
    this.#worker.on('exit', (code) => this.#fail(new ThreadEnded(`exit code ${code}`)));
  }

  get hasEnded(): boolean {
    return this.#failure !== undefined;
  }

  /**
   * Sends a request. Resolves to the reply; rejects with the thread's uncaught error if that ends the thread, otherwise with `ThreadEnded`.
   */
  async ask(request: Request): Promise<Reply> {
    if (this.hasEnded) throw this.#failure;
    this.#worker.ref();
    try {
      // Throws if the request cannot be sent.
      this.#worker.postMessage(withOwnBuffers(request));
      this.#asked = Promise.withResolvers();
      return await this.#asked.promise;
    } finally {
      this.#worker.unref();
    }
  }

  /** Ends the thread at once. @param why the message of the error with which the request in progress rejects */
  async end(why = 'ended'): Promise<void> {
    this.#fail(new ThreadEnded(why));
    await this.#worker.terminate();
  }

  #fail(error: unknown): void {
    this.#failure ??= error;
    this.#asked?.reject(this.#failure);
  }
}

/** A thread that is started on demand. It is ended after it has been idle for a while, to free the memory of its libraries and text. */
export class IdleThread<Request, Reply> {
  readonly #start: () => Thread<Request, Reply>;
  #thread: Thread<Request, Reply> | undefined;
  #idle: NodeJS.Timeout | undefined;

  /** @param workerData called when the thread is started. The other parameters are those of `Thread` */
  constructor(name: string, caller: string, workerData: () => unknown) {
    this.#start = () => new Thread(name, caller, workerData());
  }

  /** Returns the thread, starting it if necessary. Call `rest` when the thread's work is done. @throws as `Thread` does */
  wake(): Thread<Request, Reply> {
    clearTimeout(this.#idle);
    if (this.#thread?.hasEnded !== false) this.#thread = this.#start();
    return this.#thread;
  }

  /** Ends the thread after this many milliseconds (0: at once), unless `wake` is called before then. */
  rest(milliseconds: number): void {
    if (milliseconds === 0) void this.end();
    else this.#idle = setTimeout(() => void this.end(), milliseconds).unref();
  }

  async end(): Promise<void> {
    clearTimeout(this.#idle);
    await this.#thread?.end();
  }
}

/** Called by a thread's script. Replies to each request. An error that `reply` throws ends the thread. */
export function replyWith(reply: (request: never) => unknown): void {
  const port = parentPort;
  if (port === null) throw new Error('started as a program');
  port.on('message', async (request: unknown) => port.postMessage(withOwnBuffers(await reply(request as never))));
}

/**
 * Copies plain data so that every buffer has memory of its own, exactly as long as its content. Otherwise, a message would carry the whole
 * memory that a buffer is part of. For a small buffer, that memory is a pool into which other buffers, and secrets, have been read.
 */
function withOwnBuffers(data: unknown): unknown {
  if (data instanceof Uint8Array) return Uint8Array.from(data);
  if (Array.isArray(data)) return data.map(withOwnBuffers);
  if (typeof data !== 'object' || data === null || Object.getPrototypeOf(data) !== Object.prototype) return data;
  return Object.fromEntries(Object.entries(data).map(([name, value]) => [name, withOwnBuffers(value)]));
}

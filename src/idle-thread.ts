/** The part of a thread that `IdleThread` uses. */
interface Endable {
  readonly hasEnded: boolean;
  end(): Promise<void>;
}

/** A thread that is started on demand. It is ended after it has been idle for a while, to free the memory of its libraries and text. */
export class IdleThread<Thread extends Endable> {
  readonly #start: () => Thread;
  #thread: Thread | undefined;
  #idle: NodeJS.Timeout | undefined;

  constructor(start: () => Thread) {
    this.#start = start;
  }

  /** Returns the thread, starting it if necessary. Call `rest` when the thread's work is done. @throws as `Thread` does */
  wake(): Thread {
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

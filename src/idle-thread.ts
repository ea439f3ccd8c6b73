/** What `IdleThread` needs of a thread. */
interface Endable {
  readonly hasEnded: boolean;
  end(): Promise<void>;
}

/** A thread that is started when it is needed and ended when it has been idle, which frees the memory of its libraries and text. */
export class IdleThread<Thread extends Endable> {
  readonly #start: () => Thread;
  #thread: Thread | undefined;
  #idle: NodeJS.Timeout | undefined;

  constructor(start: () => Thread) {
    this.#start = start;
  }

  /** The running thread. Call `rest` when its work is done. @throws as `Thread` does */
  wake(): Thread {
    clearTimeout(this.#idle);
    if (this.#thread?.hasEnded !== false) this.#thread = this.#start();
    return this.#thread;
  }

  /** Ends the thread after this many milliseconds, unless it is needed earlier; with 0, at once. */
  rest(milliseconds: number): void {
    if (milliseconds === 0) void this.end();
    else this.#idle = setTimeout(() => void this.end(), milliseconds).unref();
  }

  async end(): Promise<void> {
    clearTimeout(this.#idle);
    await this.#thread?.end();
  }
}

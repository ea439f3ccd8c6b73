/** What it must know of a thread. */
interface Endable {
  readonly hasEnded: boolean;
  end(): Promise<void>;
}

/** A thread that is started when it is needed, and ended when it was idle: that frees the memory of its libraries and texts. */
export class IdleThread<Thread extends Endable> {
  readonly #start: () => Thread;
  #thread: Thread | undefined;
  #idle: NodeJS.Timeout | undefined;

  constructor(start: () => Thread) {
    this.#start = start;
  }

  /** The running thread. Call `rest` when it has done what it is needed for. @throws as `Thread` */
  wake(): Thread {
    clearTimeout(this.#idle);
    if (this.#thread?.hasEnded !== false) this.#thread = this.#start();
    return this.#thread;
  }

  /** Ends the thread after so many milliseconds, unless it is needed before; with 0 at once. */
  rest(milliseconds: number): void {
    if (milliseconds === 0) void this.end();
    else this.#idle = setTimeout(() => void this.end(), milliseconds).unref();
  }

  async end(): Promise<void> {
    clearTimeout(this.#idle);
    await this.#thread?.end();
  }
}

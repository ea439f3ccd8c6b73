/** The bytes of bodies that may be held in memory at once, over all requests. */
export class BufferBudget {
  #free: number;

  constructor(bytes: number) {
    this.#free = bytes;
  }

  /** Takes `bytes` if they are left. What was taken must be given back. */
  take(bytes: number): boolean {
    if (bytes > this.#free) return false;
    this.#free -= bytes;
    return true;
  }

  give(bytes: number): void {
    this.#free += bytes;
  }
}

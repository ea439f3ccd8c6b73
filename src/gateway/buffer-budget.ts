/** The bytes of bodies that may be held in memory at once, over all requests. */
export class BufferBudget {
  #size: number;
  #free: number;

  constructor(bytes: number) {
    this.#size = bytes;
    this.#free = bytes;
  }

  /** Sets how many bytes there are in all; what is held stays held. */
  resize(bytes: number): void {
    this.#free += bytes - this.#size;
    this.#size = bytes;
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

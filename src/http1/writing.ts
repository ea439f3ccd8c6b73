/** Bodies up to this size are sent in one write with their head, as one string, which costs less than a buffer. */
export const maxSingleWrite = 16_384;

/**
 * How many writes to a socket may wait to be sent. Each takes up hundreds of bytes in addition to its content, and Node's own limit counts
 * only the content.
 */
const maxWaiting = 200;

/** Tells whether more should be written to a socket. It counts the writes, because Node counts only their bytes. */
export class WriteRoom {
  readonly #onRoom: () => void;
  #waiting = 0;
  #isFull = false;

  /** @param onRoom called when there is room again, because everything has been written */
  constructor(onRoom: () => void) {
    this.#onRoom = onRoom;
  }

  /**
   * Counts a write. Pass `done` as the callback of that write.
   *
   * @param hasRoom what the write returned
   * @returns false if nothing more should be written before there is room
   */
  count(hasRoom: boolean): boolean {
    this.#waiting += 1;
    this.#isFull ||= !hasRoom || this.#waiting >= maxWaiting;
    return !this.#isFull;
  }

  readonly done = (error?: Error | null): void => {
    this.#waiting -= 1;
    if (this.#waiting > 0 || !this.#isFull || error instanceof Error) return;
    this.#isFull = false;
    this.#onRoom();
  };
}

/** Bodies up to this size are sent in one write with their head, as one string, which costs less than a buffer. */
export const maxSingleWrite = 16_384;

/**
 * How many writes to a socket may wait to be sent. Each takes hundreds of bytes in addition to its content. Node limits only the content.
 */
const maxWaiting = 200;

/** Tells whether more should be written to a socket. It counts the writes, because Node counts only their bytes. */
export class WriteRoom {
  readonly #onRoom: () => void;
  #waiting = 0;
  #isFull = false;

  /** @param onRoom called when everything has been written after there was no room */
  constructor(onRoom: () => void) {
    this.#onRoom = onRoom;
  }

  /**
   * Counts a write whose callback must be `done`.
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

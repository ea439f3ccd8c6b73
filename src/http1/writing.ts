/** Bodies up to this size go out in one write with their head, as one string, which costs less than a buffer. */
export const maxSingleWrite = 16_384;

/** Writes of a socket that wait to be sent. Each takes hundreds of bytes besides its own, and Node limits only these. */
const maxWaiting = 200;

/** Whether a socket should be given more to write: counts writes, where Node counts their bytes. */
export class WriteRoom {
  readonly #onRoom: () => void;
  #waiting = 0;
  #isFull = false;

  /** @param onRoom called when all is written, if there was no room */
  constructor(onRoom: () => void) {
    this.#onRoom = onRoom;
  }

  /**
   * Counts a write, of which `done` must be the callback.
   *
   * @param hasRoom what the write has returned
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

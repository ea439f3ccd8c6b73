/**
 * Bytes after which a socket is not read until its turn comes. libuv would read one on which more arrives 32 times in a turn of the event
 * loop, two megabytes, and everybody else would wait meanwhile for all long bodies in progress.
 */
export const maxPerTurn = 262_144;

/**
 * A piece below this many bytes costs as much as one of some kilobytes, and after so many, too, a client is not read until its turn comes:
 * a socket delivers 2,900 TLS records of one byte at a time, every stranger may send them, and many of them would fill each turn.
 */
export const smallPiece = 1_024;
const maxSmallPieces = 100;

/** As many come only on TLS, in one read: what was read before the rest began is still decrypted, up to 2,900 of them in seven milliseconds. */
const maxInRead = 300;

/** Small pieces that a request may have without a wait at some later one. */
const smallPiecesOfRequest = 8;

export interface PaceOwner {
  /**
   * Nothing is read until `resume` is called, in a later turn.
   *
   * @param hasSmallPieces whether because of those
   */
  onRest(resume: () => void, hasSmallPieces: boolean): void;
  /** Hundreds of small pieces have come in one read, and more of it may follow. */
  onFlood?(): void;
  /** `rests` has changed. */
  onPace(): void;
}

/** How fast a socket is read, so that it does not fill the turns of the event loop. */
export class ReadPace {
  readonly #owner: PaceOwner;
  /** What was read since the last rest. */
  #bytes = 0;
  #smallPieces = 0;
  /** Why it rests. */
  #rest: 'bytes' | 'small_pieces' | undefined;

  constructor(owner: PaceOwner) {
    this.#owner = owner;
  }

  /** Whether the socket should not be read now. */
  get rests(): boolean {
    return this.#rest !== undefined;
  }

  /** Whether it rests because of small pieces, and more of them may have been read: what comes until its turn should be one piece. */
  get merges(): boolean {
    return this.#rest === 'small_pieces';
  }

  /**
   * @param length of a piece that was read, in bytes
   * @param more bytes that would take as long as what else there was to do with it
   */
  count(length: number, more = 0): void {
    this.#bytes += length + more;
    if (length < smallPiece) {
      this.#smallPieces += 1;
      if (this.#smallPieces === maxInRead) this.#owner.onFlood?.();
    }
    if (this.#smallPieces >= maxSmallPieces) this.rest(true);
    else if (this.#bytes >= maxPerTurn) this.rest(false);
  }

  /** A request has come. */
  forgive(): void {
    this.#smallPieces = Math.max(0, this.#smallPieces - smallPiecesOfRequest);
  }

  /** Has it wait for its turn. */
  rest(hasSmallPieces: boolean): void {
    if (this.rests) return;
    this.#rest = hasSmallPieces ? 'small_pieces' : 'bytes';
    this.#owner.onRest(() => {
      this.#bytes = 0;
      this.#smallPieces = 0;
      this.end();
      this.#owner.onPace();
    }, hasSmallPieces);
    this.#owner.onPace();
  }

  /** It rests no more, for example because others read it from now on. */
  end(): void {
    this.#rest = undefined;
  }
}

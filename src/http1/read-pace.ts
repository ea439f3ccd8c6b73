/**
 * After this many bytes, a socket is not read until its turn comes. If more keeps arriving on a socket, libuv would read it 32 times in a
 * turn of the event loop, two megabytes, and everybody else would wait meanwhile for all long bodies in progress.
 */
export const maxPerTurn = 262_144;

/**
 * A piece below `smallPiece` bytes costs as much as one of some kilobytes. After `maxSmallPieces` of them, too, a client is not read until
 * its turn comes: a socket can deliver 2,900 TLS records of one byte each at a time, every stranger may send them, and many strangers would
 * fill each turn.
 */
export const smallPiece = 1_024;
const maxSmallPieces = 100;

/**
 * This many small pieces come only on TLS, in one read: what was read before the rest began is still decrypted, up to 2,900 in seven
 * milliseconds.
 */
const maxInRead = 300;

/** How many small pieces a request may have without causing a wait at some later request. */
const smallPiecesOfRequest = 8;

/** Why a client is not read until its turn comes: it has sent much, or many small pieces, or others have. */
export type SuspendReason = 'bytes' | 'smallPieces' | 'heldUp';

export interface PaceOwner {
  /** Nothing is read until `resume` is called, in a later turn. */
  onSuspend(resume: () => void, reason: SuspendReason): void;
  /** Hundreds of small pieces have come in one read, and more of it may follow. */
  onFlood?(): void;
  /** `rests` has changed. */
  onPace(): void;
}

/** How fast a socket is read, so that it does not fill the turns of the event loop. */
export class ReadPace {
  readonly #owner: PaceOwner;
  /** What has been read since the last rest. */
  #bytes = 0;
  #smallPieces = 0;
  /** Why the socket rests, if it does. */
  #reason: SuspendReason | undefined;

  constructor(owner: PaceOwner) {
    this.#owner = owner;
  }

  /** Whether the socket should not be read now. */
  get isSuspended(): boolean {
    return this.#reason !== undefined;
  }

  /** Whether small pieces may already have been read when the rest began: what comes until the socket's turn should be one piece. */
  get merges(): boolean {
    return this.#reason !== undefined && this.#reason !== 'bytes';
  }

  /**
   * @param length the length in bytes of a piece that was read
   * @param more how many bytes would take as long as the other work on that piece
   */
  count(length: number, more = 0): void {
    this.#bytes += length + more;
    if (length < smallPiece) {
      this.#smallPieces += 1;
      if (this.#smallPieces === maxInRead) this.#owner.onFlood?.();
    }
    if (this.#smallPieces >= maxSmallPieces) this.suspend('smallPieces');
    else if (this.#bytes >= maxPerTurn) this.suspend('bytes');
  }

  /** A request has arrived. */
  forgive(): void {
    this.#smallPieces = Math.max(0, this.#smallPieces - smallPiecesOfRequest);
  }

  /** Makes the socket wait for its turn. */
  suspend(reason: SuspendReason): void {
    if (this.isSuspended) return;
    this.#reason = reason;
    this.#owner.onSuspend(() => {
      this.#bytes = 0;
      this.#smallPieces = 0;
      this.end();
      this.#owner.onPace();
    }, reason);
    this.#owner.onPace();
  }

  /** Ends the rest, for example because others read the socket from now on. */
  end(): void {
    this.#reason = undefined;
  }
}

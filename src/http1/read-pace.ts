/**
 * After this many bytes, a socket is not read until its turn comes. Otherwise, if data keeps arriving on a socket, libuv would read that
 * socket 32 times in a turn of the event loop (two megabytes), and all other clients would wait for all long bodies in progress.
 */
export const maxPerTurn = 262_144;

/**
 * A piece of fewer than `smallPiece` bytes costs as much as one of several kilobytes. So a client that has sent `maxSmallPieces` small
 * pieces must also wait for its turn, just as after `maxPerTurn` bytes. One read of a socket can deliver 2,900 one-byte TLS records. Anyone
 * can send these, and enough clients doing so would fill every turn.
 */
export const smallPiece = 1_024;
export const maxSmallPieces = 100;

/**
 * Only a single read of a TLS socket can deliver this many small pieces. The records of that read are still decrypted after the socket is
 * suspended, up to 2,900 in seven milliseconds.
 */
export const maxInRead = 300;

/** How many small pieces a request may consist of without making a later request wait. */
export const smallPiecesOfRequest = 8;

/** Why a client must wait for its turn: it has sent a lot of data or many small pieces, or other clients have caused too much work. */
export type SuspendReason = 'bytes' | 'smallPieces' | 'heldUp';

export interface PaceOwner {
  /** The socket is suspended. Nothing is read until `resume` is called in a later turn. */
  onSuspend(resume: () => void, reason: SuspendReason): void;
  /** A small piece has arrived that is not the first one of a request. @param nth how many small pieces the client has sent so far */
  onSmallPiece?(nth: number): void;
  /** `isSuspended` has changed. */
  onPace(): void;
}

/** Limits how fast a socket is read, so that it does not fill the turns of the event loop. */
export class ReadPace {
  readonly #owner: PaceOwner;
  /** How many bytes have been read since the socket was last suspended. */
  #bytes = 0;
  /** How many small pieces have been read since the socket was last suspended. */
  #smallPieces = 0;
  /** Why the socket is suspended, if it is. */
  #reason: SuspendReason | undefined;

  constructor(owner: PaceOwner) {
    this.#owner = owner;
  }

  /** Whether the socket should not be read now. */
  get isSuspended(): boolean {
    return this.#reason !== undefined;
  }

  /** Whether small pieces that have already been read may still arrive while the socket is suspended. If so, they are joined. */
  get merges(): boolean {
    return this.#reason !== undefined && this.#reason !== 'bytes';
  }

  /**
   * Counts a piece that was read.
   *
   * @param length the length of the piece in bytes
   * @param more other work on the piece, expressed as the number of bytes that take as long to read
   */
  count(length: number, more = 0): void {
    this.#bytes += length + more;
    if (length < smallPiece) {
      this.#smallPieces += 1;
      if (this.#smallPieces > 1) this.#owner.onSmallPiece?.(this.#smallPieces);
    }
    if (this.#smallPieces >= maxSmallPieces) this.suspend('smallPieces');
    else if (this.#bytes >= maxPerTurn) this.suspend('bytes');
  }

  /** Forgets what has been read, for an exchange that begins, unless the socket is suspended. */
  restart(): void {
    if (this.isSuspended) return;
    this.#bytes = 0;
    this.#smallPieces = 0;
  }

  /** Called for each request that has arrived. Deducts the small pieces that one request may consist of. */
  forgive(): void {
    this.#smallPieces = Math.max(0, this.#smallPieces - smallPiecesOfRequest);
  }

  /** Suspends the socket until its turn comes. */
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

  /** Ends the suspension, for example because other code reads the socket from now on. */
  end(): void {
    this.#reason = undefined;
  }
}

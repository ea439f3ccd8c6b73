/** Maximum size of one read from a socket, in bytes. */
const size = 65_536;

/**
 * Smaller pieces are copied to memory of their own. Otherwise, buffers that are less than half full would take up far more memory than is
 * charged for them.
 */
const minPiece = size / 2;

/** How many buffers are kept for later pieces. They take up two megabytes. */
const maxFree = 32;

/**
 * Copies of pieces that go from one socket to another. Their memory is reused, because V8 counts new buffers as future garbage. With a new
 * buffer for each piece, V8 would collect the whole heap after every few large bodies, which would take up a third of the time spent on
 * those bodies.
 */
export class PieceBuffers {
  readonly #free: Buffer[] = [];

  /** Copies a piece. The copy must be released once. */
  copy(piece: Buffer): Buffer {
    if (piece.length < minPiece || piece.length > size) return Buffer.from(piece);
    const buffer = this.#free.pop() ?? Buffer.allocUnsafeSlow(size);
    piece.copy(buffer);
    return buffer.subarray(0, piece.length);
  }

  /** Takes back a copy that is no longer read, because it has been written or its socket has closed. */
  release(copy: Buffer): void {
    if (copy.length < minPiece || copy.length > size || this.#free.length === maxFree) return;
    this.#free.push(Buffer.from(copy.buffer));
  }
}

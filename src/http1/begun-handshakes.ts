/**
 * Maximum number of TLS handshakes in progress. A client may send a message of its handshake in thousands of records. Nothing reports these
 * records, and all clients may send them at the same time. At this number, they take up to a fifth of a second.
 */
const maxBegun = 256;

interface Handshake {
  /** Closes the connection. */
  exceed(): void;
}

/** The TLS handshakes that have begun and are not complete. If there are too many, the oldest one ends. */
export class BegunHandshakes<T extends Handshake> {
  readonly #begun = new Set<T>();

  has(handshake: T): boolean {
    return this.#begun.has(handshake);
  }

  begin(handshake: T): void {
    this.#begun.add(handshake);
    const [oldest] = this.#begun;
    if (oldest === undefined || this.#begun.size <= maxBegun) return;
    this.#begun.delete(oldest);
    oldest.exceed();
  }

  end(handshake: T): void {
    this.#begun.delete(handshake);
  }
}

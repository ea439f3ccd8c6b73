/** The head of a response, and its body if bodies are kept. */
export interface Response {
  readonly status: number;
  readonly head: string;
  readonly body: Buffer;
}

/** Finds the ends of responses in the bytes of a connection. All responses in the benchmark state their length. */
export class ResponseReader {
  readonly #onResponse: (response: Response) => void;
  readonly #keepsBodies: boolean;
  #pending: Buffer | undefined;
  #head = '';
  /** How many bytes of the current body are still expected. */
  #awaited = 0;
  #pieces: Buffer[] = [];

  constructor(onResponse: (response: Response) => void, keepsBodies: boolean) {
    this.#onResponse = onResponse;
    this.#keepsBodies = keepsBodies;
  }

  /** @throws if a response does not state its length */
  push(chunk: Buffer): void {
    let rest = chunk;
    while (rest.length > 0) {
      if (this.#head === '') {
        if (this.#pending !== undefined) rest = Buffer.concat([this.#pending, rest]);
        const end = rest.indexOf('\r\n\r\n');
        this.#pending = end === -1 ? rest : undefined;
        if (end === -1) return;
        this.#head = rest.toString('latin1', 0, end);
        const length = /\ncontent-length: *(\d+)/i.exec(this.#head)?.[1];
        if (length === undefined) throw new Error(`a response without Content-Length:\n${this.#head}`);
        this.#awaited = Number(length);
        rest = rest.subarray(end + 4);
      }
      const part = rest.subarray(0, this.#awaited);
      if (this.#keepsBodies) this.#pieces.push(part);
      this.#awaited -= part.length;
      rest = rest.subarray(part.length);
      if (this.#awaited > 0) return;
      const response = { status: Number(this.#head.slice(9, 12)), head: this.#head, body: Buffer.concat(this.#pieces) };
      this.#head = '';
      this.#pieces = [];
      this.#onResponse(response);
    }
  }
}

/** The value of a header in a head, as it was received. */
export function headerOf(head: string, name: string): string | undefined {
  const start = `\n${name.toLowerCase()}:`;
  const from = head.toLowerCase().indexOf(start);
  if (from === -1) return undefined;
  const end = head.indexOf('\r', from + start.length);
  return head.slice(from + start.length, end === -1 ? undefined : end).trim();
}

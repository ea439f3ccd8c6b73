import { connect, type NetConnectOpts, type Socket } from 'node:net';
import { onTestFinished } from 'vitest';

/** How long a wait may take, in ms. It is less than a test may take, so that the message of a failure names what was awaited. */
const patience = 25_000;

/** A client that sends raw bytes, and records the bytes that it receives and how the connection ends. */
export class Connection {
  readonly socket: Socket;
  /** All bytes received so far, one character each. */
  received = '';
  /** How the other side has ended the connection: by FIN (`end`) or by a reset. */
  ending: 'open' | 'end' | 'reset' = 'open';
  #changed: () => void = () => {};
  #deadline: NodeJS.Timeout | undefined;

  constructor(socket: Socket) {
    this.socket = socket;
    socket.on('data', (chunk: Buffer) => {
      this.received += chunk.toString('latin1');
      this.#changed();
    });
    socket.on('end', () => this.#end('end'));
    // After the other side has closed, a write fails with a reset or with a broken pipe, which mean the same.
    socket.on('error', () => this.#end('reset'));
    socket.on('close', () => this.#end('end'));
    onTestFinished(() => void socket.destroy());
  }

  /** Sends bytes. Each character of a string is one byte. */
  send(bytes: string | Buffer): this {
    this.socket.write(typeof bytes === 'string' ? Buffer.from(bytes, 'latin1') : bytes);
    return this;
  }

  /** Resolves with everything received so far as soon as it satisfies `test`. Rejects if the connection ends first. */
  until(test: (received: string) => boolean, awaited = 'the other side sends more'): Promise<string> {
    return this.#wait(awaited, () => {
      if (test(this.received)) return this.received;
      return this.ending === 'open' ? undefined : new Error(`the connection ended after ${this.#beginning()}`);
    });
  }

  /** Resolves with everything received so far as soon as it contains `text` this many times. */
  untilText(text: string, times = 1): Promise<string> {
    return this.until(
      (received) => received.split(text).length > times,
      `the other side sends ${JSON.stringify(text)}`,
    );
  }

  /** Resolves with everything received when the other side has ended the connection. */
  untilEnded(): Promise<string> {
    return this.#wait('the other side ends the connection', () => (this.ending === 'open' ? undefined : this.received));
  }

  /** Resolves with the bytes, or rejects with the error, that `outcome` returns. A new wait replaces the previous one. */
  #wait(awaited: string, outcome: () => string | Error | undefined): Promise<string> {
    clearTimeout(this.#deadline);
    const timedOut = new Error(`timed out after ${patience} ms: ${awaited}`);
    return new Promise((resolve, reject) => {
      this.#changed = () => {
        const value = outcome();
        if (value === undefined) return;
        clearTimeout(this.#deadline);
        if (typeof value === 'string') resolve(value);
        else reject(value);
      };
      this.#deadline = setTimeout(() => {
        timedOut.message += `, after ${this.#beginning()}`;
        reject(timedOut);
      }, patience);
      this.#changed();
    });
  }

  /** The start of the received bytes, for a message. */
  #beginning(): string {
    return JSON.stringify(this.received.slice(0, 500));
  }

  #end(ending: 'end' | 'reset'): void {
    if (this.ending === 'open') this.ending = ending;
    this.#changed();
  }
}

/**
 * Opens a connection that is closed when the test is over.
 *
 * @param to a port on loopback, or another address
 */
export function openConnection(to: number | NetConnectOpts): Promise<Connection> {
  return new Promise((resolve, reject) => {
    const address = typeof to === 'number' ? { host: '127.0.0.1', port: to } : to;
    // Allow half-open connections, so that each test decides when its own side ends.
    const socket = connect({ ...address, allowHalfOpen: true }, () => {
      socket.off('error', reject);
      resolve(new Connection(socket));
    });
    socket.once('error', reject);
  });
}

/** Sends bytes on a new connection, and resolves with everything received until the other side ends it. */
export async function exchangeRaw(to: number | NetConnectOpts, bytes: string): Promise<string> {
  const client = await openConnection(to);
  try {
    return await client.send(bytes).untilEnded();
  } finally {
    client.socket.destroy();
  }
}

/** The parts of a raw response. */
export interface RawResponse {
  readonly status: number;
  /** Values by lower-case name. Several values of one name are joined by `, `. */
  readonly headers: Readonly<Record<string, string>>;
  readonly body: string;
}

/** Parses `raw`, which must consist of complete responses to requests other than HEAD, each with a stated length or in chunks. */
export function parseResponses(raw: string): RawResponse[] {
  const responses: RawResponse[] = [];
  let rest = raw;
  while (rest !== '') {
    const end = rest.indexOf('\r\n\r\n');
    if (end === -1) throw new Error(`not a whole head: ${JSON.stringify(rest)}`);
    const [statusLine = '', ...lines] = rest.slice(0, end).split('\r\n');
    const status = Number(/^HTTP\/1\.1 (\d{3}) [ -~]*$/.exec(statusLine)?.[1]);
    if (Number.isNaN(status)) throw new Error(`not a status line: ${JSON.stringify(statusLine)}`);
    const headers: Record<string, string> = {};
    for (const line of lines) {
      const name = line.slice(0, line.indexOf(':')).toLowerCase();
      const value = line.slice(line.indexOf(':') + 1).trim();
      headers[name] = headers[name] === undefined ? value : `${headers[name]}, ${value}`;
    }
    rest = rest.slice(end + 4);
    let body = '';
    if (headers['transfer-encoding'] === 'chunked') {
      [body, rest] = takeChunks(rest);
    } else if (status >= 200 && status !== 204 && status !== 304) {
      const length = Number(headers['content-length']);
      if (!(rest.length >= length)) throw new Error(`not a whole body: ${rest.length} of ${headers['content-length']}`);
      body = rest.slice(0, length);
      rest = rest.slice(length);
    }
    responses.push({ status, headers, body });
  }
  return responses;
}

/** Splits a chunked body from the bytes after it. */
function takeChunks(raw: string): [body: string, rest: string] {
  let body = '';
  let at = 0;
  for (;;) {
    const size = /^([0-9a-f]+)\r\n/i.exec(raw.slice(at, at + 20));
    if (size === null) throw new Error('not a whole chunk');
    const length = Number.parseInt(size[1] ?? '', 16);
    at += size[0].length;
    const chunk = raw.slice(at, at + length);
    if (chunk.length < length || raw.slice(at + length, at + length + 2) !== '\r\n')
      throw new Error('not a whole chunk');
    at += length + 2;
    if (length === 0) return [body, raw.slice(at)];
    body += chunk;
  }
}

/** Parses `raw`, which must consist of exactly one response. */
export function parseOnly(raw: string): RawResponse {
  const responses = parseResponses(raw);
  const [response] = responses;
  if (response === undefined || responses.length > 1) throw new Error(`${responses.length} responses instead of one`);
  return response;
}

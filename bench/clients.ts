import { connect, type Socket } from 'node:net';
import { ResponseReader } from './response-reader.ts';

/**
 * Connections that send requests one after another until they are stopped. All responses must have the same length and status as the first
 * one, so that hardly anything has to be parsed.
 */
export class Clients {
  readonly #requests: readonly Buffer[];
  readonly #connections: readonly Connection[];
  #next = 0;
  #stopped = false;
  /** The number of complete responses so far. */
  answered = 0;

  /** Begins to send requests. */
  constructor(port: number, requests: readonly Buffer[], connections: number) {
    this.#requests = requests;
    const onResponse = (connection: Connection): void => this.#onResponse(connection);
    this.#connections = Array.from({ length: connections }, () => new Connection(port, onResponse));
    for (const connection of this.#connections) this.#send(connection);
  }

  stop(): void {
    this.#stopped = true;
    for (const connection of this.#connections) connection.end();
  }

  #send(connection: Connection): void {
    connection.send(this.#requests[this.#next] as Buffer);
    this.#next = (this.#next + 1) % this.#requests.length;
  }

  #onResponse(connection: Connection): void {
    this.answered += 1;
    if (!this.#stopped) this.#send(connection);
  }
}

/** One connection, which sends one request at a time. */
class Connection {
  readonly #socket: Socket;
  readonly #onResponse: (connection: Connection) => void;
  #ended = false;
  /** The status of the first response. */
  #status = '';
  #length = 0;
  #received = 0;

  constructor(port: number, onResponse: (connection: Connection) => void) {
    this.#onResponse = onResponse;
    const first = new ResponseReader(({ head, body }) => {
      this.#status = head.slice(9, 12);
      this.#length = head.length + 4 + body.length;
    }, true);
    // All connections could share one buffer, but a separate one is fast enough.
    const buffer = Buffer.allocUnsafe(65_536);
    this.#socket = connect({
      host: '127.0.0.1',
      port,
      onread: {
        buffer,
        callback: (length) => {
          const chunk = buffer.subarray(0, length);
          if (this.#length === 0) first.push(Buffer.from(chunk));
          else if (this.#received === 0 && chunk.toString('latin1', 9, 12) !== this.#status)
            throw new Error('another status');
          this.#receive(length);
          return true;
        },
      },
    }).setNoDelay(true);
    this.#socket.on('close', () => {
      if (!this.#ended) throw new Error('the server closed a connection');
    });
  }

  send(request: Buffer): void {
    this.#socket.write(request);
  }

  end(): void {
    this.#ended = true;
    this.#socket.destroy();
  }

  #receive(length: number): void {
    this.#received += length;
    if (this.#length === 0 || this.#received < this.#length) return;
    if (this.#received > this.#length) throw new Error('a response has another length than the first');
    this.#received = 0;
    this.#onResponse(this);
  }
}

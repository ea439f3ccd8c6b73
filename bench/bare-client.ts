import { connect, type Socket } from 'node:net';
import type { ResponseHandler, UpstreamCall, UpstreamRequest } from '../src/upstream/call.ts';

/**
 * The floor's client in place of `src/upstream/`, for a build made for measuring: no timeouts, no second attempts, and it trusts
 * the upstream to state every length.
 */
export class BareClient {
  readonly #idle: Connection[] = [];

  send(port: number, { method, target, headers, body }: UpstreamRequest, handler: ResponseHandler): UpstreamCall {
    let head = `${method} ${target} HTTP/1.1\r\n`;
    for (let i = 0; i + 1 < headers.length; i += 2) head += `${headers[i]}: ${headers[i + 1]}\r\n`;
    const connection = this.#idle.pop() ?? new Connection(port, this.#idle);
    connection.send(`${head}\r\n`, Buffer.isBuffer(body) ? body : Buffer.alloc(0), handler);
    return { pause: () => {}, resume: () => {}, abort: () => {} };
  }
}

class Connection {
  readonly #socket: Socket;
  #received: Buffer | undefined;
  #handler: ResponseHandler | undefined;

  constructor(port: number, idle: Connection[]) {
    this.#socket = connect(port, '127.0.0.1').setNoDelay(true);
    this.#socket.on('data', (chunk: Buffer) => this.#receive(chunk, idle));
  }

  send(head: string, body: Buffer, handler: ResponseHandler): void {
    this.#handler = handler;
    this.#socket.write(head + body.toString('latin1'), 'latin1');
  }

  #receive(chunk: Buffer, idle: Connection[]): void {
    const all = this.#received === undefined ? chunk : Buffer.concat([this.#received, chunk]);
    this.#received = all;
    const end = all.indexOf('\r\n\r\n');
    if (end === -1) return;
    const [start = '', ...lines] = all.toString('latin1', 0, end).split('\r\n');
    const headers = lines.flatMap((line) => {
      const colon = line.indexOf(': ');
      return [line.slice(0, colon), line.slice(colon + 2)];
    });
    const length = Number(headers[headers.findIndex((name) => /^content-length$/i.test(name)) + 1]);
    if (all.length < end + 4 + length) return;
    this.#received = undefined;
    idle.push(this);
    this.#handler?.onHead(Number(start.slice(9, 12)), headers);
    this.#handler?.onData(all.subarray(end + 4));
    this.#handler?.onEnd();
  }
}

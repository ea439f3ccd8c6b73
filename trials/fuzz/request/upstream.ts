import { valuesOf } from '../http/message.ts';
import { readRequest, type Request } from '../http/requests.ts';
import { isLast } from '../http/responses.ts';
import type { Socket } from 'node:net';

/** A request as it reached the upstream, and its response. */
export interface Seen {
  readonly request: Request;
  /** The number that the response carries as `X-Seen`. */
  readonly number: string;
  readonly status: number;
  readonly body: string;
  /** The bytes that arrived after the 101 response; all of them were echoed. */
  tunnelled: string;
}

/** An upstream that parses strictly, records its requests, and sends various responses. */
export class SeeingUpstream {
  readonly #seen = new Map<string, Seen[]>();
  readonly #faults: string[] = [];
  /** The tunnels, each with the request that opened it. */
  readonly #tunnels = new WeakMap<Socket, Seen>();
  #number = 0;

  /** Returns and clears the requests of the client at this address. */
  take(address: string): readonly Seen[] {
    const seen = this.#seen.get(address) ?? [];
    this.#seen.delete(address);
    return seen;
  }

  /** Returns and clears bytes that an upstream must never receive. */
  takeFaults(): readonly string[] {
    return this.#faults.splice(0);
  }

  /**
   * Parses the bytes of a connection, and responds.
   *
   * @returns the incomplete rest
   */
  read(bytes: string, socket: Socket): string {
    const tunnel = this.#tunnels.get(socket);
    if (tunnel !== undefined) {
      tunnel.tunnelled += bytes;
      socket.write(bytes, 'latin1');
      return '';
    }
    let at = 0;
    while (at < bytes.length) {
      const request = readRequest(bytes, at);
      if (request === 'incomplete') break;
      // Towards upstreams, the sidecar must be stricter than Node's parser is towards clients.
      if (request === 'faulty' || !/^[A-Za-z-]+ \//.test(bytes.slice(at, at + 100))) {
        this.#faults.push(bytes);
        socket.destroy();
        return '';
      }
      at = request.end;
      const seen = this.#respondTo(request);
      const [address = ''] = valuesOf(request, 'x-forwarded-for');
      const before = this.#seen.get(address);
      if (before === undefined) this.#seen.set(address, [seen.seen]);
      else before.push(seen.seen);
      socket.write(seen.bytes, 'latin1');
      if (seen.seen.status === 101) {
        this.#tunnels.set(socket, seen.seen);
        return this.read(bytes.slice(at), socket);
      }
      if (isLast({ ...request, status: 200 })) socket.end();
    }
    return bytes.slice(at);
  }

  #respondTo(request: Request): { readonly seen: Seen; readonly bytes: string } {
    this.#number += 1;
    const number = String(this.#number);
    const isUpgrade = valuesOf(request, 'upgrade').join().toLowerCase() === 'websocket';
    const ordinary = responses[this.#number % responses.length] ?? responses[0];
    // Accepts two of three upgrades. The others get the same variety of responses as ordinary requests.
    const { status, body, headers } = isUpgrade && this.#number % 3 > 0 ? switching : ordinary;
    const isChunked = headers.includes('Transfer-Encoding: chunked');
    const hasBody = request.method !== 'HEAD' && status !== 204 && status !== 101;
    const lines = [`HTTP/1.1 ${status} Fuzzed`, `X-Seen: ${number}`, ...headers];
    if (!isChunked && status !== 204 && status !== 101) lines.push(`Content-Length: ${body.length}`);
    const content = isChunked ? `${body.length.toString(16)}\r\n${body}\r\n0\r\n\r\n` : body;
    const bytes = `${lines.join('\r\n')}\r\n\r\n${hasBody ? content : ''}`;
    return { seen: { request, number, status, body: hasBody ? body : '', tunnelled: '' }, bytes };
  }
}

interface Response {
  readonly status: number;
  readonly body: string;
  readonly headers: readonly string[];
}

const responses: readonly [Response, ...Response[]] = [
  { status: 200, body: '{"ok":true}', headers: ['Content-Type: application/json'] },
  { status: 201, body: `{"note":"${'x'.repeat(300)}"}`, headers: ['Content-Type: application/json; charset=utf-8'] },
  { status: 200, body: '<p>caf\xe9\0</p>', headers: ['Content-Type: text/html', 'ETag: "a"'] },
  { status: 204, body: '', headers: [] },
  { status: 422, body: '{"error":"no"}', headers: ['Content-Type: application/problem+json'] },
  { status: 200, body: '{"chunked":true}', headers: ['Content-Type: application/json', 'Transfer-Encoding: chunked'] },
  { status: 200, body: '', headers: ['Content-Type: application/json'] },
  { status: 500, body: 'upstream is ill', headers: ['Envelope: sealed', 'X-Request-Id: of-the-core'] },
];

const switching: Response = {
  status: 101,
  body: '',
  headers: ['Upgrade: websocket', 'Connection: Upgrade', 'Envelope: sealed', 'X-Request-Id: of-the-core'],
};

import { createServer, request as send, type IncomingMessage, type Server, type ServerResponse } from 'node:http';
import { setTimeout as sleep } from 'node:timers/promises';

/** A response from the sidecar, or one that the proxy made up. */
export interface Reply {
  readonly status: number;
  readonly headers: Record<string, string>;
  readonly body: Buffer;
}

/** A request, and how to respond to it. */
export interface Exchange {
  readonly request: IncomingMessage;
  readonly response: ServerResponse;
  /** Sends the request to the sidecar. */
  readonly forward: () => Promise<Reply>;
  readonly reply: (reply: Reply) => void;
}
export type Behaviour = (exchange: Exchange) => unknown;

/** A proxy between a merchant and the sidecar that behaves as the test says. */
export class Proxy {
  behaviour: Behaviour = honest;
  /** The number of requests received, by `Idempotency-Key`. A busy machine delivers some only after the client has given up. */
  readonly received = new Map<string, number>();
  readonly server: Server;

  constructor(sidecarPort: () => number) {
    this.server = createServer((request, response) => void this.#handle(request, response, sidecarPort()));
    this.server.keepAliveTimeout = 60_000;
  }

  async #handle(request: IncomingMessage, response: ServerResponse, port: number): Promise<void> {
    const chunks: Buffer[] = [];
    for await (const chunk of request as AsyncIterable<Buffer>) chunks.push(chunk);
    const key = String(request.headers['idempotency-key']);
    this.received.set(key, (this.received.get(key) ?? 0) + 1);
    const body = Buffer.concat(chunks);
    await this.behaviour({
      request,
      response,
      forward: () => forward(request, body, port),
      reply: ({ status, headers, body: bytes }) => void response.writeHead(status, headers).end(bytes),
    });
  }
}

function forward(request: IncomingMessage, body: Buffer, port: number): Promise<Reply> {
  const { method, url: path, headers: received } = request;
  const headers = { ...received, connection: 'close' };
  delete headers['transfer-encoding'];
  return new Promise((resolve, reject) => {
    const sent = send({ host: '127.0.0.1', port, method, path, headers, agent: false }, (response) => {
      const chunks: Buffer[] = [];
      response.on('data', (chunk: Buffer) => chunks.push(chunk));
      response.on('error', reject);
      response.on('end', () => {
        const rows = Object.entries(response.headers).filter(
          ([name]) => !/^(?:connection|keep-alive|transfer-encoding)$/.test(name),
        );
        const headers = Object.fromEntries(rows.map(([name, value]) => [name, String(value)]));
        resolve({ status: response.statusCode ?? 0, headers, body: Buffer.concat(chunks) });
      });
    });
    sent.on('error', reject);
    sent.end(body);
  });
}

export const honest: Behaviour = async (exchange) => exchange.reply(await exchange.forward());

/** Responds without sending the request to the sidecar. */
export const says =
  (status: number, headers: Record<string, string>, body: string): Behaviour =>
  ({ reply }) =>
    reply({ status, headers, body: Buffer.from(body) });

/** Responds with a changed version of the sidecar's response. */
export const changing =
  (change: (reply: Reply) => Reply): Behaviour =>
  async (exchange) =>
    exchange.reply(sized(change(await exchange.forward())));

function sized({ status, headers, body }: Reply): Reply {
  return { status, headers: { ...headers, 'content-length': String(body.length) }, body };
}

/** Accidents that can happen to a request on its way. In each of them, the core makes at most one payment. */
export const hostile = {
  pass: honest,
  delayed: async (exchange) => {
    await sleep(50);
    await honest(exchange);
  },
  'cut before the sidecar': ({ request }) => request.socket.destroy(),
  'cut before the response': async ({ request, forward }) => {
    await forward();
    request.socket.destroy();
  },
  'reset before the response': async ({ request, forward }) => {
    await forward();
    request.socket.resetAndDestroy();
  },
  'cut in the response': async ({ request, response, forward }) => {
    const { status, headers, body } = await forward();
    response.writeHead(status, headers).write(body.subarray(0, body.length / 2), () => request.socket.destroy());
  },
  'answered late': async ({ request, response, forward }) => {
    const { status, headers, body } = await forward();
    // Wait until the client has given up.
    if (!request.socket.destroyed) await new Promise((resolve) => void request.socket.once('close', resolve));
    response.writeHead(status, headers).end(body);
  },
  'request repeated': async (exchange) => {
    await exchange.forward();
    await honest(exchange);
  },
  'response repeated': async ({ request, forward }) => {
    const { status, headers, body } = sized(await forward());
    const head = Object.entries(headers).map(([name, value]) => `${name}: ${value}\r\n`);
    const bytes = Buffer.concat([Buffer.from(`HTTP/1.1 ${status} Created\r\n${head.join('')}\r\n`), body]);
    request.socket.write(bytes);
    await sleep(20);
    if (!request.socket.destroyed) request.socket.write(bytes);
  },
  'closed after the response': async ({ request, response, forward }) => {
    const { status, headers, body } = await forward();
    response.writeHead(status, headers).end(body, () => request.socket.end());
  },
} satisfies Record<string, Behaviour>;

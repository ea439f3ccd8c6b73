import { createServer, type AddressInfo, type Socket } from 'node:net';
import type { Defer } from '../load/stage.ts';

/** How the core ends a connection. After a half-close, it continues to read. */
export const endings = ['close', 'reset', 'half-close'] as const;
export type Ending = (typeof endings)[number];

/** When the core ends the connection during a request. */
export const moments = ['at the head', 'after the first byte of the response', 'with the response'] as const;
export type Moment = (typeof moments)[number];

/** A core that ends its connections at the worst moments, and counts the heads of each charge. */
export interface FaultyCore {
  readonly origin: string;
  /** How many times the core saw each charge, by idempotency key. */
  readonly seen: ReadonlyMap<string, number>;
  /** The core's open connections. */
  readonly connections: ReadonlySet<Socket>;
  /** When the core saw the last head, on the scale of `performance.now()`. */
  lastSeen: number;
  /** The fault for the next requests; undefined if these get responses. */
  fault: { readonly moment: Moment; readonly ending: Ending } | undefined;
}

export async function startFaultyCore(defer: Defer): Promise<FaultyCore> {
  const seen = new Map<string, number>();
  const connections = new Set<Socket>();
  const server = createServer({ allowHalfOpen: true, noDelay: true }, (socket) => {
    connections.add(socket);
    socket.on('error', () => {});
    socket.on('end', () => socket.destroy());
    socket.on('close', () => connections.delete(socket));
    let received = '';
    let counted = false;
    socket.on('data', (chunk: Buffer) => {
      received += chunk.toString('latin1');
      const head = /^POST [^]*?\r\n\r\n/.exec(received)?.[0];
      if (head === undefined) return;
      const id = valueOf(head, 'idempotency-key');
      if (!counted) {
        counted = true;
        core.lastSeen = performance.now();
        seen.set(id, (seen.get(id) ?? 0) + 1);
        if (core.fault?.moment === 'at the head') {
          endConnection(socket, core.fault.ending);
          return;
        }
      }
      if (received.length < head.length + Number(valueOf(head, 'content-length'))) return;
      received = '';
      counted = false;
      respond(socket, id, core.fault);
    });
  });
  await new Promise<void>((resolve) => void server.listen(0, '127.0.0.1', resolve));
  defer(() => {
    for (const socket of connections) socket.destroy();
    server.close();
  });
  const origin = `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
  const core: FaultyCore = { origin, seen, connections, lastSeen: 0, fault: undefined };
  return core;
}

export function endConnection(socket: Socket, ending: Ending): void {
  if (ending === 'close') socket.destroy();
  else if (ending === 'reset') socket.resetAndDestroy();
  else socket.end();
}

function respond(socket: Socket, id: string, fault: FaultyCore['fault']): void {
  const body = JSON.stringify({ id });
  const whole = `HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: ${body.length}\r\n\r\n${body}`;
  if (fault === undefined) {
    socket.write(whole);
    return;
  }
  const { moment, ending } = fault;
  socket.write(moment === 'with the response' ? whole : whole.slice(0, 1));
  // The response makes the client send its next request on this connection, which then races with the end of the
  // connection.
  if (moment === 'with the response') spin(Math.random() * 0.3);
  endConnection(socket, ending);
}

/** Waits busily for this many milliseconds, because timers are not exact enough for a race. */
export function spin(milliseconds: number): void {
  const end = performance.now() + milliseconds;
  while (performance.now() < end);
}

function valueOf(head: string, name: string): string {
  return new RegExp(`^${name}: (.*)\r$`, 'im').exec(head)?.[1] ?? '';
}

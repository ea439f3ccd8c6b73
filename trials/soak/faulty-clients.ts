import { once } from 'node:events';
import type { Socket } from 'node:net';
import { setTimeout } from 'node:timers/promises';
import { WebSocket } from 'ws';
import { parseOnly } from '../../test/support/connection.ts';
import { connectTo, readyEvent, reset, type PeerTls } from '../load/tls-socket.ts';
import { headersOf, plainCharge, sealedCharge, type Exchange } from '../load/pair.ts';
import { keys } from '../../test/support/sidecar.ts';
import type { Targets } from './targets.ts';

/**
 * How long a slow client waits between two pieces, and how long an impatient one waits for a response, in milliseconds.
 */
const hesitation = 20;

/** A client that disconnects at a different stage each time, cleanly or not. */
export async function abort({ pair, port, tls, id }: Targets, turn: number): Promise<string | undefined> {
  const charge = turn % 2 === 0 ? plainCharge : sealedChargeOfOne;
  const path = turn % 2 === 0 ? '/charges' : '/api/s2s/charges';
  const [small, slow, large] = [
    written(charge(pair, id(), path)),
    written(charge(pair, id(), `${path}/slow`)),
    written(charge(pair, id(), `${path}/padded/500000`)),
  ];
  const stages: readonly ((socket: Socket) => Promise<unknown>)[] = [
    () => Promise.resolve(),
    (socket) => begun(socket, small.slice(0, 40)),
    (socket) => begun(socket, small.slice(0, -10)),
    (socket) => Promise.resolve(socket.write(small)),
    (socket) => begun(socket, slow),
    (socket) => Promise.race([once(socket.end(large), 'data'), setTimeout(1_000)]),
  ];
  const socket = await opened(port, tls);
  await stages[turn % stages.length]?.(socket);
  if (turn % 4 < 2) socket.destroy();
  else reset(socket);
  return undefined;
}

function sealedChargeOfOne(pair: Targets['pair'], id: string, path: string): Exchange {
  return sealedCharge(pair, pair[0], id, path);
}

/** A client that sends in small pieces and reads in small steps. */
export async function slowly({ pair, port, tls, id }: Targets, turn: number): Promise<string | undefined> {
  const exchange =
    turn % 2 === 0
      ? plainCharge(pair, id(), '/charges/padded/500000', 2_000)
      : sealedCharge(pair, pair[1], id(), '/api/s2s/charges/padded/500000', 2_000);
  const socket = await opened(port, tls);
  let received = '';
  socket.on('data', (chunk: Buffer) => {
    received += chunk.toString('latin1');
    socket.pause();
    void setTimeout(1).then(() => socket.resume());
  });
  const ended = once(socket, 'close');
  const bytes = written(exchange);
  const piece = Math.ceil(bytes.length / 10);
  for (let at = 0; at < bytes.length; at += piece) {
    socket.write(bytes.slice(at, at + piece), 'latin1');
    await setTimeout(hesitation);
  }
  await ended;
  try {
    return exchange.complaint({ kind: 'answered', reused: false, ...parseOnly(received) });
  } catch (error) {
    return String(error).slice(0, 300);
  }
}

/** A client that uses a WebSocket, and closes it cleanly or not. */
export async function talk({ port, tls, id }: Targets, turn: number): Promise<string | undefined> {
  const socket = new WebSocket(`wss://127.0.0.1:${port}/socket`, { ...tls, headers: headersOf(keys.globex, id()) });
  try {
    await once(socket, 'open');
    for (const message of ['one', 'two', 'three']) {
      const echo = once(socket, 'message') as Promise<[Buffer]>;
      socket.send(message);
      const [response] = await echo;
      if (response.toString() !== message) return `${response.toString()} instead of ${message}`;
      await setTimeout(hesitation);
    }
    const closed = once(socket, 'close');
    if (turn % 2 === 0) socket.close();
    else socket.terminate();
    await closed;
    return undefined;
  } catch (error) {
    return String(error);
  }
}

/** The request of an exchange as text, for a separate connection. */
function written({ asked: { method, path, headers, body = '' } }: Exchange): string {
  const lines = Object.entries({ ...headers, 'Content-Length': body.length, Connection: 'close' });
  const head = lines.map(([name, value]) => `${name}: ${value}`).join('\r\n');
  return `${method} ${path} HTTP/1.1\r\nHost: localhost\r\n${head}\r\n\r\n${body}`;
}

async function begun(socket: Socket, bytes: string): Promise<void> {
  socket.write(bytes, 'latin1');
  await setTimeout(hesitation);
}

async function opened(port: number, tls: PeerTls): Promise<Socket> {
  const socket = connectTo(port, tls);
  await once(socket, readyEvent(tls));
  socket.on('error', () => {});
  return socket;
}

import { readFileSync } from 'node:fs';
import { connect, type Socket } from 'node:net';
import { setTimeout as sleep } from 'node:timers/promises';
import { ResponseReader } from './response-reader.ts';
import { knownMerchants, requestsOf } from './exchanges.ts';

/** How many sockets are opened at once. As many fit into a listener's queue. */
const batch = 100;

/**
 * Measures the memory in use with an increasing number of connections, each of which is used once and then left idle.
 *
 * @param memory returns the memory that the server is using, in bytes
 */
export async function memoryWithConnections(port: number, memory: () => number): Promise<Map<number, number>> {
  const [request] = requestsOf(knownMerchants.slice(0, 1), '/api/s2s/responses/156', 350);
  if (request === undefined) return new Map();
  const sockets: Socket[] = [];
  const measured = new Map<number, number>();
  for (const target of [10, 100, 1_000, 10_000].filter((count) => count < openFilesLimit() - 100)) {
    while (sockets.length < target) {
      const count = Math.min(batch, target - sockets.length);
      sockets.push(...(await Promise.all(Array.from({ length: count }, () => usedConnection(port, request)))));
    }
    await sleep(500);
    measured.set(target, memory());
  }
  for (const socket of sockets) socket.resetAndDestroy();
  return measured;
}

async function usedConnection(port: number, request: Buffer): Promise<Socket> {
  const socket = connect(port, '127.0.0.1');
  const answered = new Promise<void>((resolve, reject) => {
    const reader = new ResponseReader(() => resolve(), false);
    socket.on('data', (chunk: Buffer) => reader.push(chunk));
    socket.once('close', () => reject(new Error('the server closed a connection')));
  });
  socket.write(request);
  await answered;
  return socket;
}

function openFilesLimit(): number {
  return Number(/^Max open files\s+(\d+)/m.exec(readFileSync('/proc/self/limits', 'utf8'))?.[1] ?? 1_024);
}

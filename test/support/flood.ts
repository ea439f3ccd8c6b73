import { Worker } from 'node:worker_threads';
import { onTestFinished } from 'vitest';

const program = `
  const { connect } = require('node:net');
  const { workerData: { port, connections, opened } } = require('node:worker_threads');
  const sockets = [];
  const open = () => {
    if (sockets.length === connections) return;
    const socket = connect(port, '127.0.0.1', () => {
      if (Atomics.add(opened, 0, 1) + 1 === connections) Atomics.notify(opened, 0);
      open();
    });
    socket.on('error', () => {});
    sockets.push(socket);
  };
  for (let i = 0; i < 10; i += 1) open();
`;

/**
 * Opens connections from another thread while this thread is blocked, so that they all wait in the kernel.
 *
 * @returns how many the kernel has taken
 */
export function floodWhileBlocked(port: number, connections: number): number {
  const opened = new Int32Array(new SharedArrayBuffer(4));
  const worker = new Worker(program, { eval: true, workerData: { port, connections, opened } });
  onTestFinished(async () => void (await worker.terminate()));
  // Stop after three seconds without a new connection. A dropped handshake has then been retried at least once, and dropped again.
  const end = performance.now() + 20_000;
  for (let now = 0; (now = opened[0] ?? 0) < connections && performance.now() < end;) {
    if (Atomics.wait(opened, 0, now, 3_000) === 'timed-out' && opened[0] === now) break;
  }
  return opened[0] ?? 0;
}

import { once } from 'node:events';
import { setImmediate as turn } from 'node:timers/promises';
import { Worker } from 'node:worker_threads';
import { expect, onTestFinished, test, vi } from 'vitest';
import { parseAddress, connect } from '../../src/upstream/connect.ts';
import { startSilentUpstream } from '../support/byte-upstream.ts';
import { send } from '../support/client.ts';
import { configOf, keys, startSidecar, targetOf } from '../support/sidecar.ts';

/** Stops this thread for this many milliseconds, as a CPU quota or a paused machine does. */
function holdUp(milliseconds: number): void {
  Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0, milliseconds);
}

/** Starts an upstream in another thread, so that it responds while this thread is stopped. It counts requests and responses in `counts`. */
async function startThreadedUpstream(counts: Int32Array): Promise<string> {
  const program = `
    const { createServer } = require('node:http');
    const { parentPort, workerData } = require('node:worker_threads');
    const server = createServer((req, res) => {
      Atomics.add(workerData, 0, 1);
      setTimeout(() => {
        res.end('{}', () => {
          Atomics.add(workerData, 1, 1);
          Atomics.notify(workerData, 1);
        });
      }, 50);
    });
    server.listen(0, '127.0.0.1', () => parentPort.postMessage(server.address().port));
  `;
  const worker = new Worker(program, { eval: true, workerData: counts });
  onTestFinished(() => void worker.terminate());
  const [port] = (await once(worker, 'message')) as [number];
  return `http://127.0.0.1:${port}`;
}

test('a response that arrived while the process was suspended is sent, although its timeout has passed', async () => {
  const counts = new Int32Array(new SharedArrayBuffer(8));
  const config = configOf(await startThreadedUpstream(counts), { timeouts: { upstream: 2_000 } });
  const sidecar = await startSidecar(config);
  const response = send(sidecar, 'POST /notes', { key: keys.globex, body: '{}' });
  await vi.waitFor(() => expect(Atomics.load(counts, 0)).toBe(1), { interval: 1 });
  // This turn of the event loop has read its sockets, so timers run next.
  await turn();
  Atomics.wait(counts, 1, 0, 20_000);
  holdUp(2_500);
  expect((await response).status).toBe(200);
});

test('a connection that was established while the process was suspended is used, although its timeout has passed', async () => {
  const { origin } = await startSilentUpstream();
  const outcome = Promise.withResolvers<string>();
  await turn();
  connect(parseAddress(targetOf(origin)), 100, Buffer.alloc(1_024), {
    onConnected: (socket) => {
      socket.destroy();
      outcome.resolve('connected');
      return () => {};
    },
    onConnectFailed: outcome.resolve,
  });
  process.nextTick(() => process.nextTick(holdUp, 300));
  expect(await outcome.promise).toBe('connected');
});

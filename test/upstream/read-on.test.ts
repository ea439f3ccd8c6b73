import { createServer } from 'node:http';
import { setImmediate as nextTurn } from 'node:timers/promises';
import { expect, onTestFinished, test } from 'vitest';
import type { Queue } from '../../src/http1/incoming.ts';
import type { UpstreamCall } from '../../src/upstream/call.ts';
import { Upstream } from '../../src/upstream/upstream.ts';
import { ask, ignored } from '../support/ask-upstream.ts';
import { startByteUpstream } from '../support/byte-upstream.ts';
import { openConnection } from '../support/connection.ts';
import { eventually } from '../support/eventually.ts';
import { listen } from '../support/listen.ts';
import { manualQueue } from '../support/manual-queue.ts';
import { request } from '../support/refused.ts';
import { targetOf } from '../support/sidecar.ts';

const head = 'HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n';
/** The shortest chunk: a line with its size, and one byte. */
const tinyChunk = '1\r\na\r\n';

/** Starts an upstream that responds with `body`, which is in chunks. `waiting` lists the reads that wait for their turn. */
async function start(body: string) {
  const core = await startByteUpstream(({ socket }) => void socket.write(`${head}${body}`));
  const { queue, waiting } = manualQueue();
  const upstream = new Upstream(targetOf(core.origin), 1_000, () => {}, { of: () => queue });
  onTestFinished(() => upstream.close());
  return { core, upstream, waiting };
}

/** Sends a WebSocket handshake to the upstream. `outcome` is the status of the response, once it is complete. */
function askForWebSocket(upstream: Upstream) {
  const { promise: outcome, resolve, reject } = Promise.withResolvers<number>();
  const { promise: called, resolve: onCall } = Promise.withResolvers<UpstreamCall>();
  let status = 0;
  const handler = {
    ...ignored,
    onHead: (received: number) => (status = received),
    onEnd: () => resolve(status),
    onError: reject,
  };
  const server = createServer().on('upgrade', ({ socket }) => {
    const asked = { socket, target: '/', headers: [], onSuspend: setImmediate, onCoupled: () => {} };
    onCall(upstream.upgrade(asked, handler, () => []));
  });
  const fields = ['Host: localhost', 'Connection: Upgrade', 'Upgrade: websocket', 'Sec-WebSocket-Version: 13'];
  void listen(server).then(async (port) => (await openConnection(port)).send(request('GET / HTTP/1.1', ...fields)));
  return { outcome, abort: () => void called.then((call) => call.abort()) };
}

const askings = [
  [
    'a request',
    (upstream: Upstream) => {
      const { outcome, call } = ask(upstream);
      return { outcome, abort: () => call.abort() };
    },
  ],
  ['a WebSocket handshake', askForWebSocket],
] as const;

test.each(askings)(
  'a connection that has answered %s with many chunks, or a lot of data, is not read further before its turn',
  async (_, send) => {
    for (const body of [tinyChunk.repeat(20_000), `80000\r\n${'a'.repeat(0x80000)}\r\n`]) {
      const { upstream, waiting } = await start(`${body}0\r\n\r\n`);
      const { outcome } = send(upstream);
      let turns = 0;
      let isComplete = false;
      void outcome.then(() => (isComplete = true));
      for (;;) {
        await eventually('the connection waits, or the response is complete', () => isComplete || waiting.length > 0);
        if (isComplete) break;
        for (let i = 0; i < 20; i += 1) await nextTurn();
        expect(waiting.length).toBeLessThanOrEqual(1);
        turns += 1;
        waiting.shift()?.();
      }
      expect(await outcome).toBe(200);
      expect(turns).toBeGreaterThanOrEqual(1);
    }
  },
);

test('a connection that has sent a few chunks does not wait', async () => {
  const { upstream, waiting } = await start(`${tinyChunk.repeat(900)}0\r\n\r\n`);
  expect(await ask(upstream).outcome).toBe(200);
  expect(waiting).toEqual([]);
});

test.each(askings)(
  'a connection that is closed while it waits, after %s, does not take a turn from others',
  async (_, send) => {
    const { upstream, waiting, core } = await start(tinyChunk.repeat(20_000));
    const { abort } = send(upstream);
    await eventually('the connection waits', () => waiting.length === 1);
    abort();
    await eventually('the connection no longer waits', () => waiting.length === 0);
    await eventually('the connection is closed', () => core.connections[0]?.closed === true);
  },
);

test('connections wait for the turns of the owners of their requests', async () => {
  const core = await startByteUpstream(({ socket }) => void socket.write(`${head}${tinyChunk.repeat(20_000)}`));
  const owners: object[] = [];
  const { queue, waiting } = manualQueue();
  const of = (owner: object): Queue => {
    owners.push(owner);
    return queue;
  };
  const upstream = new Upstream(targetOf(core.origin), 1_000, () => {}, { of });
  onTestFinished(() => upstream.close());
  const turnOwner = { account: 'acme' };
  const call = upstream.send(
    { method: 'GET', target: '/', headers: [], body: undefined, turnOwner },
    { ...ignored, onError: (error) => expect.fail(String(error)) },
  );
  await eventually('the connection waits', () => waiting.length === 1);
  expect(owners).toEqual([turnOwner]);
  call.abort();
  await eventually('the connection no longer waits', () => waiting.length === 0);
});

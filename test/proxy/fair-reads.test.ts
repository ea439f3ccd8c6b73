import { expect, onTestFinished, test, vi } from 'vitest';
import { ServerConnection } from '../../src/http1/connection.ts';
import { maxPerTurn } from '../../src/http1/read-pace.ts';
import { Connection as UpstreamConnection } from '../../src/upstream/connection.ts';
import { Upstream } from '../../src/upstream/upstream.ts';
import { send } from '../support/client.ts';
import { ask, upstreamAt } from '../support/ask-upstream.ts';
import { openConnection } from '../support/connection.ts';
import { authorization, request } from '../support/refused.ts';
import { eventually } from '../support/eventually.ts';
import { startGateway } from '../support/gateway.ts';
import { configOf, keys, startSidecar } from '../support/sidecar.ts';
import { startUpstream } from '../support/upstream.ts';

const size = 16 * 1_048_576;

/** The bytes that connections of a kind have received in each turn of the event loop, until the test is over. */
function bytesPerTurn(prototype: { receive(bytes: Buffer): void }): readonly number[] {
  const perTurn = [0];
  let isOver = false;
  const next = (): void => {
    perTurn.push(0);
    if (!isOver) setImmediate(next);
  };
  setImmediate(next);
  const original = Reflect.get(prototype, 'receive');
  const spy = vi.spyOn(prototype, 'receive').mockImplementation(function (this: unknown, bytes) {
    perTurn[perTurn.length - 1] = (perTurn.at(-1) ?? 0) + bytes.length;
    original.call(this, bytes);
  });
  onTestFinished(() => {
    isOver = true;
    spy.mockRestore();
  });
  return perTurn;
}

const sum = (numbers: readonly number[]): number => numbers.reduce((total, each) => total + each, 0);

test('a long download leaves most of each turn of the event loop to others', async () => {
  const upstream = await startUpstream((_seen, res) => void res.end(Buffer.alloc(size, 'y')));
  const perTurn = bytesPerTurn(UpstreamConnection.prototype);
  // The handler of the download never pauses it, as with a client that reads fast.
  expect(await ask(upstreamAt(upstream.origin)).outcome).toBe(200);
  expect(sum(perTurn)).toBeGreaterThan(size);
  expect(Math.max(...perTurn)).toBeLessThanOrEqual(maxPerTurn + 65_536);
});

test('connections to the upstream are read again in turns of the accounts', async () => {
  const { sidecar } = await startGateway();
  const sent = vi.spyOn(Upstream.prototype, 'send');
  onTestFinished(() => sent.mockRestore());
  for (const key of [keys.acme, keys.globex, keys.globex]) {
    expect((await send(sidecar, 'GET /api/v1/transactions', { key })).status).toBe(200);
  }
  const [acme, globex, again] = sent.mock.calls.map(([{ turnOwner }]) => turnOwner);
  expect(globex).toBeDefined();
  expect(again).toBe(globex);
  expect(acme).not.toBe(globex);
});

test.each([
  ['that streams to the upstream', authorization],
  ['that is discarded', 'Authorization: Bearer nobody'],
])('a long upload %s leaves most of each turn of the event loop to others', async (_name, header) => {
  const upstream = await startUpstream();
  const sidecar = await startSidecar(configOf(upstream.origin));
  const perTurn = bytesPerTurn(ServerConnection.prototype);
  const client = await openConnection(sidecar.port);
  const head = request('POST /notes HTTP/1.1', 'Host: localhost', header, `Content-Length: ${size}`);
  // Send everything at once, so that the kernel's buffers are full when the sidecar begins to read.
  client.socket.write(Buffer.concat([Buffer.from(head), Buffer.alloc(size, 'x')]));
  await eventually('the upload is read', () => sum(perTurn) > size);
  expect(Math.max(...perTurn)).toBeLessThanOrEqual(maxPerTurn + 65_536);
});

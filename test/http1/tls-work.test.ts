import { EventEmitter } from 'node:events';
import { setImmediate as nextTurn } from 'node:timers/promises';
import { expect, onTestFinished, test, vi } from 'vitest';
import { limitTlsWork } from '../../src/http1/tls-work.ts';

const update = (): Buffer => Buffer.from('CLIENT_TRAFFIC_SECRET_N 00 00');

/** Counts what is reported for a client. */
function start() {
  const server = new EventEmitter();
  const counts = { exceeded: 0, crowded: 0 };
  limitTlsWork(server, {
    exceeded: () => void (counts.exceeded += 1),
    crowded: () => void (counts.crowded += 1),
  });
  const replace = (client: object, times = 1): void => {
    for (let i = 0; i < times; i += 1) server.emit('keylog', update(), client);
  };
  return { counts, replace };
}

test('a client may replace its keys again a minute later', () => {
  vi.useFakeTimers({ toFake: ['performance'] });
  onTestFinished(() => void vi.useRealTimers());
  const { counts, replace } = start();
  const client = {};
  replace(client, 2);
  vi.advanceTimersByTime(60_000);
  replace(client, 2);
  vi.advanceTimersByTime(59_999);
  expect(counts.exceeded).toBe(0);
  replace(client);
  expect(counts.exceeded).toBe(1);
});

test('if more than eight clients replace their keys in a turn of the event loop, others must wait', async () => {
  const { counts, replace } = start();
  for (let i = 0; i < 8; i += 1) replace({});
  expect(counts.crowded).toBe(0);
  await nextTurn();
  for (let i = 0; i < 8; i += 1) replace({});
  expect(counts.crowded).toBe(0);
  replace({});
  expect(counts).toEqual({ exceeded: 0, crowded: 1 });
});

test('the secrets that OpenSSL reports for debugging are overwritten', () => {
  const server = new EventEmitter();
  let steps = 0;
  limitTlsWork(server, { exceeded: () => expect.fail('it is no update'), derived: () => void (steps += 1) });
  const line = Buffer.from(`CLIENT_HANDSHAKE_TRAFFIC_SECRET ${'ab'.repeat(32)} ${'cd'.repeat(32)}\n`);
  server.emit('keylog', line, {});
  expect(steps).toBe(1);
  expect(line).toEqual(Buffer.alloc(line.length));
});

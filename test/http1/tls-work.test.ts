import { EventEmitter } from 'node:events';
import { expect, test } from 'vitest';
import { limitTlsWork } from '../../src/http1/tls-work.ts';

test('the secrets that OpenSSL reports for debugging are overwritten', () => {
  const server = new EventEmitter();
  let steps = 0;
  limitTlsWork(
    server,
    () => expect.fail('it is no update'),
    () => void (steps += 1),
  );
  const line = Buffer.from(`CLIENT_HANDSHAKE_TRAFFIC_SECRET ${'ab'.repeat(32)} ${'cd'.repeat(32)}\n`);
  server.emit('keylog', line, {});
  expect(steps).toBe(1);
  expect(line).toEqual(Buffer.alloc(line.length));
});

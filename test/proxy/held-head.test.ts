import { execFileSync } from 'node:child_process';
import { expect, test, vi } from 'vitest';
import { send } from '../support/client.ts';
import { openConnection } from '../support/connection.ts';
import { startGateway } from '../support/gateway.ts';
import { scrape } from '../support/metrics.ts';
import { request } from '../support/refused.ts';
import { keys } from '../support/sidecar.ts';

/** The bytes that are charged for a head with this field while the sidecar waits for the body, of whose ten bytes one has arrived. */
async function heldWith(field: string): Promise<number> {
  const { sidecar, upstream } = await startGateway();
  const fields = ['Host: localhost', `key: ${'k'.repeat(32)}`, `iv: ${'i'.repeat(16)}`, 'Content-Length: 10', field];
  const head = request('POST /api/s2s/aes-encrypt HTTP/1.1', ...fields);
  (await openConnection(sidecar.port)).send(`${head}{`);
  const used = async (): Promise<number> =>
    Number(/limit_used\{limit="buffered"\} (\d+)/.exec(await scrape(sidecar))?.[1]);
  await vi.waitFor(async () => expect(await used()).toBeGreaterThan(0));
  expect(upstream.seen).toEqual([]);
  return (await used()) - head.length;
}

test('a head whose body is awaited is charged, in addition to what is counted for its connection', async () => {
  const short = await heldWith('X-Long: x');
  const long = await heldWith(`X-Long: ${'x'.repeat(10_000)}`);
  expect(short).toBeLessThan(0);
  expect(long).toBe(10 - 2_048);
});

test('a client that has reset its connection before it was accepted is not served, because its address is unknown', async () => {
  const { sidecar, upstream } = await startGateway();
  const body = '{}';
  const head = ['POST / HTTP/1.1', 'Host: localhost', `Authorization: Bearer ${keys.globex}`, `Content-Length: 2`];
  const client = `const socket = require('node:net').connect(${sidecar.port}, '127.0.0.1', () =>
    socket.write(${JSON.stringify(`${head.join('\r\n')}\r\n\r\n${body}`)}, () => socket.resetAndDestroy()))`;
  // This call blocks the event loop, so the sidecar accepts nothing until the client has left.
  execFileSync(process.execPath, ['--eval', client]);
  const good = await send(sidecar, 'POST /', { key: keys.globex, body });
  expect(good.status).toBe(200);
  expect(upstream.seen).toHaveLength(1);
  expect(sidecar.log.filter(({ msg }) => msg === 'request')).toHaveLength(1);
});

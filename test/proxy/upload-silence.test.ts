import { setTimeout as sleep } from 'node:timers/promises';
import { describe, expect, test, vi } from 'vitest';
import { openConnection, parseOnly } from '../support/connection.ts';
import { limitUsed } from '../support/metrics.ts';
import { request } from '../support/refused.ts';
import { configOf, keys, startSidecar } from '../support/sidecar.ts';
import { startUpstream } from '../support/upstream.ts';

const silence = 1_000;

/** The plain uploads, each with its account, the key, and the character of which its pieces consist. */
const uploads: readonly (readonly [name: string, key: string, first: string])[] = [
  ['of an account that does not encrypt', keys.globex, 'x'],
  ['of an encrypting account, inspected first', keys.acme, '{'],
  ['of an encrypting account, of which only white space has arrived', keys.acme, ' '],
  ['with a public key', keys.globexPublic, 'x'],
];

async function startUpload(key: string) {
  const upstream = await startUpstream((seen, res) => void res.end(String(seen.body.length)));
  const sidecar = await startSidecar(configOf(upstream.origin, { timeouts: { request: silence } }));
  const client = await openConnection(sidecar.port);
  const head = request(
    'POST /api/v1/transactions/initialize HTTP/1.1',
    'Host: localhost',
    `Authorization: Bearer ${key}`,
    'Transfer-Encoding: chunked',
    'Connection: close',
  );
  client.send(head);
  return { upstream, sidecar, client, piece: (text: string) => void client.send(`1\r\n${text}\r\n`) };
}

describe('on plain routes timeouts.request limits the silence of an upload, not its length', () => {
  test.each(uploads)('%s: one that is never silent for long may take longer', async (_name, key, first) => {
    const { client, piece } = await startUpload(key);
    for (let i = 0; i < 8; i += 1) {
      piece(first);
      await sleep(silence / 3);
    }
    client.send('0\r\n\r\n');
    expect(parseOnly(await client.untilEnded())).toMatchObject({ status: 200, body: '8' });
  });

  test.each(uploads)('%s: one that falls silent is refused', async (_name, key, first) => {
    const { upstream, sidecar, client, piece } = await startUpload(key);
    piece(first);
    await sleep(silence / 3);
    piece(first);
    const [, forwarded] =
      /"code":"request_timeout".*"forwarded":"(\w+)"/.exec(await client.untilText('"forwarded"')) ?? [];
    client.socket.end();
    await vi.waitFor(async () => expect(await limitUsed(sidecar, 'in_flight')).toBe(0));
    expect(upstream.seen).toEqual([]);
    // The core has the beginning of the upload, unless the sidecar held the upload back for inspection.
    expect(forwarded).toBe(upstream.heads() === 0 ? 'no' : 'maybe');
  });
});

test('on enveloped routes timeouts.request limits the length: a body that trickles in is refused', async () => {
  const upstream = await startUpstream();
  const sidecar = await startSidecar(configOf(upstream.origin, { timeouts: { request: silence } }));
  const client = await openConnection(sidecar.port);
  client.send(
    request('POST /api/s2s/x HTTP/1.1', 'Host: localhost', `Authorization: Bearer ${keys.acme}`, 'Content-Length: 100'),
  );
  const drip = setInterval(() => client.send(' '), silence / 4);
  await client.untilText('"code":"request_timeout"');
  clearInterval(drip);
  expect(upstream.heads()).toBe(0);
});

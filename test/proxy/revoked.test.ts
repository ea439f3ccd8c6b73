import { describe, expect, test, vi } from 'vitest';
import type { Account, Encryption } from '../../src/accounts/account.ts';
import { createCodec } from '../../src/envelope/formats.ts';
import { TickQueue } from '../../src/tick-queue.ts';
import type { RefusalCode } from '../../src/errors.ts';
import { envelopeOf } from '../support/client.ts';
import { openConnection, type Connection } from '../support/connection.ts';
import { limitUsed, scrape } from '../support/metrics.ts';
import { request } from '../support/refused.ts';
import {
  acme,
  acmeLive,
  acmeTest,
  apiKey,
  configOf,
  credentialsOf,
  globex,
  keys,
  route,
  routes,
  startSidecar,
  type TestSidecar,
} from '../support/sidecar.ts';
import { settle } from '../support/turns.ts';
import { startRawUpstream, startUpstream } from '../support/upstream.ts';

/** Starts a sidecar in front of a core that sends an event every 100 ms, endlessly. `change` gives the sidecar other accounts. */
async function startEvents(): Promise<{
  sidecar: TestSidecar;
  heads: () => number;
  change: (...accounts: Account[]) => void;
}> {
  const upstream = await startRawUpstream((req, res) => {
    req.resume();
    if (req.url === '/never' || req.url === '/ws') return;
    // A response whose length is known, and short, is sealed in one piece.
    const length = req.url?.endsWith('/short') ? { 'Content-Length': 60_000 } : {};
    res.writeHead(200, { 'Content-Type': 'text/event-stream', ...length });
    const events = setInterval(() => res.write('data: x\n\n'), 100);
    res.on('close', () => clearInterval(events));
  });
  const config = (more: Parameters<typeof configOf>[1] = {}) =>
    configOf(upstream.origin, { routes: [...routes, route('/ws', { upgrade: true })], ...more });
  const sidecar = await startSidecar(config());
  return {
    sidecar,
    heads: upstream.heads,
    change: (...accounts) => sidecar.app.apply(config({ accounts })),
  };
}

async function open(sidecar: TestSidecar, key: string, line = 'GET /events HTTP/1.1', ...fields: string[]) {
  const client = await openConnection(sidecar.port);
  return client.send(request(line, 'Host: localhost', `Authorization: Bearer ${key}`, ...fields));
}

/** The milliseconds until the sidecar has ended the connection. */
async function timeToEnd(client: Connection): Promise<number> {
  const from = performance.now();
  await client.untilEnded();
  return performance.now() - from;
}

const revoked = apiKey(keys.globex, { revokedAt: 1 });

const on = acme.encryption.test;
if (on?.type !== 'on') throw new Error('acme encrypts in test');
const other = createCodec(credentialsOf(acmeLive), 'hex');
const encrypting = (test?: Encryption): Account => ({ ...acme, encryption: test === undefined ? {} : { test } });

describe('a response in progress', () => {
  test.each<[string, Account[]]>([
    ['whose key is revoked', [acme, { ...globex, keys: [revoked, apiKey(keys.globexPublic)] }]],
    ['whose key is removed', [acme, { ...globex, keys: [apiKey(keys.globexPublic)] }]],
    ['whose account is deactivated', [acme, { ...globex, active: false }]],
    ['whose account is removed', [acme]],
  ])('%s is broken off within 5 s, sealed or plain, and no other response is', async (_name, accounts) => {
    const { sidecar, change } = await startEvents();
    const client = await open(sidecar, keys.globex);
    const other = await open(sidecar, keys.acme, 'GET /api/s2s/events HTTP/1.1');
    await Promise.all([client.untilText('data: x'), other.untilText('"data":"')]);
    change(...accounts);
    expect(await timeToEnd(client)).toBeLessThan(5_000);
    // Without its last chunk, the response cannot be taken for a complete one.
    expect(client.received).not.toContain('0\r\n\r\n');
    expect(other.ending).toBe('open');
    await vi.waitFor(() => expect(sidecar.accessLines()).toMatchObject([{ status: 200, closed: 'revoked' }]));
    expect(await scrape(sidecar)).toContain('envelope_sidecar_connections_closed_total{reason="revoked"} 1');
  });

  test.each<[string, Account]>([
    ['whose account is deactivated', { ...acme, active: false }],
    ['whose credentials are replaced', encrypting({ ...on, current: other })],
    ['whose encryption is disabled', encrypting()],
  ])('that is sealed, and %s, is broken off, too', async (_name, account) => {
    const { sidecar, change } = await startEvents();
    const client = await open(sidecar, keys.acme, 'GET /api/s2s/events HTTP/1.1');
    await client.untilText('"data":"');
    change(account, globex);
    expect(await timeToEnd(client)).toBeLessThan(5_000);
    expect(client.received).not.toContain('"}');
  });

  test('that is sealed goes on if its credentials are replaced with a grace period, even after its end', async () => {
    const { sidecar, change } = await startEvents();
    const client = await open(sidecar, keys.acme, 'GET /api/s2s/events HTTP/1.1');
    await client.untilText('"data":"');
    const plain = await open(sidecar, keys.globex);
    await plain.untilText('data: x');
    change(encrypting({ ...on, current: other, grace: { previous: on.current, until: 1 } }), {
      ...globex,
      keys: [revoked],
    });
    await plain.untilEnded();
    expect(client.ending).toBe('open');
  });
});

test('a sealed response that is still being collected is broken off within 5 s', async () => {
  const { sidecar, heads, change } = await startEvents();
  const client = await open(sidecar, keys.acme, 'GET /api/s2s/short HTTP/1.1');
  await vi.waitFor(() => expect(heads()).toBe(1));
  change({ ...acme, active: false }, globex);
  expect(await timeToEnd(client)).toBeLessThan(5_000);
  expect(client.received).toBe('');
  await vi.waitFor(() => expect(sidecar.accessLines()).toMatchObject([{ closed: 'revoked' }]));
});

test('a WebSocket handshake that awaits its response is ended within 5 s', async () => {
  const { sidecar, change } = await startEvents();
  const upgrade = ['Connection: Upgrade', 'Upgrade: websocket', 'Sec-WebSocket-Version: 13'];
  const key = `Sec-WebSocket-Key: ${'A'.repeat(22)}==`;
  const client = await open(sidecar, keys.globex, 'GET /ws HTTP/1.1', ...upgrade, key);
  await vi.waitFor(async () => expect(await limitUsed(sidecar, 'in_flight')).toBe(1));
  change(acme, { ...globex, keys: [revoked] });
  expect(await timeToEnd(client)).toBeLessThan(5_000);
  await vi.waitFor(() => expect(sidecar.accessLines()).toMatchObject([{ closed: 'revoked' }]));
});

test('an upload whose key is revoked is broken off within 5 s, although it never pauses', async () => {
  const { sidecar, heads, change } = await startEvents();
  const client = await open(sidecar, keys.globex, 'POST /never HTTP/1.1', 'Content-Length: 1000000000');
  const drip = setInterval(() => client.send('x'.repeat(100)), 50);
  await vi.waitFor(() => expect(heads()).toBe(1));
  change(acme, { ...globex, keys: [revoked] });
  const time = await timeToEnd(client);
  clearInterval(drip);
  expect(time).toBeLessThan(5_000);
  await vi.waitFor(() => expect(sidecar.accessLines()).toMatchObject([{ status: 444, closed: 'revoked' }]));
});

test('a request that awaits its response is not broken off, because it may be a payment', async () => {
  const { sidecar, heads, change } = await startEvents();
  const waiting = await open(sidecar, keys.globex, 'POST /never HTTP/1.1', 'Content-Length: 0');
  await vi.waitFor(() => expect(heads()).toBe(1));
  const stream = await open(sidecar, keys.globex);
  await stream.untilText('data: x');
  change(acme, { ...globex, keys: [revoked] });
  await stream.untilEnded();
  expect(waiting.ending).toBe('open');
});

describe('a request that waits for its turn', () => {
  const upgrade = ['Connection: Upgrade', 'Upgrade: websocket', 'Sec-WebSocket-Version: 13'];

  test.each<[string, string, readonly string[], string, Account, RefusalCode]>([
    ['a GET', 'GET /never HTTP/1.1', [], keys.globex, { ...globex, keys: [revoked] }, 'invalid_api_key'],
    [
      'a request with a public key',
      'POST /api/v1/transactions/initialize HTTP/1.1',
      ['Content-Length: 0'],
      keys.globexPublic,
      { ...globex, active: false },
      'account_inactive',
    ],
    [
      'a WebSocket handshake',
      'GET /ws HTTP/1.1',
      [...upgrade, `Sec-WebSocket-Key: ${'A'.repeat(22)}==`],
      keys.globex,
      { ...globex, keys: [] },
      'invalid_api_key',
    ],
    [
      'an envelope',
      'POST /api/s2s/charge HTTP/1.1',
      [`Content-Length: ${envelopeOf(acmeTest, '{"amount":1}').length}`],
      keys.acme,
      { ...acme, encryption: { test: { type: 'on', current: other, grace: undefined, createdAt: undefined } } },
      'decryption_failed',
    ],
  ])('is not forwarded if its key or its credentials are revoked meanwhile: %s', async (...row) => {
    const [, line, fields, key, account, code] = row;
    const { sidecar, heads, change } = await startEvents();
    const turn = vi.spyOn(TickQueue.prototype, 'tryStart').mockImplementationOnce(() => {
      change(account);
      return false;
    });
    const client = await openConnection(sidecar.port);
    const body = key === keys.acme ? envelopeOf(acmeTest, '{"amount":1}') : '';
    client.send(request(line, 'Host: localhost', `Authorization: Bearer ${key}`, ...fields) + body);
    await vi.waitFor(() => expect(sidecar.accessLines()).toMatchObject([{ code }]));
    expect(heads()).toBe(0);
    turn.mockRestore();
  });
});

test('the end of a grace period does not refuse a plain body that arrives after its head', async () => {
  const upstream = await startUpstream();
  const sidecar = await startSidecar(
    configOf(upstream.origin, {
      accounts: [encrypting({ ...on, current: other, grace: { previous: on.current, until: Date.now() + 60_000 } })],
    }),
  );
  const client = await open(sidecar, keys.acme, 'POST /api/v1/orders HTTP/1.1', 'Content-Length: 2');
  await settle();
  sidecar.app.apply(configOf(upstream.origin, { accounts: [encrypting({ ...on, current: other })] }));
  client.send('{}');
  await vi.waitFor(() => expect(sidecar.accessLines()).toMatchObject([{ status: 200 }]));
});

describe('a body that arrives after its head', () => {
  const ended = { previous: on.current, until: 1 };

  test.each<[string, Account, RefusalCode | undefined]>([
    ['nothing has changed', { ...acme }, undefined],
    ['the grace period of the credentials has ended', encrypting({ ...on, current: other, grace: ended }), undefined],
    ['encryption was disabled with a grace period that has ended', encrypting({ type: 'ending', ...ended }), undefined],
    ['the credentials were replaced', encrypting({ ...on, current: other }), 'decryption_failed'],
    ['encryption was disabled', encrypting(), 'decryption_failed'],
    ['the key was revoked', { ...acme, keys: [apiKey(keys.acme, { revokedAt: 1 })] }, 'invalid_api_key'],
    ['the key was removed', { ...acme, keys: [] }, 'invalid_api_key'],
    ['the account was deactivated', { ...acme, active: false }, 'account_inactive'],
  ])('is judged by the configuration at that time: %s', async (_name, account, code) => {
    const upstream = await startUpstream();
    const sidecar = await startSidecar(configOf(upstream.origin));
    const body = envelopeOf(acmeTest, '{"amount":1}');
    const client = await open(sidecar, keys.acme, 'POST /api/s2s/charge HTTP/1.1', `Content-Length: ${body.length}`);
    client.send(body.slice(0, -1));
    await vi.waitFor(async () => expect(await limitUsed(sidecar, 'buffered')).toBeGreaterThan(0));
    sidecar.app.apply(configOf(upstream.origin, { accounts: [account, globex] }));
    client.send(body.slice(-1));
    await vi.waitFor(() => expect(sidecar.accessLines()).toHaveLength(1));
    expect(sidecar.accessLines()).toMatchObject([code === undefined ? { status: 200 } : { code }]);
    expect(upstream.heads()).toBe(code === undefined ? 1 : 0);
  });
});

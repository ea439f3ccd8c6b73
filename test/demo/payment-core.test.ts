import { once } from 'node:events';
import type { AddressInfo } from 'node:net';
import { connect } from 'node:net';
import { text } from 'node:stream/consumers';
import { afterEach, beforeEach, expect, test } from 'vitest';
import { createPaymentCore } from '../../src/demo/payment-core.ts';

let lines: string[];
let server: ReturnType<typeof createPaymentCore>;
let port: number;

beforeEach(async () => {
  lines = [];
  server = createPaymentCore((line) => lines.push(line));
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
  ({ port } = server.address() as AddressInfo);
});

afterEach(() => {
  server.close();
  server.closeAllConnections();
});

interface Reply {
  status: number;
  body: Record<string, unknown>;
}

async function call(method: string, path: string, body?: unknown, account = 'acme'): Promise<Reply> {
  const response = await fetch(`http://127.0.0.1:${port}${path}`, {
    method,
    headers: { 'X-Account-Id': account, 'Content-Type': 'application/json' },
    ...(body === undefined ? {} : { body: typeof body === 'string' ? body : JSON.stringify(body) }),
  });
  expect(response.headers.get('content-type')).toBe('application/json');
  return { status: response.status, body: (await response.json()) as Record<string, unknown> };
}

function codeOf({ body }: Reply): unknown {
  return (body['error'] as Record<string, unknown> | undefined)?.['code'];
}

const payment = { amount: 1500, currency: 'EUR' };

test('an initialized transaction is pending and can be looked up', async () => {
  const made = await call('POST', '/api/v1/transactions/initialize', { ...payment, reference: 'order-1' });
  expect(made).toEqual({
    status: 201,
    body: {
      id: 'txn_1',
      object: 'transaction',
      status: 'pending',
      amount: 1500,
      currency: 'EUR',
      reference: 'order-1',
    },
  });
  expect(await call('GET', '/api/v1/transactions/txn_1')).toEqual({ status: 200, body: made.body });
});

test('a charge succeeds and is the first entry of both lists', async () => {
  const first = await call('POST', '/api/s2s/charge', payment);
  const second = await call('POST', '/api/s2s/charge', { ...payment, amount: 1 });
  expect(first.body).toMatchObject({ status: 'succeeded', amount: 1500, reference: null });
  const list = { status: 200, body: { object: 'list', data: [second.body, first.body], has_more: false } };
  expect(await call('GET', '/api/s2s/transactions')).toEqual(list);
  expect(await call('GET', '/api/v1/transactions?page=1')).toEqual(list);
});

test('a list shows the newest hundred entries and says that there are more', async () => {
  for (let count = 0; count < 100; count += 1) await call('POST', '/api/s2s/charge', payment);
  expect((await call('GET', '/api/s2s/transactions')).body).toMatchObject({ has_more: false });
  await call('POST', '/api/s2s/charge', payment);
  const { body } = await call('GET', '/api/s2s/transactions');
  expect(body['has_more']).toBe(true);
  expect(body['data']).toHaveLength(100);
  expect(body['data']).toMatchObject({ 0: { id: 'txn_101' }, 99: { id: 'txn_2' } });
});

test('an account sees only its own transactions', async () => {
  await call('POST', '/api/s2s/charge', payment);
  for (const path of ['/api/s2s/transactions', '/api/v1/transactions']) {
    expect((await call('GET', path, undefined, 'other')).body['data']).toEqual([]);
    expect((await call('GET', path)).body['data']).toHaveLength(1);
  }
  expect((await call('GET', '/api/v1/transactions/txn_1', undefined, 'other')).status).toBe(404);
});

test.each([
  ['no body', undefined, 'invalid_json'],
  ['text that is not JSON', '{"amount":', 'invalid_json'],
  ['JSON that is no object', [payment], 'invalid_request'],
  ['null', 'null', 'invalid_request'],
  ['no amount', { currency: 'EUR' }, 'invalid_request'],
  ['an amount of nothing', { ...payment, amount: 0 }, 'invalid_request'],
  ['a negative amount', { ...payment, amount: -1 }, 'invalid_request'],
  ['a fraction of a minor unit', { ...payment, amount: 15.5 }, 'invalid_request'],
  ['an amount in a string', { ...payment, amount: '1500' }, 'invalid_request'],
  ['an amount beyond exact integers', { ...payment, amount: 2 ** 53 }, 'invalid_request'],
  ['no currency', { amount: 1500 }, 'invalid_request'],
  ['a currency in small letters', { ...payment, currency: 'eur' }, 'invalid_request'],
  ['a currency of four letters', { ...payment, currency: 'EURO' }, 'invalid_request'],
  ['nesting without end', '['.repeat(500_000) + ']'.repeat(500_000), 'invalid_request'],
])('a charge with %s is refused', async (_name, body, code) => {
  const refused = await call('POST', '/api/s2s/charge', body);
  expect([refused.status, codeOf(refused)]).toEqual([400, code]);
  expect((await call('GET', '/api/s2s/transactions')).body['data']).toEqual([]);
});

test('a validation error names the member', async () => {
  const refused = await call('POST', '/api/s2s/charge', { ...payment, amount: 0 });
  expect(refused.body).toMatchObject({ error: { message: expect.stringMatching(/^amount: /) as unknown } });
});

test('a body may have 1 MiB, but not a byte more', async () => {
  const filled = (size: number): string => JSON.stringify(payment).padEnd(size, ' ');
  expect((await call('POST', '/api/s2s/charge', filled(1_048_576))).status).toBe(201);
  const refused = await call('POST', '/api/s2s/charge', filled(1_048_577));
  expect([refused.status, codeOf(refused)]).toEqual([413, 'body_too_large']);
});

test.each([
  ['GET', '/'],
  ['GET', '/api/s2s/charge'],
  ['DELETE', '/api/v1/transactions/txn_1'],
  ['GET', '/api/v1/transactions/txn_1/refunds'],
  ['POST', '/api/s2s/unknown'],
  ['OPTIONS', '/api/s2s/charge'],
])('%s %s is not found', async (method, path) => {
  const missing = await call(method, path, method === 'GET' ? undefined : payment);
  expect([missing.status, codeOf(missing)]).toEqual([404, 'not_found']);
});

test('a request that names no account is refused', async () => {
  const refused = await call('GET', '/api/v1/transactions', undefined, '');
  expect([refused.status, codeOf(refused)]).toEqual([403, 'account_missing']);
});

test('HEAD gets the response of GET without the body', async () => {
  const response = await fetch(`http://127.0.0.1:${port}/api/s2s/transactions`, {
    method: 'HEAD',
    headers: { 'X-Account-Id': 'acme' },
  });
  expect([response.status, response.headers.get('content-length')]).toEqual([200, '44']);
});

test('a page of another origin may initialize a transaction', async () => {
  const url = `http://127.0.0.1:${port}/api/v1/transactions/initialize`;
  const preflight = await fetch(url, { method: 'OPTIONS' });
  expect(preflight.status).toBe(204);
  expect(preflight.headers.get('access-control-allow-origin')).toBe('*');
  expect(preflight.headers.get('access-control-allow-headers')).toContain('Authorization');
  const response = await fetch(url, {
    method: 'POST',
    headers: { 'X-Account-Id': 'acme' },
    body: JSON.stringify(payment),
  });
  expect([response.status, response.headers.get('access-control-allow-origin')]).toEqual([201, '*']);
});

test('each request is one line in the log, with what the core received', async () => {
  await call('POST', '/api/s2s/charge', payment);
  await call('GET', '/api/s2s/transactions?page=2', undefined, 'other');
  expect(lines).toEqual([
    '201 POST /api/s2s/charge acme {"amount":1500,"currency":"EUR"}',
    '200 GET /api/s2s/transactions?page=2 other',
  ]);
});

test('no request can break the log line or control the terminal', async () => {
  await call('POST', '/api/s2s/charge', '{\r\n"a": "\u001b[2J\u009b\u202e\u2028x"}');
  expect(lines).toEqual(['400 POST /api/s2s/charge acme { "a": "?[2J?? x"}']);
});

test('a client that disconnects in the middle of its body does no harm', async () => {
  const leaving = connect(port, '127.0.0.1');
  leaving.write(
    'POST /api/s2s/charge HTTP/1.1\r\nHost: core\r\nX-Account-Id: acme\r\nContent-Length: 50\r\n\r\n{"amount"',
  );
  await once(server, 'request');
  leaving.destroy();
  expect((await call('GET', '/api/s2s/transactions')).status).toBe(200);
});

test.each(['//', '*', 'http://elsewhere.example/api', '/%', '/\u00ff', '/api/v1/transactions/'])(
  'the target %s gets the response for unknown paths',
  async (target) => {
    const client = connect(port, '127.0.0.1');
    client.end(
      Buffer.from(`GET ${target} HTTP/1.1\r\nHost: core\r\nX-Account-Id: acme\r\nConnection: close\r\n\r\n`, 'latin1'),
    );
    expect(await text(client)).toMatch(/^HTTP\/1\.1 40[04] /);
    expect((await call('GET', '/api/s2s/transactions')).status).toBe(200);
  },
);

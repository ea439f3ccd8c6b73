import { Agent, request as httpsRequest } from 'node:https';
import { connect } from 'node:net';
import { setTimeout as delay } from 'node:timers/promises';
import { connect as connectTls } from 'node:tls';
import { describe, expect, onTestFinished, test } from 'vitest';
import { lockFile } from '../../src/accounts/file/lock.ts';
import { parseMasterKeys } from '../../src/accounts/master-key.ts';
import { createAuthority } from '../support/certificates.ts';
import { Connection } from '../support/connection.ts';
import { holdReports } from '../support/held-reports.ts';
import { mayMount, Mount } from '../support/mount.ts';
import { admin, configOf, operatorsOf, startSidecar } from '../support/sidecar.ts';
import { dashboard, expectProblem, startApi, token, type TestApi } from './api.ts';
import { fileWide, type Defer } from '../support/file-wide.ts';
import { sha256Hex } from '../../src/cryptography.ts';

const now = Date.parse('2026-11-21T10:00:00Z');

async function withAcme(defer?: Defer): Promise<TestApi> {
  const api = await startApi({}, () => now, 'follows', defer);
  await api.ask('POST /accounts', { body: { id: 'acme', name: 'Acme Stores' } });
  return api;
}

describe('the operations', () => {
  test('add, show, list, activate and deactivate accounts', async () => {
    const { ask } = await startApi();
    const added = await ask('POST /accounts', { body: { id: 'acme', name: 'Acme' } });
    expect(added).toMatchObject({ status: 201, body: { id: 'acme', name: 'Acme', active: true, keys: [] } });
    const { in_force, ...account } = added.body;
    expect(in_force).toBe(true);
    expect((await ask('GET /accounts/acme')).body).toEqual(account);
    expect((await ask('POST /accounts/acme/deactivate')).body['active']).toBe(false);
    expect((await ask('POST /accounts/acme/activate')).body['active']).toBe(true);
    expect((await ask('GET /accounts')).body).toMatchObject({ accounts: [account], next: null, unreadable: [] });
  });

  test('issue, list, rotate and revoke keys', async () => {
    const { ask, file } = await withAcme();
    const issued = await ask('POST /accounts/acme/keys', {
      body: { environment: 'test', kind: 'secret', expires_in: '180d' },
    });
    expect(issued).toMatchObject({
      status: 201,
      body: { account: 'acme', environment: 'test', kind: 'secret', expires_at: '2027-05-20T10:00:00Z' },
    });
    expect(file()).toContain(sha256Hex(issued.body['key'] as string));
    const id = issued.body['id'] as string;
    const rotated = await ask(`POST /accounts/acme/keys/${id}/rotate`, { body: { overlap: '1d' } });
    expect(rotated).toMatchObject({ status: 201, body: { replaces: { id, expires_at: '2026-11-22T10:00:00Z' } } });
    expect(await ask(`POST /accounts/acme/keys/${id}/revoke`)).toMatchObject({
      status: 200,
      body: { state: 'revoked' },
    });
    const { keys } = (await ask('GET /accounts/acme/keys')).body as { keys: { state: string }[] };
    expect(keys.map(({ state }) => state)).toEqual(['revoked', 'valid']);
    // Hints have only the last four characters.
    expect(JSON.stringify(keys)).not.toMatch(/sk_test_[^…]/);
  });

  test('enable, show and disable encryption', async () => {
    const { ask, file } = await withAcme();
    const path = '/accounts/acme/encryption/test';
    const enabled = await ask(`POST ${path}/enable`);
    expect(enabled).toMatchObject({ status: 201, body: { enabled: true, encoding: 'hex', secret_shown: true } });
    expect(file()).toContain(enabled.body['key']);
    expectProblem(await ask(`POST ${path}/enable`), 409, 'encryption_enabled');
    const again = await ask(`POST ${path}/enable`, { body: { replace: true, grace: '24h', encoding: 'base64' } });
    expect(again).toMatchObject({
      status: 201,
      body: { encoding: 'base64', previous: { accepts: 'credentials', until: '2026-11-22T10:00:00Z' } },
    });
    const { key, iv, fingerprint, secret_shown: _, in_force: __, ...shown } = again.body;
    expect(fingerprint).toBe(sha256Hex(String(key) + String(iv)).slice(0, 16));
    expect((await ask(`GET ${path}`)).body).toEqual({
      ...shown,
      unexpected_envelopes: 0,
    });
    expectProblem(await ask(`POST ${path}/disable`, { body: { grace: '1h' } }), 409, 'grace_running');
    await ask(`POST ${path}/grace/end`);
    expect(await ask(`POST ${path}/disable`, { body: { grace: '1h' } })).toMatchObject({
      status: 200,
      body: { enabled: false, previous: { accepts: 'credentials', until: '2026-11-21T11:00:00Z' } },
    });
    expect(await ask(`POST ${path}/grace/end`)).toMatchObject({ body: { enabled: false, previous: null } });
    expectProblem(await ask(`POST ${path}/disable`), 409, 'encryption_disabled');
  });

  test('list accounts page by page', async () => {
    const { ask, folder } = await startApi();
    const ids = ['a', 'b', 'c', 'd', 'e'];
    folder.write({ 'accounts.yaml': { accounts: ids.map((id) => ({ id, name: id })) } });
    const page = async (query: string): Promise<unknown> => {
      const { accounts, next } = (await ask(`GET /accounts?${query}`)).body as {
        accounts: { id: string }[];
        next: unknown;
      };
      return [accounts.map(({ id }) => id).join(''), next];
    };
    expect(await page('limit=2')).toEqual(['ab', 'b']);
    expect(await page('limit=2&after=b')).toEqual(['cd', 'd']);
    expect(await page('limit=2&after=d')).toEqual(['e', null]);
    expect(await page('limit=5')).toEqual(['abcde', null]);
    expect(await page('limit=4')).toEqual(['abcd', 'd']);
    expect(await page('limit=1000')).toEqual(['abcde', null]);
  });
});

describe('an Idempotency-Key', () => {
  const headers = { 'idempotency-key': 'order-1' };
  const body = { environment: 'test', kind: 'secret' };

  test('makes a repeat change nothing, and omits the secret from its response', async () => {
    const { ask } = await withAcme();
    for (const [line, sent, secrets] of [
      ['POST /accounts/acme/keys', body, ['key']],
      ['POST /accounts/acme/encryption/live/enable', {}, ['key', 'iv']],
    ] as const) {
      const named = { 'idempotency-key': sha256Hex(line) };
      const first = await ask(line, { body: sent, headers: named });
      const repeat = await ask(line, { body: sent, headers: named });
      const shown = Object.fromEntries(Object.entries(first.body).filter(([name]) => !secrets.includes(name as 'key')));
      expect(first.body).toMatchObject({ secret_shown: true });
      for (const secret of secrets) expect(first.body).toHaveProperty(secret);
      expect(repeat.status).toBe(first.status);
      expect(repeat.body).toEqual({ ...shown, secret_shown: false });
    }
    const { keys } = (await ask('GET /accounts/acme/keys')).body as { keys: unknown[] };
    expect(keys).toHaveLength(1);
  });

  test('applies to rotations', async () => {
    const { ask } = await withAcme();
    const { id } = (await ask('POST /accounts/acme/keys', { body })).body;
    const line = `POST /accounts/acme/keys/${String(id)}/rotate`;
    const first = await ask(line, { headers });
    expect((await ask(line, { headers })).body).toEqual({ ...first.body, key: undefined, secret_shown: false });
  });

  test('applies to concurrent requests', async () => {
    const { ask } = await withAcme();
    const responses = await Promise.all(
      Array.from({ length: 4 }, () => ask('POST /accounts/acme/keys', { body, headers })),
    );
    expect(responses.filter((response) => response.body['secret_shown'] === true)).toHaveLength(1);
    expect(new Set(responses.map((response) => response.body['id'])).size).toBe(1);
  });

  test('is refused with another request', async () => {
    const { ask } = await withAcme();
    await ask('POST /accounts/acme/keys', { body, headers });
    const other = await ask('POST /accounts/acme/keys', { body: { ...body, environment: 'live' }, headers });
    expectProblem(other, 422, 'idempotency_key_reused');
    const elsewhere = await ask('POST /accounts/acme/encryption/test/enable', { headers });
    expectProblem(elsewhere, 422, 'idempotency_key_reused');
    // A request with the same members in another order is the same request.
    const same = await ask('POST /accounts/acme/keys', { body: { kind: 'secret', environment: 'test' }, headers });
    expect(same.body).toMatchObject({ secret_shown: false });
  });

  test('may be used again if its request was refused', async () => {
    const { ask } = await startApi();
    expectProblem(await ask('POST /accounts/acme/keys', { body, headers }), 404, 'account_unknown');
    await ask('POST /accounts', { body: { id: 'acme', name: 'Acme' } });
    expect((await ask('POST /accounts/acme/keys', { body, headers })).body).toMatchObject({ secret_shown: true });
  });

  test('has 1 to 255 printable ASCII characters', async () => {
    const { ask } = await withAcme();
    const withKey = (key: string) => ask('POST /accounts/acme/keys', { body, headers: { 'idempotency-key': key } });
    for (const key of ['', 'x'.repeat(256), 'a b']) {
      expect(expectProblem(await withKey(key), 400, 'invalid_request')).toBe(
        'Idempotency-Key must be 1 to 255 printable ASCII characters.',
      );
    }
    expect((await withKey('x'.repeat(255))).status).toBe(201);
  });

  test('is remembered after a reload with the same store', async () => {
    const { ask, sidecar, config, folder, file } = await withAcme();
    await ask('POST /accounts/acme/keys', { body, headers });
    sidecar.app.apply({ ...config });
    // `apply` has put the initial accounts in force. Write the file, so that the sidecar reads its accounts again.
    folder.write({ 'accounts.yaml': file() });
    expect((await ask('POST /accounts/acme/keys', { body, headers })).body).toMatchObject({ secret_shown: false });
  });
});

describe('refusals', () => {
  const api = fileWide(withAcme);

  test.each([
    ['an unknown account', 'GET /accounts/other', {}, 404, 'account_unknown', 'Account other does not exist.'],
    ['a duplicate id', 'POST /accounts', { body: { id: 'acme', name: 'A' } }, 409, 'account_exists', undefined],
    ['an unknown key', 'POST /accounts/acme/keys/x/revoke', {}, 404, 'key_unknown', undefined],
    ['no JSON', 'POST /accounts', { body: '{' }, 400, 'malformed_body', undefined],
    [
      'a duplicate member',
      'POST /accounts/acme/keys',
      { body: '{"environment":"test","environment":"live","kind":"secret"}' },
      400,
      'malformed_body',
      'The body has a duplicate member.',
    ],
    [
      'a duplicate member, differently escaped',
      'POST /accounts/acme/encryption/test/enable',
      { body: '{"grace":"1h","gr\\u0061ce":"365d"}' },
      400,
      'malformed_body',
      'The body has a duplicate member.',
    ],
    [
      'a prototype',
      'POST /accounts',
      { body: '{"id":"a","name":"A","__proto__":{}}' },
      400,
      'invalid_request',
      undefined,
    ],
    ['an empty body', 'POST /accounts', { body: '' }, 400, 'malformed_body', undefined],
    ['a list', 'POST /accounts', { body: [] }, 400, 'invalid_request', undefined],
    ['no body, although one is required', 'POST /accounts', {}, 400, 'invalid_request', undefined],
    [
      'another type of body',
      'POST /accounts',
      { body: 'id=a', headers: { 'content-type': 'application/x-www-form-urlencoded' } },
      415,
      'unsupported_media_type',
      undefined,
    ],
    ['a body that is too large', 'POST /accounts', { body: 'x'.repeat(16_385) }, 413, 'body_too_large', undefined],
    ['another path', 'GET /nothing', {}, 404, 'not_found', undefined],
    ['a path that cannot be decoded', 'GET /accounts/%zz', {}, 404, 'not_found', undefined],
    ['an id of 101 characters', `GET /accounts/${'a'.repeat(101)}`, {}, 400, 'invalid_request', undefined],
    ['another method', 'POST /accounts/acme', {}, 404, 'not_found', undefined],
  ] as const)('%s', async (_, line, asked, status, code, detail) => {
    const { ask } = api();
    const said = expectProblem(await ask(line, asked), status, code);
    if (detail !== undefined) expect(said).toBe(detail);
  });

  test.each([
    [
      'POST /accounts',
      { id: 'a b', nam: 'A' },
      [
        ['id', 'expected 1 to 64 letters, digits, ".", "_" or "-", but not an API key'],
        ['name', 'missing: expected 1 to 200 characters without control, format or private-use characters'],
        ['nam', 'unknown member "nam": did you mean "name"?'],
      ],
    ],
    [
      'POST /accounts/acme/keys',
      { environment: 'prod', kind: 1, expires_in: '1y', account: 'x' },
      [
        ['account', 'is already in the path'],
        ['environment', 'expected one of test, live'],
        ['kind', 'expected one of public, secret'],
        ['expires_in', 'expected a duration such as 250ms, 30s, 5m, 12h or 7d, from 1s to 3650d'],
      ],
    ],
    [
      'POST /accounts/acme/encryption/test/enable',
      { replace: 'yes', grace: '0s' },
      [
        ['grace', 'expected a duration such as 250ms, 30s, 5m, 12h or 7d, from 1s to 365d'],
        ['replace', 'expected true or false'],
      ],
    ],
    ['POST /accounts/acme/encryption/prod/enable', {}, [['environment', 'expected one of test, live']]],
    ['GET /accounts?limit=0', undefined, [['limit', 'expected a number from 1 to 1000']]],
    [
      'GET /accounts?limit=1001&x=1',
      undefined,
      [
        ['limit', 'expected a number from 1 to 1000'],
        ['x', 'unknown member "x": expected after, limit, search, filter'],
      ],
    ],
    ['GET /accounts?limit=1&limit=2', undefined, [['limit', 'expected a number from 1 to 1000']]],
  ])('name every invalid member of %s %j', async (line, body, errors) => {
    const { ask } = api();
    const response = await ask(line, { body });
    expectProblem(response, 400, 'invalid_request');
    expect(response.body['errors']).toEqual(errors.map(([path, message]) => ({ path, message })));
  });

  test('repeat nothing that was sent', async () => {
    const { ask, sidecar } = api();
    const secret = 'sk_live_5ecretSecretSecret';
    for (const asked of [
      { body: { id: secret, name: `${secret}\n`, [secret]: 1 } },
      { body: `{"id": "${secret}"` },
      { body: secret, headers: { 'idempotency-key': `${secret} x` } },
    ]) {
      const response = await ask('POST /accounts', asked);
      expect(response.status).toBe(400);
      expect(JSON.stringify(response.body)).not.toContain('5ecret');
    }
    expect(JSON.stringify(sidecar.log)).not.toContain('5ecret');
  });

  test.skipIf(!mayMount)('report that the store cannot be written', async () => {
    const mount = new Mount({ 'accounts.yaml': 'accounts: []\n' }, 'size=64k');
    const { ask } = await startApi({
      store: { type: 'file', file: mount.file('accounts.yaml'), masterKeys: [], auditKeys: [] },
    });
    mount.protect();
    const add = { body: { id: 'a', name: 'A' } };
    expectProblem(await ask('POST /accounts', add), 409, 'store_read_only');
    expect((await ask('GET /accounts')).status).toBe(200);
  });

  test('report that the store refuses a change', async () => {
    const { ask, folder } = await startApi();
    folder.write({ 'accounts.yaml': 'accounts: {}\n' });
    expect(expectProblem(await ask('GET /accounts'), 500, 'store_invalid')).toContain('accounts  expected a list');
    folder.write({ 'accounts.yaml': 'accounts: []\n' });
    expect((await ask('GET /accounts')).status).toBe(200);
  });
});

describe('a token', () => {
  const api = fileWide((defer) => startApi({}, undefined, 'follows', defer));

  test.each([
    ['none', null],
    ['another', 'another-token-of-a-test-0123456789'],
    ['a longer one', `${token}x`],
    ['a shorter one', token.slice(0, -1)],
    ['one in another case', token.toUpperCase()],
    ['its hash', sha256Hex(token)],
  ])('%s is refused', async (_, sent) => {
    const { ask, sidecar } = api();
    for (const line of ['GET /accounts', 'POST /accounts', 'GET /openapi.json', 'GET /nothing']) {
      const response = await ask(line, { token: sent });
      expectProblem(response, 401, 'unauthorized');
      expect(response.headers.get('www-authenticate')).toBe('Bearer');
    }
    expect(JSON.stringify(sidecar.log)).not.toContain(token.slice(0, -1));
  });

  test('may be one of several, and is logged by its name', async () => {
    const other = 'second-token-of-a-test-0123456789';
    const tokens = [dashboard, admin('night-shift', other)];
    const operators = operatorsOf(tokens);
    const { ask, sidecar, config } = await startApi({ operators });
    await ask('POST /accounts', { body: { id: 'a', name: 'A' } });
    await ask('POST /accounts', { body: { id: 'b', name: 'B' }, token: other });
    const audit = sidecar.log.filter(({ msg }) => msg === 'audit');
    expect(audit).toMatchObject([
      { actor: 'token:dashboard', action: 'account_added', account: 'a' },
      { actor: 'token:night-shift', action: 'account_added', account: 'b' },
    ]);
    sidecar.app.apply({ ...config, operators: { ...operators, tokens: tokens.slice(1) } });
    expect((await ask('GET /accounts')).status).toBe(401);
    expect((await ask('GET /accounts', { token: other })).status).toBe(200);
  });

  test('is a bearer token, and the scheme may have any case', async () => {
    const { url } = api();
    const status = async (authorization: string): Promise<number> =>
      (await fetch(`${url}/accounts`, { headers: { authorization } })).status;
    expect(await status(`bearer  ${token}`)).toBe(200);
    expect(await status(token)).toBe(401);
    expect(await status(`Basic ${token}`)).toBe(401);
  });
});

test('without a token there is no listener', async () => {
  const sidecar = await startSidecar(configOf('http://127.0.0.1:1'));
  expect(sidecar.app.addresses.operators).toBeUndefined();
  expect(sidecar.log.filter(({ msg }) => msg === 'listening').map(({ listener }) => listener)).toEqual([
    'admin',
    'merchants',
  ]);
});

test('with TLS the listener refuses plain HTTP, and may require client certificates', async () => {
  const authority = createAuthority();
  const { cert, key } = authority.issue('DNS:localhost');
  const operators = operatorsOf([dashboard], { tls: { cert, key, clientCa: authority.cert } });
  const { sidecar } = await startApi({ operators });
  const port = sidecar.app.addresses.operators?.port ?? 0;
  const status = (options: object): Promise<unknown> =>
    new Promise((resolve) => {
      const headers = { authorization: `Bearer ${token}` };
      httpsRequest(
        { port, path: '/api/v1/accounts', headers, ca: authority.cert, servername: 'localhost', ...options },
        (res) => {
          res.resume();
          resolve(res.statusCode);
        },
      )
        .on('error', (error: NodeJS.ErrnoException) => resolve(error.code))
        .end();
    });
  expect(await status({ cert, key })).toBe(200);
  expect(await status({})).toMatch(/^(?:ERR_SSL|ECONNRESET)/);
  await expect(fetch(`http://127.0.0.1:${port}/api/v1/accounts`)).rejects.toThrow('fetch failed');
});

test.each(['without TLS', 'with TLS', 'with client certificates'])(
  'a client that waits for 100 Continue before it sends its body gets it, %s',
  async (listener) => {
    const authority = createAuthority();
    const own = authority.issue('DNS:localhost');
    const clientCa = listener === 'with client certificates' ? authority.cert : undefined;
    const isPlain = listener === 'without TLS';
    const { sidecar } = await startApi({
      operators: operatorsOf([dashboard], isPlain ? {} : { tls: { ...own, clientCa } }),
    });
    const port = sidecar.app.addresses.operators?.port ?? 0;
    const client = new Connection(
      isPlain ? connect(port, '127.0.0.1') : connectTls({ port, ca: authority.cert, servername: 'localhost', ...own }),
    );
    const body = JSON.stringify({ id: 'acme', name: 'Acme' });
    const head = `POST /api/v1/accounts HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer ${token}\r\n`;
    client.send(
      `${head}Expect: 100-continue\r\nContent-Type: application/json\r\nContent-Length: ${body.length}\r\n\r\n`,
    );
    await client.untilText('HTTP/1.1 100 Continue\r\n\r\n');
    client.send(body);
    expect(await client.untilText('"id":"acme"')).toContain('HTTP/1.1 201 Created');
  },
);

test('a response in progress says that the connection ends if the client CA is changed in the meantime', async () => {
  const [authority, another] = [createAuthority(), createAuthority()];
  const own = authority.issue('DNS:localhost');
  const withCa = (clientCa: string) => operatorsOf([dashboard], { tls: { ...own, clientCa } });
  const { sidecar, folder, config } = await startApi({ operators: withCa(authority.cert) }, undefined, 'is deaf');
  const port = sidecar.app.addresses.operators?.port ?? 0;
  const agent = new Agent({ keepAlive: true, maxSockets: 1, ca: authority.cert, servername: 'localhost', ...own });
  onTestFinished(() => agent.destroy());
  const add = (id: string): Promise<readonly [status: unknown, connection: unknown]> =>
    new Promise((resolve, reject) => {
      const headers = { authorization: `Bearer ${token}`, 'content-type': 'application/json' };
      httpsRequest({ port, path: '/api/v1/accounts', method: 'POST', headers, agent }, (res) => {
        res.resume().once('end', () => resolve([res.statusCode, res.headers.connection]));
      })
        .on('error', reject)
        .end(JSON.stringify({ id, name: id }));
    });
  expect(await add('first')).toEqual([201, 'keep-alive']);
  const release = await lockFile(folder.file('accounts.yaml'), 0);
  const added = add('second');
  await delay(500);
  for (const clientCa of [`${authority.cert}${another.cert}`, `${another.cert}${authority.cert}`])
    sidecar.app.apply({ ...config, operators: withCa(clientCa) });
  release();
  expect(await added).toEqual([201, 'close']);
  // The next request is sent on another connection.
  expect(await add('third')).toEqual([201, 'keep-alive']);
});

test('a connection ends after its last response if the client CA is changed before that response is read, whatever the client sends next', async () => {
  const [authority, another] = [createAuthority(), createAuthority()];
  const own = authority.issue('DNS:localhost');
  const withCa = (clientCa: string) => operatorsOf([dashboard], { tls: { ...own, clientCa } });
  const { sidecar, config, file } = await startApi({ operators: withCa(authority.cert) });
  const port = sidecar.app.addresses.operators?.port ?? 0;
  const report = holdReports(({ localPort }) => localPort === port);
  const socket = connectTls({ port, ca: authority.cert, servername: 'localhost', ...own });
  const client = new Connection(socket);
  const add = (id: string): void => {
    const body = JSON.stringify({ id, name: id });
    const head = `POST /api/v1/accounts HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer ${token}\r\n`;
    client.send(`${head}Content-Type: application/json\r\nContent-Length: ${body.length}\r\n\r\n${body}`);
  };
  add('first');
  await client.untilText('"id":"first"');
  sidecar.app.apply({ ...config, operators: withCa(another.cert) });
  add('second');
  await client.untilEnded();
  report();
  await delay(100);
  expect(file()).toContain('first');
  expect(file()).not.toContain('second');
});

test('every request is logged and counted, and the series do not grow with what clients send', async () => {
  const { ask, url, sidecar } = await startApi();
  await ask('POST /accounts', { body: { id: 'acme', name: 'Acme' }, headers: { 'x-request-id': 'mine.1' } });
  await ask('GET /accounts/other');
  await ask('GET /somewhere', { headers: { 'x-request-id': 'not "mine"' } });
  await ask('GET /accounts', { token: null });
  const lines = sidecar.log.filter(({ msg }) => msg === 'operator request');
  expect(lines).toMatchObject([
    { request_id: 'mine.1', operation: 'add_account', status: 201, token: 'dashboard', account: 'acme' },
    { operation: 'show_account', status: 404, token: 'dashboard', account: 'other', code: 'account_unknown' },
    { operation: 'none', status: 404, token: 'dashboard', code: 'not_found' },
    { operation: 'list_accounts', status: 401, code: 'unauthorized' },
  ]);
  for (const line of lines) expect(line['duration_ms']).toBeTypeOf('number');
  expect(lines[2]?.['request_id']).toMatch(/^[0-9a-f-]{36}$/);
  const metrics = await (await fetch(`${sidecar.adminUrl}/metrics`)).text();
  expect(metrics.match(/^envelope_sidecar_operators_requests_total.*$/gm)).toEqual([
    'envelope_sidecar_operators_requests_total{operation="add_account",status="201"} 1',
    'envelope_sidecar_operators_requests_total{operation="show_account",status="404"} 1',
    'envelope_sidecar_operators_requests_total{operation="none",status="404"} 1',
    'envelope_sidecar_operators_requests_total{operation="list_accounts",status="401"} 1',
  ]);
  expect(url).toContain('/api/v1');
});

test('a request without a known token is logged as a warning with its whole address, and counted by its reason', async () => {
  const { ask, sidecar, url } = await startApi({ log: { level: 'info', client: 'none' } });
  await ask('GET /accounts', { token: 'x'.repeat(40), headers: { 'x-request-id': 'unknown' } });
  await ask('GET /accounts', { token: null, headers: { 'x-request-id': 'none' } });
  await ask('GET /accounts/acme', { headers: { 'x-request-id': 'known' } });
  await fetch(new URL('/console/session', url), {
    method: 'POST',
    headers: { 'content-type': 'application/json', 'sec-fetch-site': 'same-origin', 'x-request-id': 'sign-in' },
    body: JSON.stringify({ token: 'y'.repeat(40) }),
  });
  await fetch(url, { headers: { 'x-request-id': 'host' }, redirect: 'manual' });
  const lines = sidecar.log.filter(({ msg }) => msg === 'operator request');
  const levels = Object.fromEntries(lines.map(({ request_id, level }) => [request_id, level]));
  expect(levels).toMatchObject({ unknown: 'warn', none: 'warn', known: 'info' });
  for (const line of lines) expect(line['address']).toBe('127.0.0.1');
  const metrics = await (await fetch(`${sidecar.adminUrl}/metrics`)).text();
  expect(metrics.match(/^envelope_sidecar_operator_refusals_total.*$/gm)).toEqual([
    'envelope_sidecar_operator_refusals_total{reason="no_token"} 2',
    'envelope_sidecar_operator_refusals_total{reason="unknown_token"} 2',
    'envelope_sidecar_operator_refusals_total{reason="forbidden"} 0',
    'envelope_sidecar_operator_refusals_total{reason="unknown_host"} 0',
  ]);
});

test('browsers neither cache responses, nor guess their type, nor give them to other sites', async () => {
  const { ask } = await withAcme();
  for (const line of ['GET /accounts', 'GET /nothing']) {
    expect(Object.fromEntries((await ask(line)).headers)).toMatchObject({
      'cache-control': 'no-store',
      'x-content-type-options': 'nosniff',
      'cross-origin-resource-policy': 'same-origin',
    });
  }
});

test('a new configuration with another store is used', async () => {
  const { ask, sidecar, config, folder, file } = await startApi();
  folder.write({ 'others.yaml': 'accounts: [{ id: other, name: Other }]\n' });
  const masterKeys = parseMasterKeys('00'.repeat(32)) ?? [];
  sidecar.app.apply({
    ...config,
    store: { type: 'file', file: folder.file('others.yaml'), masterKeys, auditKeys: [] },
  });
  expect((await ask('GET /accounts')).body['accounts']).toMatchObject([{ id: 'other' }]);
  expect((await ask('POST /accounts/other/encryption/live/enable')).status).toBe(201);
  expect(file()).toBe('accounts: []\n');
});

test('a change waits for another one that is being made elsewhere', async () => {
  const { ask, folder, file } = await startApi();
  const release = await lockFile(folder.file('accounts.yaml'), 0);
  const added = ask('POST /accounts', { body: { id: 'acme', name: 'Acme' } });
  folder.write({ 'accounts.yaml': 'accounts: [{ id: first, name: First }]\n' });
  release();
  expect((await added).status).toBe(201);
  expect(file()).toContain('First');
});

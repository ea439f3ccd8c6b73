import { readdirSync } from 'node:fs';
import { request as httpRequest, type IncomingHttpHeaders } from 'node:http';
import { request as httpsRequest } from 'node:https';
import { setTimeout as delay } from 'node:timers/promises';
import { beforeAll, describe, expect, onTestFinished, test, vi } from 'vitest';
import { lockFile } from '../../src/accounts/file/lock.ts';
import { Sessions } from '../../src/operators/sessions.ts';
import { createAuthority } from '../support/certificates.ts';
import { admin, operatorsOf } from '../support/sidecar.ts';
import { buildConsole } from '../console/build.ts';
import { dashboard, startApi, token } from './api.ts';

const now = Date.parse('2026-11-21T10:00:00Z');
const policy =
  "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; img-src 'self' data:; " +
  "form-action 'self'; frame-ancestors 'none'; base-uri 'none'";

beforeAll(() => buildConsole(), 60_000);

interface Asked {
  readonly headers?: Readonly<Record<string, string>>;
  readonly body?: object;
}

interface Answered {
  readonly status: number;
  readonly headers: IncomingHttpHeaders;
  readonly body: string;
}

/** Sends a request as a browser does. `fetch` would not let a test set these headers. */
function askAt(port: number, line: string, { headers, body }: Asked = {}, ca?: string): Promise<Answered> {
  const [method = '', path = ''] = line.split(' ');
  return new Promise((resolve, reject) => {
    const options = { host: '127.0.0.1', port, method, path, agent: false };
    const sent = { ...(body !== undefined && { 'content-type': 'application/json' }), ...headers };
    const begin = ca === undefined ? httpRequest : httpsRequest;
    const req = begin(
      { ...options, headers: sent, ...(ca !== undefined && { ca, servername: 'localhost' }) },
      (res) => {
        let text = '';
        res.setEncoding('utf8').on('data', (more: string) => (text += more));
        res.on('end', () => resolve({ status: res.statusCode ?? 0, headers: res.headers, body: text }));
      },
    );
    req.on('error', reject);
    req.end(body === undefined ? undefined : JSON.stringify(body));
  });
}

const ownPage = { 'sec-fetch-site': 'same-origin' };
const session = 'POST /console/session';

/** Starts a sidecar with a console. `at` and `signIn` send requests as a browser does. */
async function start(clock = () => now) {
  const api = await startApi({ operators: operatorsOf([dashboard]) }, clock);
  const port = api.sidecar.app.addresses.operators?.port ?? 0;
  const at = (line: string, asked?: Asked): Promise<Answered> => askAt(port, line, asked);
  /** Signs in and returns the headers that identify the session. */
  const signIn = async (headers: Asked['headers'] = ownPage) => {
    const { headers: answered, body } = await at(session, { headers, body: { token } });
    const { session_key = '' } = JSON.parse(body) as { session_key?: string };
    return { cookie: answered['set-cookie']?.[0]?.split(';')[0] ?? '', 'session-key': session_key };
  };
  return { api, port, at, signIn };
}

describe('the page', () => {
  test('is served in full without a token, with the content security policy, and is not cached', async () => {
    const { at } = await start();
    const page = await at('GET /console/');
    expect(page.status).toBe(200);
    const files = readdirSync('dist/console/assets').map((name) => `/console/assets/${name}`);
    expect(files.map((name) => name.replace(/^.*\./, '')).toSorted()).toEqual(['css', 'js', 'svg']);
    for (const file of files.filter((name) => !name.endsWith('.svg'))) expect(page.body).toContain(file);
    const types = { css: 'text/css', js: 'text/javascript', svg: 'image/svg+xml' };
    for (const path of ['/console/', ...files]) {
      const { status, headers } = await at(`GET ${path}`);
      const type = types[path.split('.').at(-1) as keyof typeof types] ?? 'text/html';
      expect([path, status, headers['content-type']]).toEqual([path, 200, `${type}; charset=utf-8`]);
      expect(headers).toMatchObject({
        'content-security-policy': policy,
        'cache-control': 'no-store',
        'x-content-type-options': 'nosniff',
        'referrer-policy': 'no-referrer',
        'cross-origin-opener-policy': 'same-origin',
        'cross-origin-resource-policy': 'same-origin',
      });
      expect(headers).not.toHaveProperty('etag');
      expect(headers).not.toHaveProperty('last-modified');
    }
  });

  test('has no inline script and no inline style', async () => {
    const { body } = await (await start()).at('GET /console/');
    expect(body).not.toMatch(/<style|style=|<script(?![^>]*\bsrc=)|\bon[a-z]+=/);
  });

  test('is reached by redirects from the root of the port and from its path without the slash', async () => {
    const { at } = await start();
    expect(await at('GET /')).toMatchObject({ status: 302, headers: { location: '/console/' } });
    expect(await at('GET /console')).toMatchObject({ status: 302, headers: { location: '/console/' } });
  });

  test.each(['/console/none', '/console/assets/', '/console/..%2f..%2fpackage.json', '/console/%2e%2e/main.js'])(
    'has nothing at %s',
    async (path) => {
      const { status, body } = await (await start()).at(`GET ${path}`);
      expect([400, 403, 404]).toContain(status);
      expect(body).not.toContain('envelope-sidecar"');
    },
  );

  test('is off as soon as a reload disables it', async () => {
    const { api, at, signIn } = await start();
    const halves = await signIn();
    api.sidecar.app.apply({ ...api.config, operators: { ...operatorsOf([dashboard]), console: false } });
    for (const line of ['GET /console/', 'GET /console/session', session]) {
      expect((await at(line, { headers: ownPage })).status).toBe(404);
    }
    expect((await at('GET /api/v1/accounts', { headers: { ...ownPage, ...halves } })).status).toBe(401);
  });

  test('is served for no other host', async () => {
    const { at } = await start();
    for (const line of ['GET /console/', 'GET /console/session']) {
      expect((await at(line, { headers: { host: 'rebound.example' } })).status).toBe(421);
    }
  });
});

describe('a session', () => {
  test('is created with a token, and the API accepts its cookie together with its key', async () => {
    const { port, at } = await start();
    const { status, headers, body } = await at(session, { headers: ownPage, body: { token } });
    expect(status).toBe(200);
    const { session_key: key = '', ...shown } = JSON.parse(body) as { session_key?: string };
    expect(key).toMatch(/^[A-Za-z0-9_-]{43}$/);
    expect(shown).toEqual({
      name: 'dashboard',
      role: 'admin',
      account: null,
      expires_at: '2026-11-21T18:00:00Z',
      accounts_writable: true,
    });
    const [cookie = '', ...attributes] = headers['set-cookie']?.[0]?.split('; ') ?? [];
    expect(cookie).toMatch(new RegExp(`^sidecar-session${port}=[A-Za-z0-9_-]{43}$`));
    expect(attributes.toSorted()).toEqual([
      'Expires=Sat, 21 Nov 2026 18:00:00 GMT',
      'HttpOnly',
      'Path=/',
      'SameSite=Strict',
    ]);
    expect(headers).toMatchObject({ 'cache-control': 'no-store' });
    const halves = { cookie, 'session-key': key };
    const accounts = await at('GET /api/v1/accounts', { headers: { ...ownPage, ...halves } });
    expect(accounts.status).toBe(200);
    expect(JSON.parse(accounts.body)).toMatchObject({ accounts: [], next: null });
    const again = await at('GET /console/session', { headers: { ...ownPage, ...halves } });
    expect(JSON.parse(again.body)).toEqual(shown);
  });

  test('needs both its halves, because another program on the host also gets the cookie, whatever its port is', async () => {
    const { api, at, signIn } = await start();
    const [halves, other] = [await signIn(), await signIn()];
    const incomplete: readonly Readonly<Record<string, string>>[] = [
      { cookie: halves.cookie },
      { 'session-key': halves['session-key'] },
      { cookie: halves.cookie, 'session-key': '' },
      { cookie: halves.cookie, 'session-key': other['session-key'] },
      { cookie: halves.cookie, 'session-key': halves.cookie.split('=')[1] ?? '' },
    ];
    for (const headers of incomplete) {
      const sent = { headers: { ...ownPage, ...headers } };
      expect((await at('GET /api/v1/accounts', sent)).status).toBe(401);
      expect((await at('POST /api/v1/accounts', { ...sent, body: { id: 'a', name: 'A' } })).status).toBe(401);
      expect((await at('GET /console/session', sent)).status).toBe(204);
      await at('DELETE /console/session', sent);
    }
    expect(api.file()).toBe('accounts: []\n');
    expect((await at('GET /api/v1/accounts', { headers: { ...ownPage, ...halves } })).status).toBe(200);
  });

  test('has a Secure cookie on a listener with TLS', async () => {
    const authority = createAuthority();
    const { cert, key } = authority.issue('DNS:localhost');
    const api = await startApi({ operators: { ...operatorsOf([dashboard]), tls: { cert, key, clientCa: undefined } } });
    const port = api.sidecar.app.addresses.operators?.port ?? 0;
    const asked = { headers: { origin: `https://127.0.0.1:${port}` }, body: { token } };
    const { headers } = await askAt(port, session, asked, authority.cert);
    const [cookie = '', ...attributes] = headers['set-cookie']?.[0]?.split('; ') ?? [];
    expect(cookie).toMatch(new RegExp(`^__Host-sidecar-session${port}=[A-Za-z0-9_-]{43}$`));
    // There is no Domain, because the prefix of the cookie's name forbids it.
    expect(attributes.map((attribute) => attribute.replace(/^Expires=.*/, 'Expires')).toSorted()).toEqual([
      'Expires',
      'HttpOnly',
      'Path=/',
      'SameSite=Strict',
      'Secure',
    ]);
  });

  test('is refused for a wrong token', async () => {
    const { at } = await start();
    for (const wrong of [`${token}x`, token.slice(1), `${token} `, 'Bearer']) {
      const { status, headers } = await at(session, { headers: ownPage, body: { token: wrong } });
      expect(status).toBe(401);
      expect(headers).not.toHaveProperty('set-cookie');
    }
    expect((await at(session, { headers: ownPage, body: {} })).status).toBe(400);
  });

  test('ends when its time is over, and not before', async () => {
    const eightHours = 8 * 3_600_000;
    // Use whole milliseconds, because sums of fractions are not exact.
    const began = Math.floor(performance.now());
    let time = began;
    const { at, signIn } = await start();
    onTestFinished(() => void vi.restoreAllMocks());
    vi.spyOn(performance, 'now').mockImplementation(() => time);
    const halves = await signIn();
    const status = async () => (await at('GET /api/v1/accounts', { headers: { ...ownPage, ...halves } })).status;
    const quarter = 15 * 60_000;
    for (time = began + quarter; time < began + eightHours; time += quarter) expect(await status()).toBe(200);
    time = began + eightHours - 1;
    expect(await status()).toBe(200);
    time = began + eightHours;
    expect(await status()).toBe(401);
    expect((await at('GET /console/session', { headers: { ...ownPage, ...halves } })).status).toBe(204);
  });

  test('ends after thirty minutes without a request, and not before', async () => {
    let time = Math.floor(performance.now());
    // Set the clock back each time it is read. That must not prolong the session.
    let clock = now;
    const { at, signIn } = await start(() => (clock -= 3_600_000));
    onTestFinished(() => void vi.restoreAllMocks());
    vi.spyOn(performance, 'now').mockImplementation(() => time);
    const halves = await signIn();
    const status = async () => (await at('GET /api/v1/accounts', { headers: { ...ownPage, ...halves } })).status;
    const idle = 30 * 60_000;
    time += idle - 1;
    expect(await status()).toBe(200);
    time += idle - 1;
    expect(await status()).toBe(200);
    time += idle;
    expect(await status()).toBe(401);
  });

  test('is refused with growing delays for wrong tokens from one address, and begins at once with a valid one', async () => {
    const { at, signIn } = await start();
    const guess = async (): Promise<number> => {
      const begin = performance.now();
      expect((await at(session, { headers: ownPage, body: { token: `${token}x` } })).status).toBe(401);
      return performance.now() - begin;
    };
    for (let i = 0; i < 5; i += 1) await guess();
    expect(await guess()).toBeGreaterThanOrEqual(249);
    expect(await guess()).toBeGreaterThanOrEqual(499);
    const slow = guess();
    expect((await signIn())['session-key']).not.toBe('');
    const order: string[] = [];
    await Promise.all([slow.then(() => order.push('guess')), signIn().then(() => order.push('token'))]);
    expect(order).toEqual(['token', 'guess']);
  });

  test('ends on sign-out together with the sessions of other windows of its browser, but no other session does', async () => {
    const { at, signIn } = await start();
    const [first, other] = [await signIn(), await signIn()];
    const beside = await signIn({ ...ownPage, cookie: first.cookie });
    // The browser has one cookie for all its windows.
    const halves = { ...first, cookie: beside.cookie };
    const statuses = () =>
      Promise.all(
        [halves, beside, other].map(
          async (each) => (await at('GET /api/v1/accounts', { headers: { ...ownPage, ...each } })).status,
        ),
      );
    expect(await statuses()).toEqual([200, 200, 200]);
    const out = await at('DELETE /console/session', { headers: { ...ownPage, ...halves } });
    expect(out).toMatchObject({ status: 204 });
    expect(out.headers['set-cookie']?.[0]).toContain('Expires=Thu, 01 Jan 1970');
    expect(await statuses()).toEqual([401, 401, 200]);
  });

  test('has a new cookie, with which the other windows of its browser continue, and the previous cookie is worthless', async () => {
    const { at, signIn } = await start();
    const first = await signIn();
    const second = await signIn({ ...ownPage, cookie: first.cookie });
    expect(second.cookie).not.toBe(first.cookie);
    const statusOf = async (halves: object) =>
      (await at('GET /api/v1/accounts', { headers: { ...ownPage, ...halves } })).status;
    expect(await statusOf(first)).toBe(401);
    expect(await statusOf({ ...second, cookie: first.cookie })).toBe(401);
    expect(await statusOf({ ...first, cookie: second.cookie })).toBe(200);
    expect(await statusOf(second)).toBe(200);
  });

  test('ends when its token is no longer accepted, and follows the role of its token', async () => {
    const { api, at, signIn } = await start();
    const halves = await signIn();
    const status = async (line: string) =>
      (
        await at(line, {
          headers: { ...ownPage, ...halves },
          ...(line.startsWith('POST') && { body: { id: 'a', name: 'A' } }),
        })
      ).status;
    api.sidecar.app.apply({ ...api.config, operators: operatorsOf([{ ...dashboard, role: 'viewer' }]) });
    expect(await status('POST /api/v1/accounts')).toBe(403);
    expect(await status('GET /api/v1/accounts')).toBe(200);
    api.sidecar.app.apply({
      ...api.config,
      operators: operatorsOf([admin('dashboard', 'another-token-of-the-same-name')]),
    });
    expect(await status('GET /api/v1/accounts')).toBe(401);
  });

  test('ends when its token gets the role core, which cannot sign in', async () => {
    const { api, at, signIn } = await start();
    const headers = { ...ownPage, ...(await signIn()) };
    const status = async () => (await at('GET /console/session', { headers })).status;
    expect(await status()).toBe(200);
    for (const role of ['core', 'admin'] as const) {
      api.sidecar.app.apply({ ...api.config, operators: operatorsOf([{ ...dashboard, role }]) });
      expect(await status()).toBe(204);
    }
  });

  test('makes no key for a request that waits for its turn when the session is signed out', async () => {
    const { api, at, signIn } = await start();
    const halves = { ...ownPage, ...(await signIn()) };
    expect((await at('POST /api/v1/accounts', { headers: halves, body: { id: 'a', name: 'A' } })).status).toBe(201);
    const release = await lockFile(api.folder.file('accounts.yaml'), 0);
    const body = { environment: 'live', kind: 'secret' };
    const issued = at('POST /api/v1/accounts/a/keys', { headers: halves, body });
    await delay(500);
    expect((await at('DELETE /console/session', { headers: halves })).status).toBe(204);
    await delay(300);
    release();
    expect((await issued).status).toBe(401);
    expect((await api.ask('GET /accounts/a/keys')).body['keys']).toEqual([]);
  });

  test.each([
    ['POST /api/v1/accounts/a/keys', { environment: 'live', kind: 'secret' }, 201],
    ['POST /api/v1/accounts/a/deactivate', undefined, 200],
  ])('makes a change that waits for its turn while another window signs in: %s', async (line, body, status) => {
    const { api, at, signIn } = await start();
    const halves = await signIn();
    const headers = { ...ownPage, ...halves };
    expect((await at('POST /api/v1/accounts', { headers, body: { id: 'a', name: 'A' } })).status).toBe(201);
    const release = await lockFile(api.folder.file('accounts.yaml'), 0);
    const changed = at(line, { headers, ...(body && { body }) });
    await delay(500);
    const second = await signIn({ ...ownPage, cookie: halves.cookie });
    expect(second.cookie).not.toBe(halves.cookie);
    await delay(300);
    release();
    expect((await changed).status).toBe(status);
    // The previous cookie is not accepted for anything else.
    expect((await at('GET /api/v1/accounts', { headers })).status).toBe(401);
  });

  test('does not resume if its token is removed and then added again', async () => {
    const { api, at, signIn } = await start();
    const halves = await signIn();
    const other = admin('other', 'another-token-of-a-test-0123456789-0123456789');
    const status = async () => (await at('GET /api/v1/accounts', { headers: { ...ownPage, ...halves } })).status;
    api.sidecar.app.apply({ ...api.config, operators: operatorsOf([dashboard, other]) });
    expect(await status()).toBe(200);
    // Remove the token and add it again, without a request in between.
    api.sidecar.app.apply({ ...api.config, operators: operatorsOf([other]) });
    api.sidecar.app.apply(api.config);
    expect(await status()).toBe(401);
  });

  test('is logged at its beginning and end, with the name of the token and without the token', async () => {
    const { api, signIn } = await start();
    const halves = await signIn();
    expect(api.sidecar.log).toContainEqual(
      expect.objectContaining({ operation: 'sign_in', status: 200, token: 'dashboard' }),
    );
    const text = JSON.stringify(api.sidecar.log);
    expect(text).not.toContain(token);
    expect(text).not.toContain(halves.cookie.split('=')[1]);
    expect(text).not.toContain(halves['session-key']);
  });

  test('beyond a hundred of one token ends the oldest of that token, and none of other tokens', () => {
    const sessions = new Sessions(() => now);
    const other = admin('other', 'another-token-of-a-test-0123456789-0123456789');
    const session = sessions.begin(other, '');
    const ids = Array.from({ length: 101 }, () => sessions.begin(dashboard, ''));
    const found = ids.map((id) => sessions.find({}, id, [dashboard])?.token);
    expect(found).toEqual([undefined, ...Array.from({ length: 100 }, () => dashboard)]);
    expect(sessions.find({}, session, [dashboard, other])?.token).toBe(other);
  });
});

describe('a request from a page of another site', () => {
  const foreign: readonly [string, Readonly<Record<string, string>>][] = [
    ['says so', { 'sec-fetch-site': 'cross-site' }],
    ['is of a sibling’s page', { 'sec-fetch-site': 'same-site' }],
    ['is a navigation', { 'sec-fetch-site': 'none' }],
    ['has its origin', { origin: 'https://evil.example' }],
    ['has an opaque origin', { origin: 'null' }],
    ['says so, whatever the origin', { 'sec-fetch-site': 'cross-site', origin: 'http://127.0.0.1' }],
  ];

  test.each(foreign)('%s: its cookie is ignored', async (_name, headers) => {
    const { api, at, signIn } = await start();
    const halves = await signIn();
    for (const line of ['GET /api/v1/accounts', 'POST /api/v1/accounts']) {
      expect((await at(line, { headers: { ...headers, ...halves } })).status).toBe(401);
    }
    for (const line of [session, 'DELETE /console/session']) {
      const { status, headers: answered } = await at(line, {
        headers: { ...headers, ...halves },
        ...(line === session && { body: { token } }),
      });
      expect(status).toBe(403);
      expect(answered).not.toHaveProperty('set-cookie');
    }
    expect(api.file()).toBe('accounts: []\n');
  });

  test('without either header is refused for a change and accepted for a read', async () => {
    const { at, signIn } = await start();
    const halves = await signIn();
    expect((await at('POST /api/v1/accounts', { headers: halves, body: { id: 'a', name: 'A' } })).status).toBe(401);
    expect((await at('GET /api/v1/accounts', { headers: halves })).status).toBe(200);
  });

  test('without Sec-Fetch-Site is accepted if the Origin is that of the page', async () => {
    const { port, at, signIn } = await start();
    const halves = await signIn();
    const asked = { body: { id: 'a', name: 'A' } };
    const from = (origin: string) => at('POST /api/v1/accounts', { ...asked, headers: { ...halves, origin } });
    expect((await from(`http://127.0.0.1:${port + 1}`)).status).toBe(401);
    expect((await from(`https://127.0.0.1:${port}`)).status).toBe(401);
    expect((await from(`http://127.0.0.1:${port}`)).status).toBe(201);
  });

  test('is accepted with a token in Authorization, and no cookie helps a wrong token', async () => {
    const { at, signIn } = await start();
    const halves = await signIn();
    const with_ = (authorization: string) =>
      at('GET /api/v1/accounts', { headers: { ...ownPage, ...halves, authorization } });
    expect((await with_('Bearer wrong')).status).toBe(401);
    expect((await with_(`Bearer ${token}`)).status).toBe(200);
  });
});

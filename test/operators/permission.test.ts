import { readFileSync } from 'node:fs';
import { request } from 'node:http';
import { text } from 'node:stream/consumers';
import { describe, expect, test } from 'vitest';
import { environmentNames, type EnvironmentName } from '../../src/accounts/api-key.ts';
import type { OperatorRole, OperatorsToken } from '../../src/config/config.ts';
import {
  keyNamed,
  settings,
  openStore,
  put,
  storedAccount,
  storedEncryption,
  storedKey,
} from '../accounts/postgres/fixtures.ts';
import { describeWithPostgres, usePostgres } from '../support/postgres.ts';
import { operatorsOf } from '../support/sidecar.ts';
import { expectProblem, startApi, type TestApi } from './api.ts';
import { sha256Hex } from '../../src/cryptography.ts';

const tokenOf = (name: string): string => `${name}-token-of-a-test-0123456789-0123456789`;

function operator(name: string, role: OperatorRole, account?: string, environment?: EnvironmentName): OperatorsToken {
  return { name, role, account, environment, hash: sha256Hex(tokenOf(name)) };
}

const tokens = [
  operator('ada', 'admin'),
  operator('otto', 'operator'),
  operator('vera', 'viewer'),
  operator('acme-owner', 'admin', 'acme'),
  operator('acme-shop', 'operator', 'acme'),
  operator('acme-reader', 'viewer', 'acme'),
  operator('globex-shop', 'operator', 'globex'),
  operator('nobody', 'admin', 'not-there'),
  operator('core', 'core'),
  operator('live-core', 'core', undefined, 'live'),
  operator('acme-core', 'core', 'acme'),
];
/** The roles that include each role. */
const including: Readonly<Record<OperatorRole, readonly OperatorRole[]>> = {
  viewer: ['viewer', 'operator', 'admin'],
  operator: ['operator', 'admin'],
  admin: ['admin'],
  core: ['core', 'admin'],
};

interface Row {
  /** The lowest role that may use the operation. */
  readonly role: OperatorRole;
  /** The lowest role in live, if it is a different one. */
  readonly live?: OperatorRole;
  /**
   * What a token of one account gets: everything if the `path` names its account, only the part of its `own` account, or nothing (`none`).
   */
  readonly account: 'path' | 'own' | 'none';
  readonly query?: string;
  readonly body?: object;
}

const sha256 = 'b'.repeat(64);

/** The permissions of each kind of token, as in docs/operators-api.md. Each operation of docs/operators.openapi.json must have a row. */
const rows: Readonly<Record<string, Row>> = {
  show_session: { role: 'viewer', account: 'own' },
  list_accounts: { role: 'viewer', account: 'own' },
  add_account: { role: 'operator', account: 'none', body: { id: 'new', name: 'New' } },
  show_account: { role: 'viewer', account: 'path' },
  rename_account: { role: 'operator', account: 'none', body: { name: 'Other' } },
  activate_account: { role: 'admin', account: 'none' },
  deactivate_account: { role: 'admin', account: 'none' },
  // Nothing is removed, because both accounts are active.
  remove_account: { role: 'admin', account: 'none' },
  list_due: { role: 'viewer', account: 'own' },
  // This is a key of globex. For tokens of another account, it does not exist.
  find_key: { role: 'viewer', account: 'own', query: `sha256=${sha256}` },
  show_traffic: { role: 'viewer', account: 'none' },
  show_key: { role: 'viewer', account: 'path' },
  list_keys: { role: 'viewer', account: 'path' },
  issue_key: { role: 'operator', account: 'path', body: { environment: 'test', kind: 'secret' } },
  rotate_key: { role: 'operator', account: 'path' },
  revoke_key: { role: 'operator', account: 'path' },
  list_graces: { role: 'viewer', account: 'own' },
  show_encryption: { role: 'viewer', account: 'path' },
  change_grace: { role: 'operator', account: 'path', body: { until: new Date(Date.now() + 3_600_000).toISOString() } },
  end_grace: { role: 'operator', account: 'path' },
  enable_encryption: { role: 'operator', account: 'path', body: { replace: true } },
  disable_encryption: { role: 'operator', live: 'admin', account: 'path' },
  seal_body: { role: 'core', account: 'path', body: { event: 'paid' } },
  show_overview: { role: 'viewer', account: 'none' },
  show_activity: { role: 'viewer', account: 'own' },
  show_failures: { role: 'viewer', account: 'none' },
  list_events: { role: 'viewer', account: 'own' },
  show_configuration: { role: 'viewer', account: 'none' },
  diagnose_envelope: {
    role: 'viewer',
    account: 'own',
    body: { key: 'c'.repeat(32), iv: 'c'.repeat(16), data: '00' },
  },
};

interface Operation {
  readonly name: string;
  readonly method: string;
  /** The path, with its `{parameters}`. */
  readonly path: string;
}

const described = (
  JSON.parse(readFileSync('docs/operators.openapi.json', 'utf8')) as {
    readonly paths: Readonly<Record<string, Readonly<Record<string, { readonly operationId: string }>>>>;
  }
).paths;

const operations: readonly Operation[] = Object.entries(described).flatMap(([path, methods]) =>
  Object.entries(methods).map(([method, { operationId }]) => ({
    name: operationId,
    method: method.toUpperCase(),
    path,
  })),
);

function rowOf(name: string): Row {
  const row = rows[name];
  if (row === undefined) throw new Error(`${name} has no row: who may use it?`);
  return row;
}

/** The target of an operation on an account. */
function targetOf({ path, name }: Operation, account: string, more?: string, environment = 'test'): string {
  const query = [rowOf(name).query, more].filter((part) => part !== undefined).join('&');
  const filled = path
    .replace('{account}', account)
    .replace('{key}', `${account}-sk`)
    .replace('{environment}', environment);
  return query === '' ? filled : `${filled}?${query}`;
}

type Sent = Readonly<Record<string, string>>;

interface Received {
  readonly status: number;
  readonly text: string;
  /** The cookie that was set, as `name=value`. */
  readonly cookie: string;
}

/** Sends a request that `fetch` would change: with exactly this path, and with the headers of a browser. */
function send({ sidecar }: TestApi, method: string, target: string, headers: Sent, body?: unknown): Promise<Received> {
  const json: Sent = body === undefined ? {} : { 'content-type': 'application/json' };
  const { port } = sidecar.app.addresses.operators ?? {};
  return new Promise((resolve, reject) => {
    const sent = request({ host: '127.0.0.1', port, method, path: target, headers: { ...json, ...headers } });
    sent.on('error', reject);
    sent.on('response', (response) => {
      const cookie = response.headers['set-cookie']?.[0]?.split(';')[0] ?? '';
      text(response).then((body) => resolve({ status: response.statusCode ?? 0, text: body, cookie }), reject);
    });
    sent.end(typeof body === 'string' ? body : JSON.stringify(body));
  });
}

function bearer(name: string): Sent {
  return { authorization: `Bearer ${tokenOf(name)}` };
}

/** Signs in to the console with each token. Returns the headers that identify a token's session. */
async function signIn(api: TestApi): Promise<(name: string) => Sent> {
  const page = { 'sec-fetch-site': 'same-origin' };
  const halves = new Map<string, Sent>();
  for (const { name, role } of tokens) {
    const { cookie, text, status } = await send(api, 'POST', '/console/session', page, { token: tokenOf(name) });
    if (role === 'core') {
      expect(status).toBe(403);
      continue;
    }
    halves.set(name, { cookie, 'session-key': (JSON.parse(text) as { session_key: string }).session_key });
  }
  // The role core cannot sign in, so its token itself is sent.
  return (name) => ({ ...page, ...(halves.get(name) ?? bearer(name)) });
}

/** Starts a sidecar with the accounts acme and globex in a file, each with a key, credentials and a grace period. */
async function inFile(): Promise<TestApi> {
  const api = await startApi({ operators: operatorsOf(tokens) });
  const account = (id: string, digit: string): object => ({
    id,
    name: id,
    keys: [{ id: `${id}-sk`, prefix: 'sk_test_', sha256: digit.repeat(64), createdAt: '2026-11-01' }],
    encryption: {
      test: { enabled: true, key: digit.repeat(32), iv: digit.repeat(16), previous: { until: '2099-01-01' } },
    },
  });
  api.folder.write({ 'accounts.yaml': { accounts: [account('acme', 'a'), account('globex', 'b')] } });
  return api;
}

/** Starts a sidecar with the same accounts in a database. */
async function inDatabase(url: string): Promise<TestApi> {
  const previous = { credentials: undefined, until: Date.parse('2099-01-01'), lastUsedAt: undefined };
  const account = (id: string, digit: string) =>
    storedAccount(id, {
      name: id,
      keys: [storedKey(keyNamed(id), { id: `${id}-sk`, hash: digit.repeat(64) })],
      encryption: { test: storedEncryption(id, 'test', { previous }) },
    });
  await put(openStore(url), account('acme', 'a'), account('globex', 'b'));
  const store = settings(url, { cache: 10, staleFor: 60_000 });
  return startApi({ operators: operatorsOf(tokens), store });
}

/** Everything that a request can change. */
async function stateOf(api: TestApi): Promise<string> {
  // The trail is left out, because the event of a sign-in is not written before the response.
  const paths = ['/accounts/acme', '/accounts/globex', '/accounts'];
  const parts = paths.map(async (path) => (await send(api, 'GET', `/api/v1${path}`, bearer('ada'))).text);
  return (await Promise.all(parts)).join('\n');
}

interface Case {
  readonly title: string;
  readonly method: string;
  readonly target: string;
  readonly body: object | undefined;
  readonly token: OperatorsToken;
  readonly isPermitted: boolean;
}

/** Each operation with each token, for each account (acme, another, and one that does not exist) and each environment. */
const cases: readonly Case[] = operations.flatMap((operation) =>
  tokens.flatMap((token) => {
    const row = rowOf(operation.name);
    const isInPath = operation.path.includes('{account}');
    const mayUse = (account: string | undefined): boolean => {
      if (token.account === undefined) return true;
      if (row.account === 'path') return account === token.account;
      return row.account === 'own' && (account ?? token.account) === token.account;
    };
    const environments = operation.path.includes('{environment}') ? environmentNames : (['test'] as const);
    return environments.flatMap((environment) => {
      const needed = environment === 'live' ? (row.live ?? row.role) : row.role;
      const hasRole = including[needed].includes(token.role) && (token.environment ?? environment) === environment;
      return (isInPath ? ['acme', 'globex', 'none'] : [undefined, 'acme', 'globex', 'none']).map((account) => {
        const query = isInPath || account === undefined ? undefined : `account=${account}`;
        const target = targetOf(operation, account ?? 'acme', query, environment);
        return {
          title: `${operation.name} ${target} by ${token.name}`,
          method: operation.method,
          target,
          body: row.body,
          token,
          isPermitted: hasRole && mayUse(account),
        };
      });
    });
  }),
);

const secrets = /([abk])\1{9}|sealed:|[ps]k_test_\w{8}/;

/** Sends all cases and returns those with unexpected results. The refused cases come first, because they must change nothing. */
async function deviations(api: TestApi, credentialsOf: (name: string) => Sent): Promise<string[]> {
  const found: string[] = [];
  const before = await stateOf(api);
  for (const { title, method, target, body, token } of cases.filter(({ isPermitted }) => !isPermitted)) {
    const { status, text } = await send(api, method, target, credentialsOf(token.name), body);
    if (status !== 403 || !text.includes('"code":"forbidden"')) found.push(`${title}: ${status} ${text}`);
    // The response does not reveal whether the account exists.
    const told = text.replaceAll(`for account ${token.account ?? ''} only`, '');
    if (/acme|globex|none/.test(told)) found.push(`${title} tells ${text}`);
  }
  if ((await stateOf(api)) !== before) found.push('what was refused has changed something');
  for (const { title, method, target, body, token } of cases.filter(({ isPermitted }) => isPermitted)) {
    const { status, text } = await send(api, method, target, credentialsOf(token.name), body);
    if ([401, 403].includes(status) || status >= 500) found.push(`${title}: ${status} ${text}`);
    if (token.account === 'acme' && text.includes('globex')) found.push(`${title} tells ${text}`);
    if (token.role === 'viewer' && secrets.test(text)) found.push(`${title} shows a secret in ${text}`);
  }
  return found;
}

describe('each operation of docs/operators.openapi.json allows each kind of token what its row says, and no more,', () => {
  test('with accounts in a file', { timeout: 60_000 }, async () => {
    expect(operations.map(({ name }) => name).toSorted()).toEqual(Object.keys(rows).toSorted());
    expect(await deviations(await inFile(), bearer)).toEqual([]);
  });

  describeWithPostgres('in PostgreSQL', () => {
    const postgres = usePostgres();

    test('with accounts in a database', { timeout: 60_000 }, async () => {
      expect(await deviations(await inDatabase(await postgres.createDatabase()), bearer)).toEqual([]);
    });

    test('in a session of the console', { timeout: 60_000 }, async () => {
      const api = await inDatabase(await postgres.createDatabase());
      expect(await deviations(api, await signIn(api))).toEqual([]);
    });
  });

  test('and refuses a request without a valid token', async () => {
    const api = await inFile();
    const before = await stateOf(api);
    const ada = tokenOf('ada');
    const wrong: readonly Sent[] = [
      {},
      ...[
        '',
        `Bearer`,
        `Bearer ${ada}x`,
        `Bearer ${ada.toUpperCase()}`,
        `Bearer ${sha256Hex(ada)}`,
        `Basic ${ada}`,
        ada,
      ].map((authorization) => ({ authorization })),
      { authorization: `Bearer x, Bearer ${ada}` },
      { cookie: `sidecar-session${String(api.sidecar.app.addresses.operators?.port)}=${ada}` },
      { 'x-authorization': `Bearer ${ada}` },
    ];
    for (const operation of [...operations, { name: 'show_session', method: 'GET', path: '/api/v1/openapi.json' }]) {
      for (const headers of wrong) {
        const { status } = await send(api, operation.method, targetOf(operation, 'acme'), headers);
        expect(status, `${operation.name} with ${JSON.stringify(headers)}`).toBe(401);
      }
    }
    expect(await stateOf(api)).toBe(before);
  });

  test('and refuses methods that it does not have', async () => {
    const api = await inFile();
    const before = await stateOf(api);
    for (const [path, methods] of Object.entries(described)) {
      const others = ['GET', 'HEAD', 'POST', 'PUT', 'PATCH', 'DELETE', 'OPTIONS'].filter(
        (method) => methods[method.toLowerCase()] === undefined,
      );
      for (const method of others) {
        const target = targetOf({ name: 'show_session', method, path }, 'acme');
        expect((await send(api, method, target, bearer('ada'))).status, `${method} ${path}`).toBe(404);
      }
    }
    expect(await stateOf(api)).toBe(before);
  });
});

describe('a token of one account', () => {
  test('reaches no other account by another spelling of the path, the query or the body', async () => {
    const api = await inFile();
    const before = await stateOf(api);
    const own = bearer('acme-owner');
    const paths = [
      '/accounts/globex',
      '/accounts/ACME',
      '/accounts/acme%20',
      '/accounts/acme%00',
      '/accounts/acme/../globex',
      '/accounts/%2e/globex',
      '/accounts/acme%2f..%2fglobex',
      '/accounts/globex%2facme',
      '/accounts//globex',
      '/accounts/globex;account=acme',
      '/accounts/globex?account=acme',
      '/accounts/globex/keys?account=acme',
      '/accounts/acme?account=globex',
      '/accounts/acme?account=acme&account=globex',
      '/audit?account=acme&account=globex',
      '/audit?account[]=globex',
      '/activity?account=globex',
      '/ACCOUNTS/globex',
    ];
    for (const path of paths) {
      const { status, text } = await send(api, 'GET', `/api/v1${path}`, own);
      expect({ path, status }).toEqual({ path, status: expect.toBeOneOf([400, 403, 404]) as number });
      expect(text).not.toMatch(/globex-sk/);
    }
    const wish = { environment: 'test', kind: 'secret' };
    const bodies: readonly unknown[] = [
      { ...wish, account: 'globex' },
      { ...wish, id: 'globex' },
      `{"environment":"test","kind":"secret","__proto__":{"account":"globex"}}`,
      `{"environment":"test","kind":"secret","constructor":{"prototype":{"account":"globex"}}}`,
      [wish],
      'null',
    ];
    for (const body of bodies) {
      const { status } = await send(api, 'POST', '/api/v1/accounts/acme/keys', own, body);
      expect({ body, status }).toEqual({ body, status: 400 });
    }
    const overridden = { ...own, 'x-http-method-override': 'POST', 'x-original-url': '/api/v1/accounts/globex' };
    expect((await send(api, 'GET', '/api/v1/accounts/acme', overridden)).text).not.toContain('globex');
    expect(await stateOf(api)).toBe(before);
  });

  test('has its own idempotency keys, which no other token can use or repeat', async () => {
    const api = await inFile();
    const issue = async (name: string, account: string): Promise<readonly [number, boolean]> => {
      const headers = { ...bearer(name), 'idempotency-key': 'click-1' };
      const body = { environment: 'test', kind: 'secret' };
      const { status, text } = await send(api, 'POST', `/api/v1/accounts/${account}/keys`, headers, body);
      return [status, text.includes('"secret_shown":false')];
    };
    expect(await issue('acme-shop', 'acme')).toEqual([201, false]);
    expect(await issue('globex-shop', 'globex')).toEqual([201, false]);
    expect(await issue('otto', 'acme')).toEqual([201, false]);
    // Another token of the same account repeats the request; a token of all accounts has used the key for another
    // request.
    expect(await issue('acme-owner', 'acme')).toEqual([201, true]);
    expect(await issue('otto', 'globex')).toEqual([422, false]);
  });
});

describe('in live, the role operator', () => {
  const ask = async (api: TestApi, name: string, path: string, body?: object) =>
    api.ask(`POST /accounts/acme/encryption/${path}`, { token: tokenOf(name), ...(body && { body }) });

  test('can enable encryption and replace credentials, but not allow plaintext', async () => {
    const api = await inFile();
    expectProblem(await ask(api, 'otto', 'live/enable', { grace: '1h' }), 403, 'forbidden');
    expectProblem(await ask(api, 'acme-shop', 'live/enable', { grace: '1h' }), 403, 'forbidden');
    const shown = async (): Promise<unknown> =>
      (await api.ask('GET /accounts/acme/encryption/live', { token: tokenOf('vera') })).body;
    expect(await shown()).toMatchObject({ enabled: false, previous: null });
    expect((await ask(api, 'otto', 'live/enable', {})).status).toBe(201);
    expect((await ask(api, 'otto', 'live/enable', { replace: true, grace: '1h' })).status).toBe(201);
    expect(await shown()).toMatchObject({ enabled: true, previous: { accepts: 'credentials' } });
    expectProblem(await ask(api, 'otto', 'live/disable', {}), 403, 'forbidden');
    expect((await ask(api, 'acme-owner', 'live/disable', {})).status).toBe(200);
  });

  test('can shorten a grace for plaintext, but not prolong it', async () => {
    const api = await inFile();
    expect((await ask(api, 'ada', 'live/enable', { grace: '2h' })).status).toBe(201);
    const until = (hours: number): object => ({ until: new Date(Date.now() + hours * 3_600_000).toISOString() });
    expectProblem(await ask(api, 'otto', 'live/grace', until(3)), 403, 'forbidden');
    expect((await ask(api, 'otto', 'live/grace', until(1))).status).toBe(200);
    expectProblem(await ask(api, 'otto', 'live/grace', until(1.5)), 403, 'forbidden');
    expect((await ask(api, 'ada', 'live/grace', until(3))).status).toBe(200);
    expect((await ask(api, 'otto', 'live/grace/end')).status).toBe(200);
  });

  test('may do both in test', async () => {
    const api = await inFile();
    expect((await ask(api, 'otto', 'test/disable', {})).status).toBe(200);
    expect((await ask(api, 'otto', 'test/enable', { grace: '1h' })).status).toBe(201);
  });
});

test('a role is refused an operation before anything else in its request is checked', async () => {
  const { ask } = await inFile();
  const token = tokenOf('vera');
  expectProblem(await ask('POST /accounts', { token, body: '{' }), 403, 'forbidden');
  expectProblem(await ask('POST /accounts/none/activate', { token }), 403, 'forbidden');
});

test.each(tokens.filter(({ role }) => role !== 'core'))(
  'the session has the name, role and account of $name',
  async ({ name, role, account }) => {
    const { ask } = await inFile();
    expect((await ask('GET /session', { token: tokenOf(name) })).body).toEqual({
      name,
      role,
      account: account ?? null,
    });
  },
);

test('a role that a new configuration removes is refused from the next request on', async () => {
  const { ask, sidecar, config } = await inFile();
  const body = { id: 'new', name: 'New' };
  sidecar.app.apply({ ...config, operators: operatorsOf([operator('otto', 'viewer')]) });
  expectProblem(await ask('POST /accounts', { token: tokenOf('otto'), body }), 403, 'forbidden');
});

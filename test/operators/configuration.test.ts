import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { describe, expect, test } from 'vitest';
import type { Config } from '../../src/config/config.ts';
import { loadConfig } from '../../src/config/load.ts';
import { needsRestart } from '../../src/config/needs-restart.ts';
import { viewConfiguration } from '../../src/operators/configuration.ts';
import type { Env } from '../../src/yaml/values.ts';
import { filesIn } from '../config/files.ts';
import { createAuthority } from '../support/certificates.ts';
import { operatorsOf } from '../support/sidecar.ts';
import { dashboard, expectProblem, startApi } from './api.ts';

interface Member {
  readonly member: string;
  readonly value: string | null;
  readonly secret: boolean;
  readonly source: string | null;
  readonly needs_restart: boolean;
}

function load(sidecar: object, files: Readonly<Record<string, string>> = {}, env: Env = {}): Config {
  const directory = filesIn({ ...files, 'sidecar.yaml': JSON.stringify(sidecar), 'accounts.yaml': 'accounts: []\n' });
  const result = loadConfig(join(directory, 'sidecar.yaml'), env);
  if (!result.ok) throw new Error(JSON.stringify(result.problems));
  return result.config;
}

/** Returns the members of a configuration as the API shows them, and the text of the whole response. */
function told(config: Config): { readonly members: readonly Member[]; readonly text: string } {
  const shown = viewConfiguration(config);
  return { members: shown.members, text: JSON.stringify(shown) };
}

const { cert, key } = createAuthority();
const secrets = {
  token: 'secret-of-an-operator-0123456789-abcdef',
  tokenInFile: 'secret-of-another-operator-0123456789',
  tokenInVariable: 'secret-of-a-third-operator-0123456789',
  masterKey: 'c'.repeat(64),
  olderMasterKey: 'd'.repeat(64),
  password: 'secret-password',
  user: 'secret-user',
  option: 'secret-option',
  otlpPath: 'secret-path',
};

/** A configuration with every member. */
const whole = {
  listen: { host: '127.0.0.1', port: 0, tls: { cert, key, clientCa: 'cert.pem' } },
  admin: { host: '127.0.0.1', port: 0 },
  operators: {
    port: 0,
    tls: { cert: 'cert.pem', key: 'key.pem', clientCa: 'cert.pem' },
    hosts: ['sidecar.example'],
    tokens: [
      { name: 'ana', role: 'viewer', account: 'acme', token: secrets.token },
      { name: 'bob', token: { file: 'token' } },
      { name: 'eve', token: '${TOKEN}' },
    ],
  },
  environments: {
    test: { hosts: ['sandbox.example'], upstream: 'http://127.0.0.1:1' },
    live: {
      hosts: ['api.example'],
      upstream: {
        url: 'https://127.0.0.1:1',
        ca: 'cert.pem',
        cert: 'cert.pem',
        key: { file: 'key.pem' },
        authorization: 'forward',
      },
    },
  },
  accounts: { file: 'accounts.yaml', masterKey: '${MASTER}' },
  routes: [{ path: '/api/s2s/*', envelope: true, methods: ['POST'] }],
  trustedProxies: ['10.0.0.0/8'],
  limits: { requestBody: '64KiB', failedKeys: '5/90s' },
  timeouts: { upstream: '90s' },
  report: ['key_not_permitted'],
  tracing: { otlp: `http://127.0.0.1:1/${secrets.otlpPath}`, sample: 0 },
  documentation: 'https://docs.example/errors',
};
const files = { 'cert.pem': cert, 'key.pem': key, token: `${secrets.tokenInFile}\n` };
const env = { TOKEN: secrets.tokenInVariable, MASTER: `${secrets.masterKey}\n${secrets.olderMasterKey}` };
const database = {
  ...whole,
  accounts: {
    postgres: {
      url: `postgres://${secrets.user}:${secrets.password}@127.0.0.1:1/accounts?password=${secrets.option}`,
      masterKey: '${MASTER}',
    },
  },
};

/** Forms that would reveal a secret: its text, and its bytes in base64 and in hex. */
function tellingOf(secret: string): string[] {
  const bytes = Buffer.from(secret, /^[0-9a-f]{64}$/.test(secret) ? 'hex' : 'utf8');
  return [secret, bytes.toString('base64').replace(/=+$/, ''), bytes.toString('hex')];
}

describe('the configuration in the API', () => {
  test.each([
    ['with a file', whole],
    ['with a database', database],
  ])('contains no secret, %s', (_name, file) => {
    const config = load(file, files, env);
    const { members, text } = told(config);
    const hashes = config.operators?.tokens.map(({ hash }) => hash) ?? [];
    const pem = key.split('\n').filter((line) => line.length > 20);
    for (const telling of [...Object.values(secrets).flatMap(tellingOf), ...hashes, ...pem]) {
      expect(text).not.toContain(telling);
    }
    for (const { secret, value } of members)
      if (secret) expect(value ?? '***').toMatch(/^\*\*\*(?: \(KCV [0-9a-f]{10}, [0-9a-f]{10}\))?$/);
  });

  test('reveals nothing of a database URL whose password was not percent-encoded', () => {
    for (const url of ['postgres://me:12/secret@127.0.0.1/accounts', 'postgres://me:12/secret%40h/accounts']) {
      const { text } = told(load({ ...database, accounts: { postgres: { url, masterKey: '${MASTER}' } } }, files, env));
      expect(text).toContain('"value":"postgres://…"');
      expect(text).not.toContain('secret@');
    }
  });

  test('has every member that sidecar.yaml may have', () => {
    const schema = JSON.parse(readFileSync('config/sidecar.schema.json', 'utf8')) as Schema;
    const split = { test: '${MASTER}', live: { file: 'token-of-live' } };
    const whatever = { ...files, 'token-of-live': '33'.repeat(32) };
    const splitInFile = { ...whole, accounts: { file: 'accounts.yaml', masterKey: split } };
    const splitInDatabase = {
      ...database,
      accounts: { postgres: { ...database.accounts.postgres, masterKey: split } },
    };
    const shown = [whole, database, splitInFile, splitInDatabase].map(
      (file) => told(load(file, whatever, env)).members,
    );
    const names = shown.flat().map(({ member }) => member.replaceAll(/\[\d+\]/g, '[]'));
    // For members with a short form, the schema lists only the members of the long form.
    const known = new Set([...membersOf(schema), 'accounts.masterKey', 'accounts.postgres.masterKey']);
    // The lines of `token` are shown as members of `tokens`.
    known.delete('operators.token');
    expect(new Set(names)).toEqual(known);
  });

  test('has the values of the file, and the source of each', () => {
    const { members } = told(load(whole, files, env));
    const row = (name: string): unknown => {
      const { member: _member, ...rest } = members.find(({ member }) => member === name) ?? { member: name };
      return rest;
    };
    const shown = { secret: false, needs_restart: false };
    expect(row('limits.requestBody')).toEqual({ ...shown, value: '64KiB', source: 'inline' });
    expect(row('limits.buffered')).toEqual({ ...shown, value: '48MiB', source: null });
    expect(row('limits.failedKeys')).toEqual({ ...shown, value: '5/90s', source: 'inline' });
    expect(row('timeouts.upstream')).toEqual({ ...shown, value: '90s', source: 'inline' });
    expect(row('trustedProxies')).toEqual({ ...shown, value: '[10.0.0.0/8]', source: 'inline' });
    expect(row('environments.test.upstream.url')).toEqual({ ...shown, value: 'http://127.0.0.1:1', source: 'inline' });
    expect(row('environments.live.upstream.ca')).toEqual({ ...shown, value: 'PEM', source: 'file cert.pem' });
    expect(row('operators.tokens[0].account')).toEqual({ ...shown, value: 'acme', source: 'inline' });
    expect(row('tracing.otlp')).toEqual({ ...shown, value: 'http://127.0.0.1:1/…', source: 'inline' });
    const secret = { ...shown, secret: true, value: '***' };
    expect(row('operators.tokens[0].token')).toEqual({ ...secret, source: 'inline' });
    expect(row('operators.tokens[1].token')).toEqual({ ...secret, source: 'file token' });
    expect(row('operators.tokens[2].token')).toEqual({ ...secret, source: 'variable TOKEN' });
    expect(row('accounts.masterKey')).toEqual({
      ...secret,
      value: expect.stringMatching(/^\*\*\* \(KCV [0-9a-f]{10}, [0-9a-f]{10}\)$/) as string,
      source: 'variable MASTER',
    });
    expect(row('environments.live.upstream.key')).toEqual({ ...secret, source: 'file key.pem' });
    expect(row('environments.test.upstream.key')).toEqual({ ...secret, value: null, source: null });
  });

  test('names the source of tokens that share one file, and of a master key that is not in sidecar.yaml', () => {
    const file = { ...whole, operators: { port: 0, token: { file: 'token' } }, accounts: { file: 'accounts.yaml' } };
    const tokens = `ana: ${secrets.token}\nbob: ${secrets.tokenInFile}\n`;
    const { members, text } = told(load(file, { ...files, token: tokens }, { SIDECAR_MASTER_KEY: secrets.masterKey }));
    for (const name of ['operators.tokens[0].token', 'operators.tokens[1].token']) {
      expect(members).toContainEqual(expect.objectContaining({ member: name, value: '***', source: 'file token' }));
    }
    expect(members).toContainEqual(
      expect.objectContaining({
        member: 'accounts.masterKey',
        value: expect.stringMatching(/^\*\*\* \(KCV [0-9a-f]{10}\)$/) as string,
        source: 'variable SIDECAR_MASTER_KEY',
      }),
    );
    for (const telling of Object.values(secrets).flatMap(tellingOf)) expect(text).not.toContain(telling);
  });

  test('keeps values that only a restart can change, and says so', async () => {
    const { ask, sidecar, config } = await startApi();
    const { operators = operatorsOf([]) } = config;
    const changed: Config = {
      ...config,
      listen: { host: '127.0.0.9', port: 9, tls: { cert, key, clientCa: undefined } },
      admin: { host: '127.0.0.9', port: 9 },
      operators: { ...operators, host: '127.0.0.9', port: 9, hosts: ['sidecar.example'] },
      limits: { ...config.limits, header: 4_096, headers: 50 },
    };
    const before = (await ask('GET /configuration')).body['members'] as Member[];
    sidecar.app.apply(changed);
    const after = (await ask('GET /configuration')).body['members'] as Member[];
    const differing = after.filter(
      ({ member, value }) => value !== before.find((each) => each.member === member)?.value,
    );
    expect(differing.map(({ member, value }) => [member, value])).toEqual([
      ['operators.hosts', '[sidecar.example]'],
      ['limits.headers', '50'],
    ]);
    const fixed = before.filter((each) => each.needs_restart).map(({ member }) => member);
    expect(fixed).toEqual([
      'listen.host',
      'listen.port',
      'listen.tls',
      'admin.host',
      'admin.port',
      'operators.host',
      'operators.port',
      'operators.tls',
      'limits.header',
    ]);
    expect(needsRestart(config, changed)).toEqual(['listen', 'listen.tls', 'admin', 'operators', 'limits.header']);
  });

  test('is refused for a token of one account', async () => {
    const merchant = { ...dashboard, account: 'acme' };
    const { ask } = await startApi({ operators: operatorsOf([merchant]) });
    expectProblem(await ask('GET /configuration'), 403, 'forbidden');
  });
});

interface Schema {
  readonly properties?: Readonly<Record<string, Schema>>;
  readonly items?: Schema;
  readonly anyOf?: readonly Schema[];
}

/** The paths of all members of a JSON Schema that have no members of their own. */
function membersOf(schema: Schema, path = ''): string[] {
  const { properties, items } = schema.anyOf?.find((each) => each.properties !== undefined) ?? schema;
  if (items?.properties !== undefined) return membersOf(items, `${path}[]`);
  if (properties === undefined) return [path];
  return Object.entries(properties).flatMap(([name, member]) =>
    membersOf(member, path === '' ? name : `${path}.${name}`),
  );
}

import { join } from 'node:path';
import { describe, expect, test } from 'vitest';
import { loadConfig } from '../../src/config/load.ts';
import type { Config } from '../../src/config/config.ts';
import { parseMasterKeys } from '../../src/accounts/master-key.ts';
import { Vault } from '../../src/accounts/vault.ts';
import { formatFileProblem } from '../../src/yaml/file-problem.ts';
import type { Env } from '../../src/yaml/values.ts';
import { admin, enabledOf } from '../support/sidecar.ts';
import { filesIn, minimal, newCertificate, noAccounts } from './files.ts';
import { sha256Hex } from '../../src/cryptography.ts';

const token = 'operators-token-of-a-test-0123456789';
const certificate = newCertificate();
const masterKey = Buffer.alloc(32, 7).toString('base64');

/** Loads the smallest valid file plus `lines`. Returns the configuration, or its problems without the folder's path. */
function outcome(
  lines: string,
  { env = {}, accounts = noAccounts }: { env?: Env | undefined; accounts?: string } = {},
): Config | string[] {
  const folder = filesIn({
    'sidecar.yaml': minimal + lines,
    'accounts.yaml': accounts,
    'cert.pem': certificate.cert,
    'key.pem': certificate.key,
    one: `${token}-3\n`,
    tokens: `${token}\nnight-shift: ${token}-2\n`,
  });
  const loaded = loadConfig(join(folder, 'sidecar.yaml'), env);
  return loaded.ok
    ? loaded.config
    : loaded.problems.map((problem) => formatFileProblem(problem).replace(`${folder}/`, ''));
}

function operators(lines: string, env?: Env): Config['operators'] {
  const config = outcome(lines, { env });
  if (Array.isArray(config)) throw new Error(config.join('\n'));
  return config.operators;
}

describe('the operators’ API', () => {
  test.each(['', 'operators: {}\n', 'operators: { port: 1 }\n'])('is off without a token: %j', (lines) => {
    expect(operators(lines)).toBeUndefined();
  });

  test('listens on loopback, and keeps its token as a hash', () => {
    expect(operators(`operators: { token: ${token} }\n`)).toEqual({
      host: '127.0.0.1',
      port: 9091,
      tokens: [admin('operators', token)],
      hosts: [],
      console: true,
      tls: undefined,
    });
  });

  test('reads several named tokens from a file', () => {
    expect(operators('operators: { token: { file: tokens } }\n')?.tokens).toEqual([
      admin('operators', token),
      admin('night-shift', `${token}-2`),
    ]);
  });

  test('reads operators with a role and an account, each with its own token', () => {
    const other = `"\${TOKEN}"`;
    const lines = `operators:
  hosts: [Sidecar.internal]
  console: false
  tokens:
    - { name: ana, token: ${token} }
    - { name: acme-dashboard, role: operator, account: acme, token: ${other} }
    - { name: audit, role: viewer, token: { file: one } }
    - { name: core, role: core, environment: live, token: ${token}-4 }
`;
    expect(operators(lines, { TOKEN: `${token}-2` })).toMatchObject({
      hosts: ['sidecar.internal'],
      console: false,
      tokens: [
        admin('ana', token),
        { name: 'acme-dashboard', role: 'operator', account: 'acme', hash: sha256Hex(`${token}-2`) },
        { name: 'audit', role: 'viewer', account: undefined, hash: sha256Hex(`${token}-3`) },
        { name: 'core', role: 'core', environment: 'live', hash: sha256Hex(`${token}-4`) },
      ],
    });
  });

  test('accepts an environment only for the role core', () => {
    const problems = outcome(`operators: { tokens: [{ name: ana, environment: live, token: ${token} }] }\n`);
    expect(problems).toEqual([
      expect.stringMatching(/ {2}operators\.tokens\[0\]\.environment {2}allowed only with the role "core"$/),
    ]);
  });

  test.each(['localhost', '127.0.0.1', '127.1.2.3', '"::1"'])('needs no TLS on %s', (host) => {
    const found = operators(`operators: { host: ${host}, token: ${token} }\n`);
    expect([found?.port, found?.tls]).toEqual([9091, undefined]);
  });

  test.each(['0.0.0.0', '"::"', '10.0.0.1', '128.0.0.1', 'ops.internal', '127.evil.example'])(
    'needs TLS on %s',
    (host) => {
      const address = `host: ${host}, port: 1, token: ${token}`;
      expect(outcome(`operators: { ${address} }\n`)).toEqual([
        expect.stringMatching(
          /^sidecar\.yaml:\d+:\d+ {2}operators\.tls {2}missing: keys and credentials would leave this machine in the clear$/,
        ),
      ]);
      const { tls } = operators(`operators: { ${address}, tls: { cert: cert.pem, key: key.pem } }\n`) ?? {};
      expect(tls?.cert).toContain('BEGIN CERTIFICATE');
    },
  );

  test.each([
    ['listen', 'port: 8080'],
    ['admin', 'port: 9090'],
  ])('may not have the port of %s', (other, port) => {
    expect(outcome(`operators: { ${port}, token: ${token} }\n`)).toEqual([
      expect.stringMatching(
        new RegExp(` {2}operators\\.port {2}the same port as ${other}\\.port: expected a different port$`),
      ),
    ]);
    expect(outcome(`operators: { ${port} }\n`)).not.toBeInstanceOf(Array);
  });

  test.each([
    ['is too short', 'x'.repeat(31)],
    ['is too long', 'x'.repeat(257)],
    ['has a space in it', `${token} ${token}`],
    ['is one of two under one name', `"${token}\\n${token}2"`],
    ['is there twice', `"a: ${token}\\nb: ${token}"`],
    ['has a name that is none', `"a b: ${token}"`],
  ])('refuses a token that %s, without repeating it', (_, written) => {
    const problems = outcome(`operators: { token: ${written} }\n`) as string[];
    expect(problems).toEqual([
      expect.stringMatching(
        / {2}operators\.token {2}expected 32 to 256 letters, digits or "-\._~\+\/", one token per line/,
      ),
    ]);
    expect(problems.join()).not.toContain('xxx');
    expect(problems.join()).not.toContain(token);
  });
});

describe('the master key', () => {
  const withKey = (written: string): string =>
    minimal.replace('file: accounts.yaml', `file: accounts.yaml, masterKey: ${written}`);

  function store(sidecar: string, env: Env = {}): Config['store'] | string[] {
    const folder = filesIn({ 'sidecar.yaml': sidecar, 'accounts.yaml': noAccounts, key: `${masterKey}\n` });
    const loaded = loadConfig(join(folder, 'sidecar.yaml'), env);
    return loaded.ok ? loaded.config.store : loaded.problems.map(({ path, message }) => `${path}  ${message}`);
  }

  const bytes = (found: Config['store'] | string[]): string[] =>
    Array.isArray(found) ? found : found.masterKeys.map(({ key }) => key?.export().toString('base64') ?? '');

  test('is optional', () => {
    expect(bytes(store(minimal))).toEqual([]);
  });

  test('is read from the file, from another file, or from the environment', () => {
    expect(bytes(store(withKey(masterKey)))).toEqual([masterKey]);
    expect(bytes(store(withKey('{ file: key }')))).toEqual([masterKey]);
    expect(bytes(store(minimal, { SIDECAR_MASTER_KEY: masterKey }))).toEqual([masterKey]);
    const other = Buffer.alloc(32, 8).toString('base64');
    expect(bytes(store(withKey(masterKey), { SIDECAR_MASTER_KEY: other }))).toEqual([masterKey]);
  });

  test('is refused if it is invalid, without being repeated', () => {
    const expected = 'expected 32 bytes in base64 or hex; further lines are older keys, which only unwrap';
    expect(store(withKey('5ecret'))).toEqual([`accounts.masterKey  ${expected}`]);
    expect(store(minimal, { SIDECAR_MASTER_KEY: '5ecret' })).toEqual([
      `accounts.masterKey  in the environment variable SIDECAR_MASTER_KEY: ${expected}`,
    ]);
    expect(store(withKey('5ecret'), { SIDECAR_MASTER_KEY: '5ecret' })).toHaveLength(1);
  });
});

describe('wrapped credentials of the accounts file', () => {
  const env = { SIDECAR_MASTER_KEY: masterKey };
  const vault = new Vault(parseMasterKeys(masterKey) ?? []);
  const aes = 'k'.repeat(32);
  const sealed = (account: string, member: 'key' | 'iv', text: string): string =>
    vault.wrap(text, { account, environment: 'test', member });
  const file = (...pairs: readonly (readonly [key: string, iv: string])[]): string =>
    `accounts:\n${pairs
      .map(
        ([key, iv], i) =>
          `  - { id: a${i}, name: A, encryption: { test: { enabled: true, key: "${key}", iv: "${iv}" } } }\n`,
      )
      .join('')}`;
  const right = [0, 1, 2].map((i) => [sealed(`a${i}`, 'key', aes + i), sealed(`a${i}`, 'iv', 'i'.repeat(16))] as const);

  test('are unwrapped with the master key', () => {
    const pairs = right.map(([, iv], i) => [sealed(`a${i}`, 'key', `${i}`.repeat(32)), iv] as const);
    const { accounts } = outcome('', { env, accounts: file(...pairs) }) as Config;
    expect(accounts.map(({ encryption }) => enabledOf(encryption.test).current.pack().key.export().toString())).toEqual(
      ['0'.repeat(32), '1'.repeat(32), '2'.repeat(32)],
    );
  });

  test('are validated like other credentials once they are unwrapped', () => {
    expect(outcome('', { env, accounts: file(...right) })).toEqual(
      [0, 1, 2].map((i) =>
        expect.stringMatching(new RegExp(`accounts\\[${i}\\]\\.encryption\\.test\\.key {2}must be 32 bytes of UTF-8$`)),
      ),
    );
  });

  test('are reported as one problem if the master key is missing or wrong', () => {
    expect(outcome('', { accounts: file(...right) })).toEqual([
      expect.stringMatching(
        /accounts\[0\]\.encryption\.test\.key {2}sealed: set accounts\.masterKey to the master key$/,
      ),
    ]);
    const other = { SIDECAR_MASTER_KEY: Buffer.alloc(32, 8).toString('base64') };
    expect(outcome('', { env: other, accounts: file(...right) })).toEqual([
      expect.stringMatching(
        /test\.key {2}does not open, nor does any other sealed value: expected a different master key$/,
      ),
    ]);
  });

  test('that were copied from another account disable only the account they were copied to', () => {
    const [[key, iv]] = [[sealed('a0', 'key', aes), sealed('a0', 'iv', 'i'.repeat(16))]] as const;
    const { accounts } = outcome('', { env, accounts: file([key, iv], [key, iv]) }) as Config;
    expect(accounts.map(({ unwrapError }) => unwrapError)).toEqual([
      undefined,
      expect.stringMatching(/^the sealed key of account a1 in test does not open/),
    ]);
    expect(accounts[1]?.encryption).toEqual({});
    expect(outcome('', { env, accounts: file([iv, key]) })).toHaveLength(1);
  });
});

import { createSecretKey } from 'node:crypto';
import { join } from 'node:path';
import { describe, expect, test } from 'vitest';
import { createMasterKey } from '../../src/accounts/master-key.ts';
import { loadConfig } from '../../src/config/load.ts';
import { formatFileProblem } from '../../src/yaml/file-problem.ts';
import type { Env } from '../../src/yaml/values.ts';
import { filesIn } from './files.ts';

const bytes = Buffer.alloc(32, 7);
const masterKey = bytes.toString('base64');
const url = 'postgres://sidecar:hunter2@db.internal:5432/accounts?sslmode=verify-full';

/** Loads a file with this value of `accounts`. Returns its store, or its problems without the path of the file. */
function load(accounts: string, env: Env = {}): unknown {
  const sidecar = `listen: {}\nenvironments: { test: { upstream: "http://127.0.0.1:3000" } }\naccounts: ${accounts}\n`;
  const directory = filesIn({ 'sidecar.yaml': sidecar, 'accounts.yaml': 'accounts: []\n', master: masterKey });
  const loaded = loadConfig(join(directory, 'sidecar.yaml'), env);
  if (loaded.ok) return loaded.config.store;
  return loaded.problems.map((problem) => formatFileProblem(problem).replace(/^.*sidecar\.yaml:/, ''));
}

describe('accounts in PostgreSQL', () => {
  test('have a default cache of 10000 keys, which works for 15 minutes without the database', () => {
    expect(load(`{ postgres: { url: "${url}", masterKey: "${masterKey}" } }`)).toEqual({
      type: 'postgres',
      url,
      masterKeys: [createMasterKey(createSecretKey(bytes))],
      auditKeys: [],
      cache: 10_000,
      staleFor: 900_000,
    });
  });

  test('read their settings from the environment and from files', () => {
    const settings = '{ url: "${DATABASE_URL}", masterKey: { file: master }, cache: 5, staleFor: 0s }';
    expect(load(`{ postgres: ${settings} }`, { DATABASE_URL: url })).toMatchObject({
      url,
      masterKeys: [createMasterKey(createSecretKey(bytes))],
      auditKeys: [],
      cache: 5,
      staleFor: 0,
    });
    expect(load(`{ postgres: { url: "${url}" } }`, { SIDECAR_MASTER_KEY: masterKey })).toMatchObject({
      masterKeys: [createMasterKey(createSecretKey(bytes))],
      auditKeys: [],
    });
  });

  test.each([
    ['{}', '3:11  accounts  expected "file" or "postgres"'],
    [
      `{ file: accounts.yaml, postgres: { url: "${url}", masterKey: "${masterKey}" } }`,
      '3:44  accounts.postgres  cannot be combined with "file": remove one of them',
    ],
    [
      `{ masterKey: "${masterKey}", postgres: { url: "${url}", masterKey: "${masterKey}" } }`,
      '3:24  accounts.masterKey  move it into "postgres"',
    ],
    [
      `{ postgres: { url: "${url}" } }`,
      '3:13  accounts.postgres.masterKey  missing: expected 32 bytes in base64 or hex; further lines are older keys, ' +
        'which only unwrap; or the environment variable SIDECAR_MASTER_KEY',
    ],
    [
      `{ postgres: { masterKey: "${masterKey}" } }`,
      '3:13  accounts.postgres.url  missing: expected postgres://user:password@host:port/database, special characters ' +
        'of the password percent-encoded',
    ],
  ])('configured as %s are refused', (accounts, problem) => {
    expect(load(accounts)).toEqual([problem]);
  });

  test.each(['mysql://u:hunter2@h/d', 'postgres://u:hunter2@h', 'postgres://u:hunter2@h:port/d', 'hunter2'])(
    'configured with the URL %s are refused without repeating it',
    (wrong) => {
      const [problem, ...more] = load(`{ postgres: { url: "${wrong}", masterKey: "${masterKey}" } }`) as string[];
      expect(more).toEqual([]);
      expect(problem).toMatch(/^3:30 {2}accounts\.postgres\.url {2}expected postgres:\/\/user:password@host/);
      expect(problem).not.toContain('hunter2');
    },
  );

  test.each([
    ['cache: 0', 'accounts.postgres.cache'],
    ['cache: 10000001', 'accounts.postgres.cache'],
    ['staleFor: 8d', 'accounts.postgres.staleFor'],
  ])('configured with %s are refused', (setting, path) => {
    const problems = load(`{ postgres: { url: "${url}", masterKey: "${masterKey}", ${setting} } }`);
    expect(problems).toEqual([expect.stringContaining(path)]);
  });
});

import { randomBytes } from 'node:crypto';
import { rmSync } from 'node:fs';
import { describe, expect, test } from 'vitest';
import type { EnabledView, IssuedKeyView } from '../../src/accounts/views.ts';
import { commandsOn } from '../support/command-line.ts';
import { Folder, sidecarFile } from '../support/folder.ts';
import { describeWithPostgres, usePostgres } from '../support/postgres.ts';

const newKey = (): string => randomBytes(32).toString('base64');

/** Creates two accounts that encrypt in both environments, and then loses the master key. */
async function storeWithLostKey(accounts: (masterKey: object) => object, lose: (folder: Folder) => void) {
  const folder = new Folder({ 'accounts.yaml': 'accounts: []\n', 'master-key': newKey() });
  folder.write({
    'sidecar.yaml': sidecarFile('http://127.0.0.1:1', { accounts: accounts({ file: 'master-key' }) }),
  });
  const { run, json } = commandsOn(folder.file('sidecar.yaml'));
  if ('postgres' in accounts({})) await run('accounts migrate');
  for (const id of ['acme', 'zeta']) {
    await json(`accounts add ${id} --name ${id}`);
    for (const environment of ['test', 'live']) {
      await json<EnabledView>(`encryption enable ${id} --environment ${environment}`);
    }
  }
  const { id: key } = await json<IssuedKeyView>('keys issue acme --environment live --kind secret');
  lose(folder);
  return { folder, run, json, key };
}

/** Commands that work without the master key. `accounts export` exports the credentials as they are stored. */
const withoutKey = (key: string): string[] => [
  'accounts list',
  'accounts list --filter encrypting',
  'accounts show acme',
  'accounts rename acme --name Acme',
  'keys list acme',
  'keys due',
  'keys issue acme --environment test --kind public',
  `keys rotate acme ${key}`,
  `keys revoke acme ${key}`,
  'encryption show acme --environment test',
  'encryption disable acme --environment live --grace 1h',
  'encryption grace acme --environment live --end',
  'accounts deactivate acme',
  'accounts activate acme',
  'accounts export',
  'audit list',
];

/** Creates a store. Returns a function from the value of `masterKey` to the value of `accounts`. */
type NewAccounts = () => Promise<(masterKey: object) => object>;
type Lose = (folder: Folder) => void;

function makesNewCredentials(accounts: NewAccounts, lose: Lose): void {
  test('each environment gets new credentials without opening the other', async () => {
    const { run, json } = await storeWithLostKey(await accounts(), lose);
    for (const environment of ['test', 'live']) {
      await json(`encryption enable acme --environment ${environment} --replace`);
    }
    await json('encryption disable zeta --environment live');
    await json('encryption enable zeta --environment live');
    expect((await run('check --online')).stdout).toMatch(/^failed +credentials/m);
    await json('encryption enable zeta --environment test --replace');
    expect((await run('check --online')).stdout).toMatch(/^ok +credentials +2 accounts: all open/m);
  });
}

function keepsNone(accounts: NewAccounts, lose: Lose): void {
  test('credentials that do not open get no grace period', async () => {
    const { run } = await storeWithLostKey(await accounts(), lose);
    const { stdout: before } = await run('accounts export');
    expect(await run('encryption enable acme --environment test --replace --grace 1h')).toEqual({
      code: 78,
      stdout: '',
      stderr: expect.stringMatching(/key of account acme in test does not open.*\(master_key_wrong\)\n$/) as string,
    });
    expect((await run('accounts export')).stdout).toBe(before);
  });
}

function makesNone(accounts: NewAccounts, lose: Lose): void {
  test('no credentials are created, neither wrapped nor in the clear', async () => {
    const { run } = await storeWithLostKey(await accounts(), lose);
    const { stdout: before } = await run('accounts export');
    expect(await run('encryption enable acme --environment test --replace')).toMatchObject({
      code: 78,
      stderr: expect.stringMatching(/masterKey .*\(master_key_missing\)\n$/) as string,
    });
    expect((await run('accounts export')).stdout).toBe(before);
  });

  test('the list of master keys fails, instead of appearing empty', async () => {
    const { run } = await storeWithLostKey(await accounts(), lose);
    const listed = {
      code: 78,
      stdout: '',
      stderr: expect.stringMatching(/masterKey .*\(master_key_missing\)\n$/) as string,
    };
    expect(await run('master-key list')).toEqual(listed);
  });
}

describe.each([
  ['wrong', (folder: Folder) => folder.write({ 'master-key': newKey() }), [makesNewCredentials, keepsNone]],
  ['lost', (folder: Folder) => rmSync(folder.file('master-key')), [makesNone]],
  ['damaged', (folder: Folder) => folder.write({ 'master-key': 'damaged' }), [makesNone]],
])('if the master key is %s', (_, lose, specific) => {
  const tests = (accounts: NewAccounts): void => {
    test('commands that need no credentials work', async () => {
      const { run, key } = await storeWithLostKey(await accounts(), lose);
      for (const line of withoutKey(key)) expect([line, await run(line)]).toMatchObject([line, { code: 0 }]);
    });

    for (const each of specific) each(accounts, lose);
  };

  describe('and accounts are in a file', () => {
    tests(async () => (masterKey) => ({ file: 'accounts.yaml', masterKey }));
  });

  describeWithPostgres('and accounts are in PostgreSQL', () => {
    const postgres = usePostgres();
    tests(async () => {
      const url = await postgres.createDatabase();
      return (masterKey) => ({ postgres: { url, masterKey } });
    });
  });
});

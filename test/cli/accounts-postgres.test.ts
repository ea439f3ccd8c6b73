import { expect, test } from 'vitest';
import type { EnabledView, EncryptionView, IssuedKeyView, KeyView } from '../../src/accounts/views.ts';
import { runCommand, type Ended } from '../support/cli.ts';
import { commandsOn } from '../support/command-line.ts';
import { Folder, sidecarFile } from '../support/folder.ts';
import { describeWithPostgres, usePostgres } from '../support/postgres.ts';
import { masterKey, otherMasterKey } from '../support/stores.ts';

describeWithPostgres('the commands on accounts in PostgreSQL', () => {
  const postgres = usePostgres();

  /** Creates one configuration with a database and one with a file, and the commands on each. */
  async function storeAndCommands(accounts: readonly object[] = []) {
    const url = await postgres.createDatabase();
    const folder = new Folder({
      'file.yaml': sidecarFile('http://127.0.0.1:1'),
      'accounts.yaml': { accounts },
      'database.yaml': sidecarFile('http://127.0.0.1:1', {
        accounts: { postgres: { url, masterKey: { file: 'master-key' } } },
      }),
      'master-key': masterKey,
    });
    const file = commandsOn(folder.file('file.yaml')).run;
    const { run: database, json } = commandsOn(folder.file('database.yaml'));
    return { url, folder, file, database, json };
  }

  test('manage keys and encryption, and show when keys and previous credentials were last used', async () => {
    const { database, json } = await storeAndCommands();
    await json('accounts add acme --name Acme');
    const { key, id } = await json<IssuedKeyView>('keys issue acme --environment test --kind secret');
    expect(key).toMatch(/^sk_test_/);
    expect(await json<KeyView[]>('keys list acme')).toMatchObject([{ id, state: 'valid', last_used_at: null }]);
    expect((await database('keys list acme')).stdout).toContain('LAST USED');
    await json('encryption enable acme --environment test');
    await json('encryption enable acme --environment test --replace --grace 1h');
    expect((await json<EncryptionView>('encryption show acme --environment test')).previous?.last_used_at).toBeNull();
    expect((await database('encryption show acme --environment test')).stdout).toMatch(/^last used +never$/m);
    await json(`keys revoke acme ${id}`);
    expect((await database('keys revoke acme', id)).stderr).toContain('(key_revoked)');
    for (const line of (await database('keys list acme')).stdout.split('\n')) {
      expect(line.length).toBeLessThanOrEqual(80);
    }
  });

  test('copy accounts from a file into the database and back, and can be repeated', async () => {
    const aes = 'k'.repeat(32);
    const encryption = { test: { enabled: true, key: aes, iv: 'i'.repeat(16) } };
    const { url, folder, file, database } = await storeAndCommands([
      {
        id: 'acme',
        name: 'Acme',
        keys: [{ id: 'k', key: 'sk_test_0123456789abcdef', createdAt: '2026-11-01' }],
        encryption,
      },
      { id: 'globex', name: 'Globex' },
    ]);
    const copy = async (): Promise<string> => (await file('accounts copy --to', folder.file('database.yaml'))).stdout;
    expect(await copy()).toBe('2 added, 0 already present, 0 refused.\n');
    expect(await copy()).toBe('0 added, 2 already present, 0 refused.\n');
    expect(await postgres.psql(url, 'SELECT * FROM envelope_sidecar.encryption')).not.toContain(aes);
    await database('accounts deactivate acme');
    const refused = await file('accounts copy --to', folder.file('database.yaml'));
    expect(refused.stderr).toContain('acme  account acme already exists and differs\n');
    const back = await storeAndCommands();
    expect((await database('accounts copy --to', back.folder.file('file.yaml'))).stdout).toBe(
      '2 added, 0 already present, 0 refused.\n',
    );
    expect((await back.file('accounts export')).stdout).toContain(aes);
  });

  test('apply shows the steps that were made before one failed', async () => {
    const { url, folder, database } = await storeAndCommands();
    await postgres.psql(url, "ALTER TABLE envelope_sidecar.accounts ADD CHECK (account_id <> 'globex')");
    const wanted = [
      { id: 'acme', name: 'Acme', active: false },
      { id: 'globex', name: 'Globex' },
    ];
    folder.write({ wanted: wanted.map((line) => JSON.stringify(line)).join('\n') });
    const failed = await database('accounts apply', folder.file('wanted'));
    const steps = 'account_added  acme  Acme\naccount_deactivated  acme\n';
    expect([failed.code, failed.stdout]).toEqual([78, `${steps}2 changes, 2 accounts in the file.\n`]);
    expect(failed.stderr).toContain('accounts apply: ');
    const again = await database('accounts apply --json', folder.file('wanted'));
    expect([again.code, JSON.parse(again.stdout)]).toEqual([78, { changes: [], accounts: 2 }]);
  });

  test('import thousands of accounts, and name the one that is invalid', async () => {
    const { folder, database } = await storeAndCommands();
    const line = (i: number): object => ({
      id: `a${i}`,
      name: `Account ${i}`,
      keys: [{ id: `k${i}`, key: `sk_test_${String(i).padStart(16, '0')}`, createdAt: '2026-11-01' }],
    });
    const lines = Array.from({ length: 5_000 }, (_, i) => JSON.stringify(line(i)));
    lines[3_000] = JSON.stringify({ ...line(3_000), keys: (line(7) as { keys: object[] }).keys });
    folder.write({ 'lines.ndjson': lines.join('\n') });
    const file = folder.file('lines.ndjson');
    const { stdout, stderr } = await database('accounts import --partial', file);
    expect(stdout).toBe('4999 added, 0 already present, 1 refused.\n');
    expect(stderr).toContain(`${file}:3001  `);
    lines[3_000] = JSON.stringify(line(3_000));
    folder.write({ 'lines.ndjson': lines.join('\n') });
    expect((await database('accounts import', file)).stdout).toBe('1 added, 4999 already present, 0 refused.\n');
    expect((await database('accounts export')).stdout.split('\n')).toHaveLength(5_001);
  });

  test('wrap the database with another master key', async () => {
    const { folder, database, json } = await storeAndCommands();
    await json('accounts add acme --name Acme');
    await json<EnabledView>('encryption enable acme --environment live');
    folder.write({ 'new-key': otherMasterKey });
    const rekey = (): Promise<Ended> => database('accounts rekey --new-master-key-file', folder.file('new-key'));
    const early = await rekey();
    expect(early).toMatchObject({ code: 78, stderr: expect.stringContaining('(master_key_not_configured)') as string });
    folder.write({ 'master-key': `${otherMasterKey}\n${masterKey}` });
    expect((await rekey()).stdout).toMatch(/^1 account was wrapped with the new master key, KCV [0-9a-f]{10}\.\n/);
    folder.write({ 'master-key': otherMasterKey });
    expect((await rekey()).stdout).toMatch(/^0 accounts were /);
  });

  test('omit an account that cannot be read, name it, and fail', async () => {
    const { url, database, json } = await storeAndCommands();
    for (const id of ['acme', 'globex', 'initech']) await json(`accounts add ${id} --name ${id}`);
    await json('keys issue globex --environment test --kind secret');
    await postgres.psql(url, `UPDATE envelope_sidecar.api_keys SET created_at = 'infinity'`);
    const other = await storeAndCommands();
    for (const [line, isListed] of [
      ['accounts list', true],
      ['accounts list --json', true],
      ['accounts export', true],
      [`accounts copy --to ${other.folder.file('database.yaml')}`, false],
      ['accounts show globex', false],
    ] as const) {
      const { code, stdout, stderr } = await database(line);
      expect(code).toBe(78);
      expect(stderr).toMatch(/account globex: the created_at of key key_\w+ cannot be used \(store_invalid\)\n/);
      expect(['acme', 'initech'].map((id) => stdout.includes(id))).toEqual([isListed, isListed]);
      expect(stdout).not.toContain('globex');
    }
    expect((await other.database('accounts list')).stdout).toMatch(/^acme .*\ninitech /m);
  });

  test('report a database that does not respond', async () => {
    const { folder } = await storeAndCommands();
    const accounts = { postgres: { url: 'postgres://127.0.0.1:1/none', masterKey } };
    folder.write({ 'none.yaml': sidecarFile('http://127.0.0.1:1', { accounts }) });
    const ended = await runCommand(['accounts', 'list', '--config', folder.file('none.yaml')]);
    expect(ended).toMatchObject({ code: 1, stdout: '' });
    expect(ended.stderr).toMatch(/^accounts list: .*\(store_unavailable\)\n$/);
  });
});

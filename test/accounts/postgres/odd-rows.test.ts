import { expect, test } from 'vitest';
import { toMembers } from '../../../src/accounts/file/members.ts';
import { Operations } from '../../../src/accounts/operations.ts';
import { Importer } from '../../../src/accounts/transfer/importer.ts';
import { describeWithPostgres, usePostgres } from '../../support/postgres.ts';
import { keyNamed, openDirectory, openStore, put, storedAccount, storedEncryption, vault } from './fixtures.ts';
import { sha256Hex } from '../../../src/cryptography.ts';

const clock = (): number => Date.parse('2026-11-21T10:00:00Z');

/** SQL that drops every check constraint of this table, as a careless migration would. */
const withoutChecks = (table: string): string => `DO $$
  DECLARE name text;
  BEGIN
    FOR name IN SELECT conname FROM pg_constraint
      WHERE conrelid = 'envelope_sidecar.${table}'::regclass AND contype = 'c'
    LOOP EXECUTE format('ALTER TABLE envelope_sidecar.${table} DROP CONSTRAINT %I', name); END LOOP;
  END $$;
  ALTER TABLE envelope_sidecar.encryption ALTER COLUMN enabled DROP NOT NULL;
  ALTER TABLE envelope_sidecar.accounts ALTER COLUMN active DROP NOT NULL;`;

const odd = [
  ['keys made at infinity', `UPDATE api_keys SET created_at = 'infinity'`, 'created_at of key id-oddxxxxxxxxxxxxx'],
  ['keys revoked at infinity', `UPDATE api_keys SET revoked_at = 'infinity'`, 'revoked_at of key id-oddxxxxxxxxxxxxx'],
  ['keys that expire before all time', `UPDATE api_keys SET expires_at = '-infinity'`, 'expires_at of key'],
  ['keys that expire after all dates', `UPDATE api_keys SET expires_at = '294276-01-01'`, 'expires_at of key'],
  ['keys of no known kind', `UPDATE api_keys SET prefix = 'xk_test_'`, 'prefix of key'],
  ['no word on whether it is active', 'UPDATE accounts SET active = NULL', 'active'],
  [
    'encryption without credentials',
    'UPDATE encryption SET key = NULL, iv = NULL, format = NULL',
    'key of its encrypt',
  ],
  ['encryption without an IV', 'UPDATE encryption SET iv = NULL', 'key of its encryption in test'],
  ['no word on whether it encrypts', 'UPDATE encryption SET enabled = NULL', 'enabled of its encryption'],
  ['an unknown environment', `UPDATE encryption SET environment = 'Test'`, 'environment of its encryption'],
  ['an unknown encoding', `UPDATE encryption SET encoding = 'none'`, 'encoding of its encryption'],
  ['an unknown format', `UPDATE encryption SET format = 'none'`, 'key of its encryption'],
  ['a grace without end', `UPDATE encryption SET previous_until = 'infinity'`, 'previous_until of its encryption'],
  ['half the previous credentials', 'UPDATE encryption SET previous_key = NULL', 'previous_key of its encryption'],
] as const;

describeWithPostgres('an invalid row', () => {
  const postgres = usePostgres();

  async function databaseWith(statement: string): Promise<string> {
    const url = await postgres.createDatabase();
    const encryption = storedEncryption('odd', 'test');
    const previous = { credentials: encryption.credentials, until: clock() + 1, lastUsedAt: undefined };
    await put(
      openStore(url),
      storedAccount('good'),
      storedAccount('odd', { encryption: { test: { ...encryption, previous } } }),
      storedAccount('zulu'),
    );
    for (const table of ['accounts', 'api_keys', 'encryption']) await postgres.psql(url, withoutChecks(table));
    await postgres.psql(url, `SET search_path = envelope_sidecar; ${statement} WHERE account_id = 'odd'`);
    return url;
  }

  test.each(odd)('affects only its account: %s', async (_, statement, name) => {
    const url = await databaseWith(statement);
    const refusal = { code: 'store_invalid', message: expect.stringContaining(`account odd: the ${name}`) as unknown };
    const store = openStore(url);
    await expect(store.read('odd')).rejects.toMatchObject(refusal);
    await expect(put(store, storedAccount('odd'))).rejects.toMatchObject(refusal);
    await expect(Array.fromAsync(store.list())).rejects.toMatchObject(refusal);
    const errors: unknown[] = [];
    expect((await Array.fromAsync(store.list('', (error) => errors.push(error)))).map(({ id }) => id)).toEqual([
      'good',
      'zulu',
    ]);
    expect(errors).toMatchObject([refusal]);

    const { directory, monitor } = await openDirectory(url);
    const found = await Promise.all(['good', 'odd', 'zulu'].map(async (id) => directory.find(sha256Hex(keyNamed(id)))));
    expect(found).toMatchObject([{ account: { id: 'good' } }, 'unavailable', { account: { id: 'zulu' } }]);
    expect(monitor.failures).toEqual([refusal.message]);
  });

  test.each(['infinity', '-infinity', '294276-12-31'])(
    'is not a row with a use at %s, because every serving role may write such a use',
    async (time) => {
      const url = await databaseWith('UPDATE accounts SET active = true');
      await postgres.psql(
        url,
        `SET search_path = envelope_sidecar; INSERT INTO key_uses SELECT key_id, '${time}' FROM api_keys;
       INSERT INTO previous_uses SELECT account_id, environment, previous_until, '${time}' FROM encryption WHERE previous_until IS NOT NULL`,
      );
      const store = openStore(url);
      const account = await store.read('odd');
      expect(account?.keys[0]?.lastUsedAt).toBeUndefined();
      expect(account?.encryption.test?.previous?.lastUsedAt).toBeUndefined();
      await new Operations({ store, vault, clock, audit: () => {} }).setActive('odd', false, { actor: 'user:test' });
    },
  );

  test('is refused by an import that has the same account; the import adds the rest', async () => {
    const store = openStore(await databaseWith(`UPDATE api_keys SET created_at = 'infinity'`));
    const importer = new Importer({ store, vault, clock }, vault, 'user:test');
    const outcomes = await importer.add(['new', 'odd', 'other'].map((id) => storedAccount(id)));
    expect(outcomes).toMatchObject(['added', { code: 'store_invalid' }, 'added']);
  });

  test('is not a row whose key expires at infinity, because that key does not expire', async () => {
    const url = await databaseWith(`UPDATE api_keys SET expires_at = 'infinity'`);
    const store = openStore(url);
    expect((await store.read('odd'))?.keys[0]?.expiresAt).toBeUndefined();
    const operations = new Operations({ store, vault, clock, audit: () => {} });
    expect((await operations.show('odd')).keys[0]).toMatchObject({ state: 'valid', expires_at: null });
    await operations.setActive('odd', false, { actor: 'user:test' });
    expect((await Array.fromAsync(store.list())).map(toMembers)).toHaveLength(3);
    expect(
      await postgres.psql(url, `SELECT count(*) FROM envelope_sidecar.api_keys WHERE expires_at = 'infinity'`),
    ).toBe('1');
    const { directory } = await openDirectory(url);
    expect(await directory.find(sha256Hex(keyNamed('odd')))).toMatchObject({ account: { active: false } });
  });
});

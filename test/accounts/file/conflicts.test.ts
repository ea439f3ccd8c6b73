import { createSecretKey, randomBytes } from 'node:crypto';
import { expect, test } from 'vitest';
import { refuseInTheClear } from '../../../src/accounts/file/conflicts.ts';
import { createMasterKey } from '../../../src/accounts/master-key.ts';
import type { StoredAccount, StoredCredentials } from '../../../src/accounts/store.ts';
import { Vault } from '../../../src/accounts/vault.ts';

const vault = new Vault([createMasterKey(createSecretKey(randomBytes(32)))]);

function credentials(account: string, isSealed: boolean): StoredCredentials {
  const wrap = (member: 'key' | 'iv', text: string): string =>
    isSealed ? vault.wrap(text, { account, environment: 'test', member }) : text;
  const [key, iv] = [randomBytes(16), randomBytes(8)].map((bytes) => bytes.toString('hex'));
  return { key: wrap('key', key ?? ''), iv: wrap('iv', iv ?? ''), format: 'text', createdAt: 0 };
}

/**
 * An account whose credentials are in use. With `isOff`, its encryption has been disabled, and the credentials are accepted only in a grace
 * period.
 */
function account(id: string, isSealed: boolean, isOff = false): StoredAccount {
  const own = credentials(id, isSealed);
  const test = isOff
    ? { enabled: false as const, encoding: 'hex' as const, previous: { credentials: own, until: 1 } }
    : { enabled: true as const, encoding: 'hex' as const, credentials: own };
  return { id, name: id, active: true, keys: [], encryption: { test } } as StoredAccount;
}

const missing = expect.objectContaining({ code: 'master_key_missing' }) as Error;

test('an account whose credentials are in the clear can be deactivated next to one with sealed credentials', () => {
  const [sealed, clear] = [account('a', true), account('b', false)];
  expect(() => refuseInTheClear([sealed, clear], [{ ...clear, active: false }])).not.toThrow();
});

test.each([
  ['in use', false],
  ['accepted in a grace', true],
])('no credentials in the clear are added next to sealed ones that are %s', (_, isOff) => {
  expect(() => refuseInTheClear([account('a', true, isOff)], [account('b', false)])).toThrow(missing);
  expect(() => refuseInTheClear([account('a', true)], [account('b', false, isOff)])).toThrow(missing);
  expect(() => refuseInTheClear([account('a', false, isOff)], [account('b', false)])).not.toThrow();
});

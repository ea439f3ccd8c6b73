import { describe, expect, onTestFinished, test } from 'vitest';
import type { Account, Encryption } from '../../src/accounts/account.ts';
import { memoryDirectory } from '../../src/accounts/file/directory.ts';
import { untilServed } from '../../src/accounts/until-served.ts';
import type { StoredAccount } from '../../src/accounts/store.ts';
import { AccountsError } from '../../src/accounts/accounts-error.ts';
import { Vault } from '../../src/accounts/vault.ts';
import { acme, acmeLive, acmeTest, apiKey, codecOf, enabledOf, encryptionOf } from '../support/sidecar.ts';

const grace = { previous: codecOf(acmeLive), until: 1_000 };
const held: Account = { ...acme, encryption: { test: encryptionOf(acmeTest, { grace }) } };

function withTest(test: Encryption | undefined): Account {
  return { ...held, encryption: test === undefined ? {} : { test } };
}

function withKey(change: object): Account {
  return { ...held, keys: held.keys.map((key, i) => (i === 0 ? { ...key, ...change } : key)) };
}

describe('an account in memory', () => {
  const on = enabledOf(held.encryption.test);

  test('is served if it is equal, even as a copy', () => {
    const copy = { ...held, encryption: { test: encryptionOf(acmeTest, { grace: { ...grace } }) } };
    expect(memoryDirectory([acme]).serves(copy)).toBe(false);
    expect(memoryDirectory([copy]).serves(held)).toBe(true);
  });

  test.each<[string, Account]>([
    ['is new', { ...held, id: 'other' }],
    ['has another name', { ...held, name: 'Other' }],
    ['is not active', { ...held, active: false }],
    ['has one key more', { ...held, keys: [...held.keys, apiKey('sk_test_newnewnewnewnewnewne')] }],
    ['has one key less', { ...held, keys: held.keys.slice(1) }],
    ['has a revoked key', withKey({ revokedAt: 1 })],
    ['has a key that expires', withKey({ expiresAt: 1 })],
    ['has no encryption', withTest(undefined)],
    ['has other credentials', withTest({ ...on, current: codecOf(acmeLive) })],
    ['has another IV', withTest({ ...on, current: codecOf({ ...acmeTest, iv: acmeLive.iv }) })],
    ['has another encoding', withTest({ ...on, current: codecOf(acmeTest, 'base64') })],
    ['has no grace', withTest({ ...on, grace: undefined })],
    ['has a longer grace', withTest({ ...on, grace: { ...grace, until: 2_000 } })],
    ['accepts plaintext in its grace', withTest({ ...on, grace: { ...grace, previous: undefined } })],
    ['accepts other credentials in its grace', withTest({ ...on, grace: { ...grace, previous: codecOf(acmeTest) } })],
    ['is ending its encryption', withTest({ type: 'ending', previous: codecOf(acmeTest), until: 1_000 })],
  ])('is not served by one that %s', (_, account) => {
    expect(memoryDirectory([held]).serves(account)).toBe(false);
  });
});

describe('waiting until an account is served', () => {
  const stored = (name: string): StoredAccount => ({ id: 'a', name, active: true, keys: [], encryption: {} });
  const directory = memoryDirectory([{ ...stored('now'), encryption: {} }]);
  let seen: Account | undefined = { ...stored('now'), encryption: {} };
  const find = async (): Promise<Account | undefined> => seen;
  const waitWith = (stored: () => Promise<StoredAccount | undefined>, patience: number): Promise<boolean> =>
    untilServed('a', { stored, vault: new Vault([]), find, directory: () => directory }, patience);

  test('ends when a later version of the account is served', async () => {
    let name = 'before';
    const read = async (): Promise<StoredAccount> => {
      const account = stored(name);
      name = 'now';
      return account;
    };
    expect(await waitWith(read, 30_000)).toBe(true);
  });

  test('first drops what is cached of the account, because no notification of the change may have arrived', async () => {
    const calls: string[] = [];
    const caching = {
      ...directory,
      forget: (id: string) => void calls.push(`forget ${id}`),
      serves: () => {
        calls.push('serves');
        return true;
      },
    };
    const read = async (): Promise<StoredAccount> => stored('now');
    await untilServed('a', { stored: read, vault: new Vault([]), find, directory: () => caching }, 30_000);
    expect(calls).toEqual(['forget a', 'serves']);
  });

  test('ends when a removed account is no longer seen', async () => {
    const before = seen;
    onTestFinished(() => void (seen = before));
    const waiting = waitWith(async () => undefined, 30_000);
    seen = undefined;
    expect(await waiting).toBe(true);
  });

  test.each<[string, () => Promise<StoredAccount | undefined>]>([
    ['does not respond', () => new Promise(() => {})],
    ['has another version', async () => stored('later')],
    ['no longer has the account', async () => undefined],
    ['cannot be read', () => Promise.reject(new AccountsError('store_invalid', 'broken'))],
  ])('gives up if the store %s', async (_, read) => {
    expect(await waitWith(read, 50)).toBe(false);
  });
});

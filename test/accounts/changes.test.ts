import { describe, expect, test } from 'vitest';
import type { AccountsErrorCode } from '../../src/accounts/accounts-error.ts';
import {
  changeGrace,
  disableEncryption,
  enableEncryption,
  newAccount,
  refuseEqual,
  rewrap,
  type EnableOptions,
} from '../../src/accounts/changes.ts';
import { issueKey, revokeKey, rotateKey } from '../../src/accounts/key-changes.ts';
import { hasChecksum } from '../../src/accounts/key-maker.ts';
import type { StoredAccount, StoredCredentials, StoredEncryption, StoredKey } from '../../src/accounts/store.ts';
import { parseMasterKeys } from '../../src/accounts/master-key.ts';
import { Vault } from '../../src/accounts/vault.ts';
import { sha256Hex } from '../../src/cryptography.ts';

const now = Date.parse('2026-11-21T10:00:00Z');
const clear = new Vault([]);
const wrapping = new Vault(parseMasterKeys('00'.repeat(32)) ?? []);
const plain = newAccount(undefined, 'acme', 'Acme');
const usual: EnableOptions = { encoding: undefined, grace: undefined, replace: false };

function refusal(code: AccountsErrorCode): unknown {
  return expect.objectContaining({ code });
}

function issued(expiresAt?: number): { account: StoredAccount; id: string } {
  const { account, key } = issueKey(plain, { environment: 'live', kind: 'public', expiresAt }, now);
  return { account, id: key.id };
}

describe('a new account', () => {
  test('is active, without keys or encryption', () => {
    expect(plain).toEqual({ id: 'acme', name: 'Acme', active: true, keys: [], encryption: {} });
  });

  test('is refused if its id is taken', () => {
    expect(() => newAccount(plain, 'acme', 'Other')).toThrow(refusal('account_exists'));
  });
});

describe('an issued key', () => {
  test('is refused beyond a thousand that are valid or ended within the last 30 days', () => {
    const days = (count: number): number => now - count * 86_400_000;
    const { key } = issueKey(plain, { environment: 'test', kind: 'secret', expiresAt: undefined }, days(100));
    const of = (count: number, more: Partial<StoredKey> = {}): StoredKey[] =>
      Array.from({ length: count }, (_, i) => ({ ...key, id: `${JSON.stringify(more)}${i}`, ...more }));
    const issue = (keys: readonly StoredKey[]): unknown =>
      issueKey({ ...plain, keys }, { environment: 'test', kind: 'secret', expiresAt: undefined }, now);
    const recent = [...of(1, { revokedAt: days(30) + 1 }), ...of(1, { expiresAt: days(30) + 1 })];
    const old = [...of(500, { revokedAt: days(30) }), ...of(500, { expiresAt: days(30), revokedAt: days(1) })];
    issue([...of(997), ...recent, ...old]);
    expect(() => issue([...of(998), ...recent])).toThrow(refusal('too_many_keys'));
    expect(() => issue(of(1_000, { expiresAt: now + 1 }))).toThrow(refusal('too_many_keys'));
    expect(() => rotateKey({ ...plain, keys: of(1_000) }, '{}0', 0, now)).toThrow(refusal('too_many_keys'));
    // A key can still be revoked.
    revokeKey({ ...plain, keys: of(1_000) }, '{}0', now);
  });

  test('is stored as its hash only', () => {
    const { account, key, secret } = issueKey(plain, { environment: 'test', kind: 'secret', expiresAt: 7 }, now);
    expect(secret).toMatch(/^sk_test_/);
    expect(hasChecksum(secret)).toBe(true);
    expect(account.keys).toEqual([key]);
    expect(key).toMatchObject({ prefix: 'sk_test_', hash: sha256Hex(secret), createdAt: now, expiresAt: 7 });
    expect(JSON.stringify(account)).not.toContain(secret.slice(8));
  });
});

describe('rotating a key', () => {
  test('issues a key of the same kind and keeps the old one valid for the overlap', () => {
    const { account, id } = issued();
    const rotated = rotateKey(account, id, 1_000, now + 5);
    expect(rotated.oldEndsAt).toBe(now + 1_005);
    expect(rotated.account.keys.map(({ prefix, expiresAt }) => [prefix, expiresAt])).toEqual([
      ['pk_live_', now + 1_005],
      ['pk_live_', undefined],
    ]);
    expect(rotated.key.createdAt).toBe(now + 5);
  });

  test('gives the new key the lifetime of the old one, and never extends the old one', () => {
    const { account, id } = issued(now + 100);
    const rotated = rotateKey(account, id, 1_000, now + 50);
    expect(rotated.account.keys.map(({ expiresAt }) => expiresAt)).toEqual([now + 100, now + 150]);
  });

  test('without an overlap ends the old key at once', () => {
    const { account, id } = issued();
    expect(rotateKey(account, id, 0, now).account.keys[0]?.expiresAt).toBe(now);
  });

  test('allows each key one successor', () => {
    const { account: one, id } = issued();
    const { account: both, key: other } = issueKey(
      one,
      { environment: 'live', kind: 'public', expiresAt: undefined },
      now,
    );
    const rotated = rotateKey(both, id, 1_000, now);
    expect(() => rotateKey(rotated.account, id, 1_000, now)).toThrow(refusal('key_rotated'));
    expect(rotateKey(rotated.account, other.id, 1_000, now).key.id).not.toBe(rotated.key.id);
  });

  test('is refused if the key is unknown, expired or revoked', () => {
    const { account, id } = issued(now + 100);
    expect(() => rotateKey(account, 'other', 0, now)).toThrow(refusal('key_unknown'));
    expect(rotateKey(account, id, 0, now + 99).account.keys).toHaveLength(2);
    expect(() => rotateKey(account, id, 0, now + 100)).toThrow(refusal('key_expired'));
    expect(() => rotateKey(revokeKey(account, id, now), id, 0, now)).toThrow(refusal('key_revoked'));
  });
});

describe('revoking a key', () => {
  test('ends the key at once, even if it has expired', () => {
    const { account, id } = issued(now - 1);
    expect(revokeKey(account, id, now).keys[0]?.revokedAt).toBe(now);
  });

  test('is refused if the key is revoked or unknown', () => {
    const { account, id } = issued();
    expect(() => revokeKey(revokeKey(account, id, now), id, now)).toThrow(refusal('key_revoked'));
    expect(() => revokeKey(account, 'other', now)).toThrow(refusal('key_unknown'));
  });
});

describe('enabling encryption', () => {
  test('creates a key of 32 characters and an IV of 16, both valid base64', () => {
    const { account, credentials } = enableEncryption(plain, 'test', usual, now, clear);
    expect(credentials.key).toMatch(/^[A-Za-z0-9+/]{32}$/);
    expect(credentials.iv).toMatch(/^[A-Za-z0-9+/]{16}$/);
    expect(account.encryption).toEqual({
      test: {
        enabled: true,
        encoding: 'hex',
        credentials: { ...credentials, format: 'text', createdAt: now },
        previous: undefined,
      },
    });
  });

  test('wraps the credentials if there is a master key', () => {
    const { account, credentials } = enableEncryption(plain, 'live', usual, now, wrapping);
    const stored = account.encryption.live?.credentials as StoredCredentials;
    for (const text of Object.values(credentials)) expect(JSON.stringify(account)).not.toContain(text);
    expect(wrapping.unwrap(stored.key, { account: 'acme', environment: 'live', member: 'key' })).toBe(credentials.key);
    expect(wrapping.unwrap(stored.iv, { account: 'acme', environment: 'live', member: 'iv' })).toBe(credentials.iv);
  });

  const enabled = enableEncryption(plain, 'test', { ...usual, encoding: 'base64' }, now, clear).account;

  test('is refused if encryption is enabled, unless replacing is requested', () => {
    expect(() => enableEncryption(enabled, 'test', usual, now, clear)).toThrow(refusal('encryption_enabled'));
    const replaced = enableEncryption(enabled, 'test', { ...usual, replace: true }, now, clear).account;
    expect(replaced.encryption.test?.credentials?.key).not.toBe(enabled.encryption.test?.credentials?.key);
    expect(replaced.encryption.test).toMatchObject({ encoding: 'base64', previous: undefined });
  });

  test('does not touch the other environment', () => {
    const both = enableEncryption(enabled, 'live', usual, now, clear).account;
    expect(both.encryption.test).toBe(enabled.encryption.test);
  });

  test('with a grace keeps accepting the replaced credentials until it ends', () => {
    const options = { ...usual, grace: 500, replace: true };
    const { previous } = enableEncryption(enabled, 'test', options, now, clear).account.encryption.test ?? {};
    const before = { ...enabled.encryption.test?.credentials, createdAt: undefined };
    expect(previous).toEqual({ credentials: before, until: now + 500, lastUsedAt: undefined });
  });

  test('with a grace accepts plaintext if encryption was disabled before', () => {
    const options = { ...usual, grace: 500 };
    const plaintext = { credentials: undefined, until: now + 500, lastUsedAt: undefined };
    expect(enableEncryption(plain, 'test', options, now, clear).account.encryption.test?.previous).toEqual(plaintext);
    const off = disableEncryption(enabled, 'test', undefined, now);
    expect(enableEncryption(off, 'test', options, now, clear).account.encryption.test?.previous).toEqual(plaintext);
    // A file written by hand may have disabled credentials. They are not accepted again.
    const { credentials } = enabled.encryption.test ?? {};
    const disabled = { enabled: false, encoding: 'hex', credentials, previous: undefined } as const;
    const again = enableEncryption({ ...plain, encryption: { test: disabled } }, 'test', options, now, clear);
    expect(again.account.encryption.test?.previous).toEqual(plaintext);
  });

  test('of one environment opens no credentials except those that a grace would keep', () => {
    const lost = 'sealed:v1:AAAA';
    const { test } = enabled.encryption;
    if (test?.enabled !== true) throw new Error('not enabled');
    const credentials = { ...test.credentials, key: lost, iv: lost };
    const account: StoredAccount = {
      ...enabled,
      encryption: { test: { ...test, credentials }, live: { ...test, credentials } },
    };
    const wrapping = new Vault(parseMasterKeys('11'.repeat(32)) ?? []);
    const after = enableEncryption(account, 'test', { ...usual, replace: true }, now, wrapping).account;
    expect(after.encryption.test?.credentials?.key).not.toBe(lost);
    const keeping = { ...usual, grace: 500, replace: true };
    expect(() => enableEncryption(account, 'test', keeping, now, wrapping)).toThrow(refusal('master_key_wrong'));
    const keepsOwn = { ...account, encryption: { ...account.encryption, test } };
    expect(enableEncryption(keepsOwn, 'test', keeping, now, wrapping).account.encryption.test?.enabled).toBe(true);
  });
});

test('the same key in test and live is refused', () => {
  const shared = enableEncryption(plain, 'test', usual, now, clear).account.encryption.test as StoredEncryption;
  const account: StoredAccount = { ...plain, encryption: { test: shared, live: shared } };
  expect(() => refuseEqual(account, clear)).toThrow(refusal('credentials_equal'));
});

describe('the end of a grace', () => {
  const running = enableEncryption(plain, 'test', { ...usual, grace: 500 }, now, clear).account;

  test('can be set from one millisecond to one year ahead', () => {
    const year = 365 * 86_400_000;
    for (const until of [now + 1, now + year]) {
      expect(changeGrace(running, 'test', until, now).encryption.test?.previous?.until).toBe(until);
    }
    for (const until of [now, now + year + 1]) {
      expect(() => changeGrace(running, 'test', until, now)).toThrow(refusal('until_not_allowed'));
    }
  });

  test('cannot be moved after it has passed', () => {
    expect(() => changeGrace(running, 'test', now + 1_000, now + 499)).not.toThrow();
    expect(() => changeGrace(running, 'test', now + 1_000, now + 500)).toThrow(refusal('grace_not_running'));
    expect(() => changeGrace(plain, 'test', now + 1_000, now)).toThrow(refusal('grace_not_running'));
  });
});

describe('disabling encryption', () => {
  const enabled = enableEncryption(plain, 'test', { ...usual, encoding: 'base64', grace: 9 }, now, clear).account;

  test('removes the credentials and keeps the encoding', () => {
    const off = disableEncryption(enabled, 'test', undefined, now);
    expect(off.encryption.test).toEqual({
      enabled: false,
      encoding: 'base64',
      credentials: undefined,
      previous: undefined,
    });
    expect(enableEncryption(off, 'test', usual, now, clear).account.encryption.test?.encoding).toBe('base64');
  });

  test('with a grace keeps the credentials as previous ones until the grace ends', () => {
    const before = enableEncryption(plain, 'test', usual, now, clear).account;
    const off = disableEncryption(before, 'test', 500, now);
    const credentials = { ...before.encryption.test?.credentials, createdAt: undefined };
    const previous = { credentials, until: now + 500, lastUsedAt: undefined };
    expect(off.encryption.test).toEqual({ enabled: false, encoding: 'hex', credentials: undefined, previous });
    const renewed = enableEncryption(off, 'test', usual, now, clear).account;
    expect(renewed.encryption.test?.previous).toBeUndefined();
    expect(changeGrace(off, 'test', undefined, now).encryption.test?.previous).toBeUndefined();
  });

  test('with a grace is refused during another grace', () => {
    expect(() => disableEncryption(enabled, 'test', 500, now + 8)).toThrow(refusal('grace_running'));
    expect(() => disableEncryption(enabled, 'test', 500, now + 9)).not.toThrow();
    expect(() => disableEncryption(enabled, 'test', undefined, now)).not.toThrow();
  });

  test('is refused if encryption is not enabled', () => {
    expect(() => disableEncryption(plain, 'test', undefined, now)).toThrow(refusal('encryption_disabled'));
    expect(() => disableEncryption(enabled, 'live', undefined, now)).toThrow(refusal('encryption_disabled'));
    expect(() => disableEncryption(disableEncryption(enabled, 'test', undefined, now), 'test', undefined, now)).toThrow(
      refusal('encryption_disabled'),
    );
  });
});

test('rewrapping covers current and previous credentials, and keeps their values', () => {
  const first = enableEncryption(plain, 'test', usual, now, wrapping).account;
  const rotated = enableEncryption(first, 'test', { ...usual, grace: 9, replace: true }, now, wrapping).account;
  const both = enableEncryption(rotated, 'live', usual, now, wrapping).account;
  const other = new Vault(parseMasterKeys('11'.repeat(32)) ?? []);
  const rewrapped = rewrap(both, wrapping, other);
  const previous = rewrapped.encryption.test?.previous?.credentials;
  const place = { account: 'acme', environment: 'test' } as const;
  expect(other.unwrap(previous?.iv ?? '', { ...place, member: 'iv' })).toHaveLength(16);
  expect(other.unwrap(previous?.key ?? '', { ...place, member: 'key' })).toHaveLength(32);
  expect(rewrap(rewrapped, other, clear)).toEqual(rewrap(both, wrapping, clear));
  expect(() => rewrap(rewrapped, wrapping, clear)).toThrow(refusal('master_key_wrong'));
  expect(() => rewrap(both, other, clear)).toThrow(refusal('master_key_wrong'));
  expect(rewrap(plain, wrapping, other)).toEqual(plain);
});

import { randomBytes } from 'node:crypto';
import { expect, test } from 'vitest';
import { KeyCache } from '../../../src/accounts/postgres/key-cache.ts';
import type { StoredAccount } from '../../../src/accounts/store.ts';
import { unwrapAccount } from '../../../src/accounts/unwrap-account.ts';
import { storedAccount, vault } from './fixtures.ts';
import { sha256Hex } from '../../../src/cryptography.ts';
import { collectGarbage } from '../../support/memory.ts';

/** Creates a cache as if the database had just been connected, and the `Reading` of a key that is read now. */
function start(cache: number, monotonic = () => performance.now()) {
  const keys = new KeyCache({ cache, staleFor: 900_000, monotonic });
  keys.beginSpan();
  const { span } = keys;
  if (span === undefined) throw new Error('no span');
  return { keys, read: { span, at: monotonic() } };
}

/** Bytes in use after a garbage collection. */
function bytesInUse(): number {
  collectGarbage();
  const { heapUsed, external } = process.memoryUsage();
  return heapUsed + external;
}

test('an account is not served while one of its keys is cached as unknown', () => {
  const { keys, read } = start(10);
  const account = unwrapAccount(storedAccount('acme'), vault);
  expect(keys.serves(account)).toBe(true);
  for (const { hash } of account.keys) keys.keepUnknown(hash, read);
  expect(keys.serves(account)).toBe(false);
  expect(keys.serves({ ...account, keys: [] })).toBe(true);
});

test.each<[string, number, boolean, boolean]>([
  ['was read a minute ago', 60_000, false, false],
  ['was read before all keys had to be looked up again', 0, true, false],
  ['is too old to be used even without a connection', 900_000, true, true],
])(
  'an account is not served while an earlier version would be used if the connection were lost: it %s',
  (_, age, isOfEarlierSpan, isServed) => {
    let now = 1_000_000;
    const { keys, read } = start(10, () => now);
    const stored = storedAccount('acme');
    const account = unwrapAccount(stored, vault);
    const [key] = account.keys;
    if (key === undefined) throw new Error('no key');
    keys.keep(key.hash, { account: 'acme', found: { account, key }, read });
    now += age;
    if (isOfEarlierSpan) keys.beginSpan();
    expect(keys.serves(account)).toBe(true);
    const revoked = { ...account, keys: [{ ...key, revokedAt: 1 }] };
    expect(keys.serves(revoked)).toBe(isServed);
    keys.drop('acme');
    expect(keys.serves(revoked)).toBe(true);
  },
);

test('a cached key of an account that encrypts in both environments takes 2 KB, and an unknown key takes little', () => {
  const count = 5_000;
  const { keys, read } = start(count);
  const encrypting = () => ({
    enabled: true as const,
    encoding: 'hex' as const,
    credentials: {
      key: randomBytes(16).toString('hex'),
      iv: randomBytes(8).toString('hex'),
      format: 'text' as const,
      createdAt: 0,
    },
  });
  const keep = (index: number): void => {
    const key = {
      id: `key-${index}`,
      hash: sha256Hex(`${index}`),
      environment: 'live',
      kind: 'secret',
      createdAt: index,
    };
    const encryption = { live: encrypting(), test: encrypting() };
    const stored = { id: `account-${index}`, name: `Account ${index}`, active: true, keys: [key], encryption };
    const account = unwrapAccount(structuredClone(stored) as unknown as StoredAccount, vault);
    const [own] = account.keys;
    if (own !== undefined) keys.keep(own.hash, { account: account.id, found: { account, key: own }, read });
  };
  keep(0);
  const before = bytesInUse();
  for (let index = 1; index < count; index += 1) keep(index);
  const after = bytesInUse();
  for (let index = 0; index < count; index += 1) keys.keepUnknown(sha256Hex(`unknown ${index}`), read);
  const last = bytesInUse();
  expect(keys.sizes).toEqual({ known: count, unknown: count });
  expect((after - before) / count).toBeLessThan(2_500);
  expect((last - after) / count).toBeLessThan(500);
});

import { randomBytes } from 'node:crypto';
import { setFlagsFromString } from 'node:v8';
import { runInNewContext } from 'node:vm';
import { expect, test } from 'vitest';
import type { Account } from '../../../src/accounts/account.ts';
import { sha256Hex } from '../../../src/accounts/api-key.ts';
import { KeyCache } from '../../../src/accounts/postgres/key-cache.ts';
import type { StoredAccount } from '../../../src/accounts/store.ts';
import { unwrapAccount } from '../../../src/accounts/unwrap-account.ts';
import { Vault } from '../../../src/accounts/vault.ts';
import type { MonotonicMs } from '../../../src/times.ts';

const monotonic = (): MonotonicMs => performance.now();

/** Bytes in use after a garbage collection. */
function bytesInUse(): number {
  setFlagsFromString('--expose-gc');
  (runInNewContext('gc') as () => void)();
  const { heapUsed, external } = process.memoryUsage();
  return heapUsed + external;
}

test('an account is not served while one of its keys is known as unknown', () => {
  const cache = new KeyCache({ cache: 10, staleFor: 900_000, monotonic });
  cache.beginSpan();
  const { span } = cache;
  if (span === undefined) throw new Error('no span');
  const hash = sha256Hex('x');
  const key = { id: 'k', hash, prefix: 'sk_live_' as const, createdAt: 0 };
  const account = { id: 'acme', name: 'Acme', active: true, keys: [key], encryption: {} } as unknown as Account;
  expect(cache.serves(account)).toBe(true);
  cache.keepUnknown(hash, { span, at: monotonic() });
  expect(cache.serves(account)).toBe(false);
  expect(cache.serves({ ...account, keys: [] })).toBe(true);
});

test('a key in memory, of an account that encrypts in both environments, takes 2 KB, and an unknown one little', () => {
  const count = 5_000;
  const cache = new KeyCache({ cache: count, staleFor: 900_000, monotonic });
  cache.beginSpan();
  const { span } = cache;
  if (span === undefined) throw new Error('no span');
  const read = { span, at: monotonic() };
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
    const account = unwrapAccount(structuredClone(stored) as unknown as StoredAccount, new Vault([]));
    const [own] = account.keys;
    if (own !== undefined) cache.keep(own.hash, { account: account.id, found: { account, key: own }, read });
  };
  keep(0);
  const before = bytesInUse();
  for (let index = 1; index < count; index += 1) keep(index);
  const after = bytesInUse();
  for (let index = 0; index < count; index += 1) cache.keepUnknown(sha256Hex(`unknown ${index}`), read);
  const last = bytesInUse();
  expect(cache.state).toMatchObject({ known: count, unknown: count });
  expect((after - before) / count).toBeLessThan(2_500);
  expect((last - after) / count).toBeLessThan(500);
});

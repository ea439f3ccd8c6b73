import { describe, expect, test } from 'vitest';
import type { Account } from '../../src/accounts/account.ts';
import { countAccounts } from '../../src/accounts/account-stats.ts';
import { acmeLive, acmeTest, apiKey, encryptionOf } from '../support/sidecar.ts';

const day = 86_400_000;
const now = 1_000 * day;
const due = now - 180 * day;

function account(more: Partial<Account> = {}): Account {
  return { id: 'a', name: 'A', active: true, keys: [], encryption: {}, ...more };
}

function keyCounts(...keys: Account['keys']): string[] {
  return countAccounts([account({ keys })], now)
    .apiKeys.filter(({ count }) => count > 0)
    .map(({ environment, kind, rotation, count }) => `${environment} ${kind} ${rotation} ${count}`);
}

function credentialCounts(...accounts: readonly Account[]): string[] {
  return countAccounts(accounts, now)
    .credentials.filter(({ count }) => count > 0)
    .map(({ environment, rotation, count }) => `${environment} ${rotation} ${count}`);
}

const key = (prefix: string): string => `${prefix}${'x'.repeat(16)}`;

test('without accounts every series is zero, so that the set of series is constant', () => {
  const { accounts, apiKeys, expiring, credentials } = countAccounts([], now);
  expect([...accounts]).toEqual([
    ['none', 0],
    ['test', 0],
    ['live', 0],
    ['both', 0],
  ]);
  const zero = (labels: object): object => ({ ...labels, count: 0 });
  const environments = ['test', 'live'].flatMap((environment) =>
    ['public', 'secret'].flatMap((kind) => ['current', 'due'].map((rotation) => zero({ environment, kind, rotation }))),
  );
  expect(apiKeys).toEqual(environments);
  expect(expiring).toEqual(
    ['test', 'live'].flatMap((environment) =>
      ['public', 'secret'].map((kind) => ({ environment, kind, count: 0, next: Infinity })),
    ),
  );
  expect(credentials).toEqual(
    ['test', 'live'].flatMap((environment) => ['current', 'due'].map((rotation) => zero({ environment, rotation }))),
  );
});

test('an account counts in each environment in which it encrypts, even if it is inactive', () => {
  const test = encryptionOf(acmeTest);
  const live = encryptionOf(acmeLive);
  const accounts = [{}, {}, {}, { test }, { test }, { live }, { test, live }].map((encryption) =>
    account({ encryption }),
  );
  const counts = countAccounts([...accounts, account({ active: false, encryption: { live } })], now).accounts;
  expect(Object.fromEntries(counts)).toEqual({ none: 3, test: 2, live: 2, both: 1 });
});

describe('an API key', () => {
  test('counts by its environment and kind', () => {
    const createdAt = now;
    const keys = ['pk_test_', 'sk_test_', 'sk_test_', 'pk_live_', 'sk_live_'].map((prefix) =>
      apiKey(key(prefix), { createdAt }),
    );
    expect(keyCounts(...keys)).toEqual([
      'test public current 1',
      'test secret current 2',
      'live public current 1',
      'live secret current 1',
    ]);
  });

  test.each([
    [due + 1, 'current'],
    [due, 'due'],
    [due - 1, 'due'],
  ])('created at %i is %s', (createdAt, rotation) => {
    expect(keyCounts(apiKey(key('sk_test_'), { createdAt }))).toEqual([`test secret ${rotation} 1`]);
  });

  test('counts until it expires', () => {
    const until = (time: number): string[] => keyCounts(apiKey(key('sk_test_'), { createdAt: now, expiresAt: time }));
    expect(until(now + 1)).toHaveLength(1);
    expect(until(now)).toEqual([]);
    expect(until(now - 1)).toEqual([]);
  });

  test.each([now - 1, now, now + 1])('does not count once it is revoked, even if revoked at %i', (revokedAt) => {
    expect(keyCounts(apiKey(key('sk_test_'), { createdAt: now, revokedAt }))).toEqual([]);
  });
});

describe('an API key with an expiry', () => {
  const notice = 30 * day;
  function expiringOf(...keys: Account['keys']): object[] {
    return countAccounts([account({ keys })], now).expiring.filter(({ next }) => next !== Infinity);
  }
  const labels = { environment: 'live', kind: 'secret' };

  test.each([
    [now, []],
    [now + 1, [{ ...labels, count: 1, next: now + 1 }]],
    [now + notice, [{ ...labels, count: 1, next: now + notice }]],
    [now + notice + 1, [{ ...labels, count: 0, next: now + notice + 1 }]],
  ])('counts as expiring in its last 30 days: %i', (expiresAt, counted) => {
    expect(expiringOf(apiKey(key('sk_live_'), { expiresAt }))).toEqual(counted);
  });

  test('does not count as expiring if it is revoked', () => {
    expect(expiringOf(apiKey(key('sk_live_'), { expiresAt: now + 1, revokedAt: now }))).toEqual([]);
  });

  test('counts as expiring by its environment and kind, with the next expiry', () => {
    const keys = [5, 3, 4].map((days) => apiKey(key('sk_live_'), { expiresAt: now + days * day }));
    expect(expiringOf(...keys, apiKey(key('pk_test_'), { expiresAt: now + 99 * day }))).toEqual([
      { environment: 'test', kind: 'public', count: 0, next: now + 99 * day },
      { ...labels, count: 3, next: now + 3 * day },
    ]);
  });
});

describe('credentials', () => {
  test.each([
    [due + 1, 'current'],
    [due, 'due'],
    [undefined, 'current'],
  ])('created at %s are %s', (createdAt, rotation) => {
    const encryption = { live: encryptionOf(acmeLive, { createdAt }) };
    expect(credentialCounts(account({ encryption }))).toEqual([`live ${rotation} 1`]);
  });

  test('count in each environment, previous ones do not', () => {
    const grace = { previous: encryptionOf(acmeLive).current, until: now + day };
    const encryption = { test: encryptionOf(acmeTest, { grace }), live: encryptionOf(acmeLive, { createdAt: due }) };
    expect(credentialCounts(account({ encryption }), account({ encryption }))).toEqual([
      'test current 2',
      'live due 2',
    ]);
  });
});

import fc from 'fast-check';
import { expect, test } from 'vitest';
import { compareUrgency, listDue, MostUrgent, locate, readPlace, writePlace } from '../../src/accounts/due.ts';
import type { StoredAccount, StoredKey } from '../../src/accounts/store.ts';
import { runs } from '../support/property.ts';

const day = 86_400_000;
const now = Date.parse('2026-11-21T10:00:00Z');
const viewing = { now, recordsUse: true };

function keyOf(id: string, more: Partial<StoredKey> = {}): StoredKey {
  const prefix = 'sk_live_';
  return { id, prefix, hash: id.padEnd(64, '0'), createdAt: now - day, lastUsedAt: undefined, ...more } as StoredKey;
}

function accountOf(id: string, keys: readonly StoredKey[], credentialsAge?: number): StoredAccount {
  const credentials = { key: 'k', iv: 'i', format: 'text', createdAt: now - (credentialsAge ?? 0) } as const;
  const live = { enabled: true, credentials, encoding: 'hex', previous: undefined } as const;
  return { id, name: id, active: true, keys, encryption: credentialsAge === undefined ? {} : { live } };
}

test('keys that expire come in the order of their expiry, then keys and credentials in the order of their age', () => {
  const accounts = [
    accountOf('old', [keyOf('k1', { createdAt: now - 200 * day })], 190 * day),
    accountOf('ends', [
      keyOf('later', { expiresAt: now + 20 * day, createdAt: now - 300 * day }),
      keyOf('soon', { expiresAt: now + day, lastUsedAt: now - 60_000 }),
      keyOf('revoked', { expiresAt: now + day, revokedAt: now - day }),
      keyOf('new'),
    ]),
    accountOf('oldest', [keyOf('k2', { prefix: 'pk_live_', createdAt: now - 400 * day })], 180 * day - 1),
  ];
  const all = accounts.flatMap((account) => listDue(account, viewing, {}));
  const sorted = all.toSorted((a, b) => compareUrgency(locate(a), locate(b)));
  expect(sorted.map(({ account, kind, id, warnings }) => [account, kind, id, ...warnings].join(' '))).toEqual([
    'ends secret soon expiring',
    'ends secret later due expiring',
    'oldest public k2 due',
    'old secret k1 due',
    'old credentials  due',
  ]);
  expect(sorted[0]).toMatchObject({ last_used_at: '2026-11-21T09:59:00Z', environment: 'live', hint: null });
  expect(sorted[4]).toEqual({
    account: 'old',
    environment: 'live',
    kind: 'credentials',
    id: null,
    name: null,
    hint: null,
    warnings: ['due'],
    created_at: '2026-05-15T10:00:00Z',
    expires_at: null,
  });
  const [old] = accounts;
  expect(old && listDue(old, viewing, { kind: 'credentials' })).toHaveLength(1);
  expect(old && listDue(old, viewing, { kind: 'secret', environment: 'live' })).toHaveLength(1);
  expect(old && listDue(old, viewing, { environment: 'test' })).toEqual([]);
});

test('pages of any size add up to the sorted list', () => {
  const age = fc.integer({ min: 180, max: 183 });
  const keys = fc.array(fc.tuple(age, fc.option(fc.integer({ min: 1, max: 3 }), { nil: undefined })), {
    maxLength: 12,
  });
  fc.assert(
    fc.property(keys, fc.integer({ min: 1, max: 5 }), (given, size) => {
      const account = accountOf(
        'a',
        given.map(([days, ends], i) =>
          keyOf(`k${i}`, { createdAt: now - days * day, ...(ends !== undefined && { expiresAt: now + ends * day }) }),
        ),
        181 * day,
      );
      const all = listDue(account, viewing, {});
      const sorted = all.toSorted((a, b) => compareUrgency(locate(a), locate(b)));
      const found: unknown[] = [];
      let place: ReturnType<typeof readPlace>;
      for (let page = 0; page <= all.length; page += 1) {
        const urgent = new MostUrgent(size, place);
        for (const each of all) urgent.add(each);
        found.push(...urgent.list);
        const last = urgent.list.at(-1);
        if (last === undefined) break;
        place = readPlace(writePlace(locate(last)));
      }
      expect(found).toEqual(sorted);
    }),
    { numRuns: runs(200) },
  );
});

test.each(['', 'x', btoa('[]'), btoa('{}'), btoa('[0,1,"a","b","c",1]')])(
  '%j is not the position of an item',
  (written) => {
    expect(readPlace(written)).toBeUndefined();
  },
);

import { describe, expect, test } from 'vitest';
import { AccountsError } from '../../src/accounts/accounts-error.ts';
import { requireAccount, newAccount } from '../../src/accounts/changes.ts';
import { issueKey } from '../../src/accounts/key-changes.ts';
import type {
  EventFilter,
  AuditEvent,
  Condition,
  Decision,
  Selection,
  Store,
  StoredAccount,
  StoredCredentials,
  StoredEncryption,
  StoredKey,
} from '../../src/accounts/store.ts';

/** A storage for accounts, which is empty at first and removed after the test. */
export interface Storage {
  /** Opens the storage as another process would. The store is closed after the test. */
  open(): Store;
}

const at = Date.parse('2026-11-21T10:00:00Z');
const event: AuditEvent = { at, actor: 'user:test', action: 'account_added', account: 'a', details: {} };

/** Describes the behaviour that all stores share. The current time in all tests is `at`; the texts of credentials are arbitrary. */
export function describeStore(name: string, makeStorage: () => Promise<Storage>): void {
  describe(`accounts in ${name}`, () => {
    test('is empty at first', async () => {
      const store = (await makeStorage()).open();
      expect(await store.read('acme')).toBeUndefined();
      expect(await all(store)).toEqual([]);
    });

    test('returns every member that was written, through any connection', async () => {
      const storage = await makeStorage();
      await put(storage.open(), ...accounts);
      const other = storage.open();
      for (const account of accounts) expect(await other.read(account.id)).toEqual(account);
      expect((await all(other)).map(({ id }) => id)).toEqual(['empty', 'full', 'off']);
    });

    test('replaces an account as a whole', async () => {
      const store = (await makeStorage()).open();
      await put(store, full);
      const { live, test: before } = full.encryption;
      const after: StoredAccount = {
        ...full,
        name: 'Other: "name" # with signs',
        active: true,
        keys: full.keys.map((key) => ({ ...key, expiresAt: at + 1_000, revokedAt: at + 2_000 })),
        encryption: {
          ...(before && { live: before }),
          ...(live && { test: { ...live, previous: undefined, encoding: 'base64' } }),
        },
      };
      await put(store, after);
      expect(await store.read('full')).toEqual(after);
      await put(store, { ...after, encryption: {} });
      expect(await store.read('full')).toEqual({ ...after, encryption: {} });
    });

    test('lists accounts by the bytes of their ids, from any id on, and can be stopped early', async () => {
      const store = (await makeStorage()).open();
      const ids = ['b', 'a-1', 'a.1', 'a', 'B', '_', '0', 'a1', 'aa', 'A'];
      await put(store, ...ids.map(accountOf));
      const sorted = ['0', 'A', 'B', '_', 'a', 'a-1', 'a.1', 'a1', 'aa', 'b'];
      expect((await all(store)).map(({ id }) => id)).toEqual(sorted);
      expect((await all(store, 'a')).map(({ id }) => id)).toEqual(sorted.slice(5));
      expect((await all(store, 'a0')).map(({ id }) => id)).toEqual(['a1', 'aa', 'b']);
      expect(await all(store, 'z')).toEqual([]);
      for await (const { id } of store.list()) {
        expect(id).toBe('0');
        break;
      }
      expect(await store.read('b')).toEqual(accountOf('b'));
    });

    test('finds an account by the hash of one of its keys', async () => {
      const store = (await makeStorage()).open();
      await put(store, ...accounts);
      for (const { hash } of full.keys) expect(await store.findByKey(hash)).toEqual(full);
      expect(await store.findByKey('0'.repeat(64))).toBeUndefined();
      expect(await store.findByKey('')).toBeUndefined();
    });

    test('lists the accounts whose id or name contains a text, taken literally', async () => {
      const store = (await makeStorage()).open();
      const named = (id: string, name: string): StoredAccount => ({ ...accountOf(id), name });
      await put(store, named('acme', 'Acme Stores'), named('b_1', '100% Wool'), named('b-1', String.raw`C:\Wool`));
      const found = async (search: string, after?: string): Promise<string[]> => ids(store, after, { search, now: at });
      expect(await found('ACME')).toEqual(['acme']);
      expect(await found('stores')).toEqual(['acme']);
      expect(await found('wool')).toEqual(['b-1', 'b_1']);
      expect(await found('wool', 'b-1')).toEqual(['b_1']);
      expect(await found('%')).toEqual(['b_1']);
      expect(await found('_')).toEqual(['b_1']);
      expect(await found('\\')).toEqual(['b-1']);
      expect(await found("' OR true --")).toEqual([]);
    });

    test('lists the accounts that meet one of the conditions, exact to the millisecond', async () => {
      const store = (await makeStorage()).open();
      const day = 86_400_000;
      const keyed = (id: string, more: Partial<StoredKey>): StoredAccount => {
        const { keys, ...rest } = withKey(accountOf(id));
        return { ...rest, keys: keys.map((key) => Object.assign(key, { createdAt: at - day }, more)) };
      };
      const aes = { key: 'k'.repeat(32), iv: 'i'.repeat(16), format: 'text' } as const;
      const encrypted = (
        id: string,
        more: Partial<Pick<StoredEncryption, 'previous'>>,
        createdAt?: number,
      ): StoredAccount => ({
        ...accountOf(id),
        encryption: {
          live: { enabled: true, encoding: 'hex', credentials: { ...aes, createdAt }, previous: undefined, ...more },
        },
      });
      const until = (time: number) => ({ previous: { credentials: undefined, until: time, lastUsedAt: undefined } });
      await put(
        store,
        { ...accountOf('inactive'), active: false },
        keyed('key-old', { createdAt: at - 180 * day }),
        keyed('key-not-yet-old', { createdAt: at - 180 * day + 1, expiresAt: at + 30 * day + 1 }),
        keyed('key-old-revoked', { createdAt: at - 180 * day, revokedAt: at - day }),
        keyed('key-old-expired', { createdAt: at - 180 * day, expiresAt: at }),
        keyed('key-expiring', { expiresAt: at + 30 * day }),
        keyed('key-expiring-revoked', { expiresAt: at + 30 * day, revokedAt: at - day }),
        keyed('key-idle', { createdAt: at - 30 * day }),
        keyed('key-new', { createdAt: at - 30 * day + 1 }),
        encrypted('on', {}),
        encrypted('on-old', {}, at - 180 * day),
        encrypted('on-not-yet-old', {}, at - 180 * day + 1),
        { ...off, id: 'off' },
        encrypted('grace', until(at + 1)),
        encrypted('grace-over', until(at)),
      );
      const found = (...anyOf: Condition[]): Promise<string[]> => ids(store, undefined, { anyOf, now: at });
      expect(await found('inactive')).toEqual(['inactive']);
      expect(await found('encrypting')).toEqual(['grace', 'grace-over', 'on', 'on-not-yet-old', 'on-old']);
      expect(await found('due')).toEqual(['key-old', 'on-old']);
      expect(await found('expiring')).toEqual(['key-expiring']);
      expect(await found('unused')).toEqual(['key-idle', 'key-not-yet-old', 'key-old']);
      expect(await found('in_grace')).toEqual(['grace']);
      expect(await found('due', 'expiring')).toEqual(['key-expiring', 'key-old', 'on-old']);
      expect(await ids(store, 'key-old', { anyOf: ['unused'], now: at + 1 })).toEqual([]);
      expect(await ids(store, undefined, { anyOf: ['unused'], search: 'IDLE', now: at })).toEqual(['key-idle']);
    });

    test('removes accounts with all that they have, and no others', async () => {
      const storage = await makeStorage();
      const store = storage.open();
      await put(store, withKey(accountOf('a')), { ...off, id: 'b' }, accountOf('c'));
      const remove = (...removed: readonly string[]): Promise<unknown> =>
        store.change(removed, () => ({
          accounts: [],
          removed,
          events: [{ ...event, action: 'account_removed' }],
          result: undefined,
        }));
      await remove('b');
      expect((await all(store)).map(({ id }) => id)).toEqual(['a', 'c']);
      await remove('a', 'c');
      expect(await all(storage.open())).toEqual([]);
      // An account that is added again inherits nothing from the removed one.
      await put(store, accountOf('b'));
      expect(await all(storage.open())).toEqual([accountOf('b')]);
    });

    test('passes only the requested accounts to a decision', async () => {
      const store = (await makeStorage()).open();
      await put(store, accountOf('a'), accountOf('b'));
      const changed = await store.change(['b', 'c'], (found) => ({
        accounts: [],
        events: [],
        result: [...found.values()],
      }));
      expect(changed).toMatchObject({ outcome: 'changed', result: [accountOf('b')] });
    });

    test('changes nothing if the decision throws, and rethrows the error', async () => {
      const store = (await makeStorage()).open();
      await put(store, accountOf('a'));
      const refusal = new AccountsError('account_exists', 'there');
      const change = store.change(['a', 'b'], (): Decision<void> => {
        throw refusal;
      });
      await expect(change).rejects.toMatchObject({ code: 'account_exists', message: 'there' });
      expect(await all(store)).toEqual([accountOf('a')]);
    });

    test('loses none of many concurrent changes to one account', async () => {
      const storage = await makeStorage();
      const stores = [storage.open(), storage.open()];
      await put(stores[0] as Store, accountOf('a'));
      await Promise.all(Array.from({ length: 10 }, (_, i) => issue(stores[i % 2] as Store, 'a')));
      expect((await stores[0]?.read('a'))?.keys).toHaveLength(10);
    });

    test('loses none of many concurrent changes to several accounts, in whatever order they are named', async () => {
      const storage = await makeStorage();
      const stores = [storage.open(), storage.open()];
      await put(stores[0] as Store, accountOf('a'), accountOf('b'));
      const changes = Array.from({ length: 8 }, (_, i) => {
        const ids = i % 2 === 0 ? ['a', 'b'] : ['b', 'a'];
        return (stores[i % 2] as Store).change(ids, (found) => ({
          accounts: ids.map((id) => withKey(requireAccount(found.get(id), id))),
          events: [event],
          result: undefined,
        }));
      });
      await Promise.all(changes);
      for (const { keys } of await all(stores[1] as Store)) expect(keys).toHaveLength(8);
    });

    test('lets one of two concurrent callers add an account', async () => {
      const storage = await makeStorage();
      const add = (store: Store): Promise<unknown> =>
        store.change(['a'], (found) => ({
          accounts: [newAccount(found.get('a'), 'a', 'A')],
          events: [event],
          result: undefined,
        }));
      const outcomes = await Promise.allSettled([add(storage.open()), add(storage.open())]);
      expect(outcomes.map(({ status }) => status).toSorted()).toEqual(['fulfilled', 'rejected']);
      expect(outcomes.find(({ status }) => status === 'rejected')).toMatchObject({
        reason: { code: 'account_exists' },
      });
    });

    test.each([
      ['the id', { id: 'key-1', hash: 'b'.repeat(64) }],
      ['the hash', { id: 'key-2', hash: 'a'.repeat(64) }],
    ])('refuses a key that shares %s with a key of another account', async (_, same) => {
      const store = (await makeStorage()).open();
      const owner = { ...accountOf('a'), keys: [key('key-1', 'a'.repeat(64))] };
      await put(store, owner);
      const thief = { ...accountOf('b'), keys: [{ ...key('', ''), ...same }] };
      await expect(put(store, accountOf('c'), thief)).rejects.toMatchObject({ code: 'key_exists' });
      expect(await all(store)).toEqual([owner]);
      const other = (await makeStorage()).open();
      await expect(put(other, owner, thief)).rejects.toMatchObject({ code: 'key_exists' });
      expect(await all(other)).toEqual([]);
    });

    describe('with an idempotency key', () => {
      const once = { key: 'one', request: 'f'.repeat(64) };

      test('makes a change once, and returns its receipt to repeats, through any connection', async () => {
        const storage = await makeStorage();
        const store = storage.open();
        await put(store, accountOf('a'));
        expect(await issue(store, 'a', once)).toMatchObject({ outcome: 'changed', result: 'secret' });
        const repeated = { outcome: 'repeated', receipt: '{"no":"secret"}' };
        expect(await issue(storage.open(), 'a', once)).toEqual(repeated);
        expect(await issue(store, 'a', { ...once, key: 'two' })).toMatchObject({
          outcome: 'changed',
          result: 'secret',
        });
        expect(await issue(store, 'a', once)).toEqual(repeated);
        expect((await store.read('a'))?.keys).toHaveLength(2);
      });

      test('makes a change once if it is requested several times concurrently', async () => {
        const storage = await makeStorage();
        const store = storage.open();
        await put(store, accountOf('a'));
        const outcomes = await Promise.all(Array.from({ length: 5 }, () => issue(storage.open(), 'a', once)));
        expect(outcomes.filter(({ outcome }) => outcome === 'changed')).toHaveLength(1);
        expect((await store.read('a'))?.keys).toHaveLength(1);
      });

      test('refuses another request with the same key', async () => {
        const store = (await makeStorage()).open();
        await put(store, accountOf('a'));
        await issue(store, 'a', once);
        const other = issue(store, 'a', { ...once, request: 'e'.repeat(64) });
        await expect(other).rejects.toMatchObject({ code: 'idempotency_key_reused' });
        expect((await store.read('a'))?.keys).toHaveLength(1);
      });

      test('keeps no receipt of a failed change', async () => {
        const store = (await makeStorage()).open();
        await expect(issue(store, 'a', once)).rejects.toMatchObject({ code: 'account_unknown' });
        await put(store, accountOf('a'));
        expect(await issue(store, 'a', once)).toMatchObject({ outcome: 'changed', result: 'secret' });
      });
    });

    describe('the trail', () => {
      const events = async (store: Store, filter: EventFilter = { after: 0 }): Promise<AuditEvent[]> => {
        const found: AuditEvent[] = [];
        for await (const { at: time, actor, action, account, details } of store.events(filter)) {
          found.push({ at: time, actor, action, account, details });
        }
        return found;
      };
      const eventAt = (time: number, account: string): AuditEvent => {
        return {
          at: time,
          actor: 'user:ana',
          action: 'key_issued',
          account,
          details: { key: 'k', number: 1, is: true },
        };
      };
      const write = (store: Store, id: string, ...made: readonly AuditEvent[]): Promise<unknown> =>
        store.change([id], () => ({ accounts: [accountOf(id)], events: made, result: undefined }));

      test('contains every change, in both orders, through any connection', async () => {
        const storage = await makeStorage();
        const store = storage.open();
        expect(await events(store)).toEqual([]);
        const made = [eventAt(at + 1_234, 'a'), eventAt(at, 'b'), eventAt(at + 2_000, 'a')];
        for (const each of made) await write(store, each.account ?? '', each);
        expect(await events(storage.open())).toEqual(made);
        expect(await events(storage.open(), {})).toEqual(made.toReversed());
        expect(await events(store, { account: 'a' })).toEqual([made[2], made[0]]);
        expect(await events(store, { after: 0, since: at + 1_234 })).toEqual([made[0], made[2]]);
        expect(await events(store, { since: at + 1_235 })).toEqual([made[2]]);
        expect(await events(store, { account: 'b', since: at + 1 })).toEqual([]);
        // A time that is given with a time zone may be in a year of five digits.
        const year10000 = Date.UTC(10_000, 0);
        expect(await events(store, { until: year10000 })).toEqual(made.toReversed());
        expect(await events(store, { since: year10000 })).toEqual([]);
      });

      test('continues after or before the position of any event, whatever the times of the events are', async () => {
        const store = (await makeStorage()).open();
        const made = [3, 1, 2, 2, 0].map((second) => eventAt(at + 1_000 * second, 'a'));
        for (const each of made) await write(store, 'a', each);
        const positions: number[] = [];
        for await (const { position } of store.events({ after: 0 })) positions.push(position);
        expect(positions).toHaveLength(made.length);
        for (const [i, after] of positions.entries()) {
          expect(await events(store, { after })).toEqual(made.slice(i + 1));
          const late = made.slice(i + 1).filter(({ at: time }) => time >= at + 2_000);
          expect(await events(store, { after, since: at + 2_000 })).toEqual(late);
          expect(await events(store, { before: after })).toEqual(made.slice(0, i).toReversed());
          expect(await events(store, { after: positions[0] ?? 0, before: after })).toEqual(
            made.slice(1, Math.max(1, i)),
          );
        }
      });

      test('contains nothing about a change that was not made', async () => {
        const store = (await makeStorage()).open();
        const taken = { ...accountOf('a'), keys: [key('key-1', 'a'.repeat(64))] };
        await store.change(['a'], () => ({ accounts: [taken], events: [eventAt(at, 'a')], result: undefined }));
        const decide = (): Decision<void> => {
          const thief = { ...taken, id: 'b' };
          return { accounts: [thief], events: [eventAt(at, 'b')], result: undefined };
        };
        await expect(store.change(['b'], decide)).rejects.toMatchObject({ code: 'key_exists' });
        expect(await events(store)).toEqual([eventAt(at, 'a')]);
      });

      test('records a change of all accounts with their number', async () => {
        const store = (await makeStorage()).open();
        await put(store, ...accounts);
        const master: AuditEvent = {
          at,
          actor: 'user:ana',
          action: 'master_key_changed',
          account: undefined,
          details: {},
        };
        await Array.fromAsync(store.changeAll((account) => ({ ...account, name: 'New' }), master));
        expect((await events(store)).at(-1)).toEqual({ ...master, details: { accounts: 3 } });
      });
    });

    describe('a rewrite of all accounts', () => {
      test('returns the number of accounts that changed', async () => {
        const store = (await makeStorage()).open();
        await put(store, ...accounts);
        const rewrite = (account: StoredAccount): StoredAccount =>
          account.id === 'off' ? account : { ...account, name: `New ${account.name}` };
        expect(await Array.fromAsync(store.changeAll(rewrite, event))).toMatchObject([{ accounts: 2 }]);
        expect((await all(store)).map(({ name }) => name)).toEqual(['New Empty', 'New Full', 'Off']);
      });

      test('changes nothing if one account cannot be rewritten', async () => {
        const store = (await makeStorage()).open();
        await put(store, ...accounts);
        const rewrite = (account: StoredAccount): StoredAccount => {
          if (account.id === 'off') throw new AccountsError('master_key_wrong', 'no');
          return { ...account, name: 'New' };
        };
        await expect(Array.fromAsync(store.changeAll(rewrite, event))).rejects.toMatchObject({
          code: 'master_key_wrong',
        });
        expect((await all(store)).map(({ name }) => name)).toEqual(['Empty', 'Full', 'Off']);
      });
    });
  });
}

function key(id: string, hash: string, more: Partial<StoredKey> = {}): StoredKey {
  return {
    id,
    prefix: 'sk_test_',
    hash,
    createdAt: at,
    name: 'Till "3": the last one',
    lastFour: '-_09',
    expiresAt: undefined,
    revokedAt: undefined,
    lastUsedAt: undefined,
    ...more,
  };
}

function credentials(text: string, more: Partial<StoredCredentials> = {}): StoredCredentials {
  return { key: text.repeat(32), iv: text.repeat(16), format: 'text', createdAt: at, ...more };
}

function accountOf(id: string): StoredAccount {
  return { id, name: `Account ${id}`, active: true, keys: [], encryption: {} };
}

/** Accounts with every member, and with every optional member absent. */
const full: StoredAccount = {
  id: 'full',
  name: 'Full',
  active: false,
  keys: [
    key('full-2', '2'.repeat(64)),
    key('full-1', '1'.repeat(64), { prefix: 'pk_live_', createdAt: at - 1, expiresAt: at + 1, revokedAt: at + 2 }),
  ],
  encryption: {
    test: {
      enabled: true,
      encoding: 'base64',
      credentials: credentials('t'),
      previous: { credentials: undefined, until: at + 3, lastUsedAt: undefined },
    },
    live: {
      enabled: true,
      encoding: 'hex',
      credentials: credentials('l', { createdAt: undefined }),
      previous: {
        credentials: {
          key: Buffer.alloc(32, 'p').toString('base64'),
          iv: Buffer.alloc(16, 'p').toString('base64'),
          format: 'base64',
          createdAt: undefined,
        },
        until: at + 4,
        lastUsedAt: undefined,
      },
    },
  },
};

const off: StoredAccount = {
  ...accountOf('off'),
  name: 'Off',
  encryption: { test: { enabled: false, encoding: 'base64', credentials: undefined, previous: undefined } },
};

const accounts: readonly StoredAccount[] = [full, { ...accountOf('empty'), name: 'Empty' }, off];

function all(store: Store, after?: string): Promise<StoredAccount[]> {
  return Array.fromAsync(store.list(after));
}

function ids(store: Store, after: string | undefined, selection: Selection): Promise<string[]> {
  return Array.fromAsync(store.list(after, undefined, selection), ({ id }) => id);
}

async function put(store: Store, ...written: readonly StoredAccount[]): Promise<void> {
  await store.change(
    written.map(({ id }) => id),
    () => ({ accounts: written, events: written.map(() => event), result: undefined }),
  );
}

function withKey(account: StoredAccount): StoredAccount {
  return issueKey(account, { environment: 'test', kind: 'secret', expiresAt: undefined }, at).account;
}

function issue(
  store: Store,
  id: string,
  once?: Parameters<Store['change']>[2],
): ReturnType<typeof store.change<string>> {
  return store.change(
    [id],
    (found) => ({
      accounts: [withKey(requireAccount(found.get(id), id))],
      events: [event],
      result: 'secret',
      receipt: '{"no":"secret"}',
    }),
    once,
  );
}

import { describe, expect, test } from 'vitest';
import type { AccountsErrorCode } from '../../src/accounts/accounts-error.ts';
import { unwrapAccount } from '../../src/accounts/unwrap-account.ts';
import { Operations, type OperationsOptions } from '../../src/accounts/operations.ts';
import type { Page } from '../../src/accounts/pages.ts';
import type { RemoteOperations } from '../../src/accounts/operations-rpc.ts';
import type { AuditEvent, Store } from '../../src/accounts/store.ts';
import { parseMasterKeys } from '../../src/accounts/master-key.ts';
import type { AuditEventView } from '../../src/accounts/views.ts';
import { Vault } from '../../src/accounts/vault.ts';
import type { Storage } from './store-suite.ts';
import { sha256Hex } from '../../src/cryptography.ts';

const start = Date.parse('2026-11-21T10:00:00Z');
const day = 86_400_000;
const request = { actor: 'user:alice' };
const once = { actor: 'token:dashboard', idempotencyKey: { key: 'k', request: 'r' } };
const usual = { encoding: undefined, grace: undefined, replace: false };
const secretKey = { environment: 'test', kind: 'secret', lifetime: undefined } as const;
const vault = new Vault(parseMasterKeys('00'.repeat(32)) ?? []);

/** Operations on a store, their audit events, and a clock that tests can move. */
interface Fixture {
  readonly operations: RemoteOperations;
  readonly store: Store;
  readonly trail: AuditEvent[];
  now: number;
}

/** A storage that may have operations of its own, which run elsewhere. */
interface OperatedStorage extends Storage {
  operations?(options: OperationsOptions): RemoteOperations;
}

/** Describes the operators' operations on accounts, for any kind of store. */
export function describeOperations(name: string, makeStorage: () => Promise<OperatedStorage>): void {
  async function open(): Promise<Fixture> {
    const storage = await makeStorage();
    const store = storage.open();
    const trail: AuditEvent[] = [];
    const audit = (event: AuditEvent): void => void trail.push(event);
    const options = { store, vault, clock: () => fixture.now, audit };
    const operations = storage.operations?.(options) ?? new Operations(options);
    const fixture: Fixture = { operations, store, trail, now: start };
    return fixture;
  }

  async function withAcme(): Promise<Fixture> {
    const fixture = await open();
    await fixture.operations.add('acme', 'Acme Stores', request);
    fixture.trail.length = 0;
    return fixture;
  }

  describe(`operations ${name}`, () => {
    test('the pages of the audit trail have each event once, newest first or oldest first, even after the clock was set back', async () => {
      const fixture = await withAcme();
      const names = ['1', '2', '3', '4', '5'];
      for (const [i, each] of names.entries()) {
        fixture.now = start + (i === 2 ? -3_600_000 : 1_000 * Math.floor(i / 2));
        await fixture.operations.rename('acme', each, request);
      }
      for (let size = 1; size <= names.length + 2; size += 1) {
        const read = async (begin: number, place: 'before' | 'after'): Promise<unknown[]> => {
          const seen: unknown[] = [];
          for (let from: number | null = begin; from !== null;) {
            const { items, next }: Page<AuditEventView, number> = await fixture.operations.eventsPage(size, {
              [place]: from,
            });
            expect(items.length).toBeLessThanOrEqual(size);
            seen.push(...items.map(({ details }) => details['name']));
            from = next;
          }
          return seen;
        };
        expect(await read(0, 'after')).toEqual(['Acme Stores', ...names]);
        expect(await read(1_000, 'before')).toEqual(['Acme Stores', ...names].toReversed());
      }
    });

    test('an account is added once, shown, listed, deactivated and activated', async () => {
      const { operations, trail } = await open();
      const acme = await operations.add('acme', 'Acme Stores', request);
      expect(acme).toMatchObject({ id: 'acme', name: 'Acme Stores', active: true, keys: [] });
      expect(acme.encryption.live).toEqual({
        account: 'acme',
        environment: 'live',
        enabled: false,
        encoding: 'hex',
        format: null,
        created_at: null,
        previous: null,
      });
      await refused(operations.add('acme', 'Other', request), 'account_exists');
      expect((await operations.setActive('acme', false, request)).active).toBe(false);
      expect((await operations.setActive('acme', false, request)).active).toBe(false);
      expect((await operations.show('acme')).active).toBe(false);
      expect((await operations.setActive('acme', true, request)).active).toBe(true);
      await operations.add('globex', 'Globex', request);
      const page = async (size: number, after?: string) => {
        const { items, next, unreadable } = await operations.listPage(size, { after });
        return [items.map(({ id }) => id), next, unreadable];
      };
      expect(await page(2)).toEqual([['acme', 'globex'], null, []]);
      expect(await page(1)).toEqual([['acme'], 'acme', []]);
      expect(await page(1, 'acme')).toEqual([['globex'], null, []]);
      expect(trail.map(({ action, account }) => [action, account])).toEqual([
        ['account_added', 'acme'],
        ['account_deactivated', 'acme'],
        ['account_activated', 'acme'],
        ['account_added', 'globex'],
      ]);
    });

    test('an account is removed once nothing can use it, and its events stay', async () => {
      const { operations, trail } = await open();
      await operations.add('acme', 'Acme', request);
      await operations.add('globex', 'Globex', request);
      const { id } = await operations.issueKey('acme', secretKey, request);
      await operations.enableEncryption('acme', 'test', usual, request);
      await refused(operations.remove('acme', request), 'account_in_use');
      await operations.setActive('acme', false, request);
      await refused(operations.remove('acme', request), 'account_in_use');
      await operations.revokeKey('acme', id, request);
      expect(await operations.remove('acme', request)).toMatchObject({ id: 'acme', active: false });
      await refused(operations.remove('acme', request), 'account_unknown');
      await refused(operations.show('acme'), 'account_unknown');
      expect(await operations.show('globex')).toMatchObject({ active: true });
      expect(trail.at(-1)).toMatchObject({ action: 'account_removed', account: 'acme', details: { name: 'Acme' } });
      expect((await operations.eventsPage(10, { account: 'acme' })).items).toHaveLength(6);
      expect((await operations.add('acme', 'Another', request)).keys).toEqual([]);
    });

    test('every operation refuses an unknown account', async () => {
      const { operations, trail } = await open();
      await Promise.all(
        [
          operations.show('acme'),
          operations.setActive('acme', true, request),
          operations.remove('acme', request),
          operations.issueKey('acme', secretKey, request),
          operations.rotateKey('acme', 'key', 0, request),
          operations.revokeKey('acme', 'key', request),
          operations.enableEncryption('acme', 'test', usual, request),
          operations.disableEncryption('acme', 'test', undefined, request),
          operations.showEncryption('acme', 'test'),
        ].map((operation) => refused(operation, 'account_unknown')),
      );
      expect(trail).toEqual([]);
    });

    test('a key is shown when it is issued, and never again', async () => {
      const { operations, store, trail } = await withAcme();
      const { key = '', ...issued } = await operations.issueKey('acme', { ...secretKey, lifetime: day }, request);
      expect(issued).toEqual({
        id: issued.id,
        account: 'acme',
        name: null,
        hint: `sk_test_…${key.slice(-4)}`,
        environment: 'test',
        kind: 'secret',
        state: 'valid',
        created_at: '2026-11-21T10:00:00Z',
        expires_at: '2026-11-22T10:00:00Z',
        revoked_at: null,
        ...neverUsed(store),
        warnings: ['expiring'],
        secret_shown: true,
      });
      expect((await store.read('acme'))?.keys[0]?.hash).toBe(sha256Hex(key));
      const { secret_shown: _, ...view } = issued;
      expect((await operations.show('acme')).keys).toEqual([view]);
      expect(trail).toMatchObject([
        {
          at: start,
          actor: 'user:alice',
          action: 'key_issued',
          account: 'acme',
          details: { key: issued.id, environment: 'test', kind: 'secret' },
        },
      ]);
      expect(JSON.stringify(trail)).not.toContain(key);
    });

    test('a key is rotated with an overlap, and expires when it ends', async () => {
      const fixture = await withAcme();
      const { operations, trail } = fixture;
      const old = await operations.issueKey('acme', secretKey, request);
      fixture.now += 1_500;
      const rotated = await operations.rotateKey('acme', old.id, day, request);
      expect(rotated.replaces).toEqual({ id: old.id, expires_at: '2026-11-22T10:00:01Z' });
      expect(rotated.key).toMatch(/^sk_test_/);
      const states = async (): Promise<string[]> => (await operations.show('acme')).keys.map(({ state }) => state);
      fixture.now = start + day + 999;
      expect(await states()).toEqual(['valid', 'valid']);
      fixture.now = start + day + 1_000;
      expect(await states()).toEqual(['expired', 'valid']);
      await refused(operations.rotateKey('acme', old.id, 0, request), 'key_expired');
      expect(trail.at(-1)).toMatchObject({ action: 'key_rotated', details: { key: rotated.id, replaces: old.id } });
    });

    test('a key is revoked once', async () => {
      const { operations } = await withAcme();
      const { id } = await operations.issueKey('acme', secretKey, request);
      await refused(operations.revokeKey('acme', 'other', request), 'key_unknown');
      expect(await operations.revokeKey('acme', id, request)).toMatchObject({
        state: 'revoked',
        revoked_at: '2026-11-21T10:00:00Z',
      });
      await refused(operations.revokeKey('acme', id, request), 'key_revoked');
      await refused(operations.rotateKey('acme', id, 0, request), 'key_revoked');
    });

    test('a key revoked by a clock that is ahead is revoked for all clocks', async () => {
      const fixture = await withAcme();
      const { id } = await fixture.operations.issueKey('acme', secretKey, request);
      fixture.now += 120_000;
      await fixture.operations.revokeKey('acme', id, request);
      fixture.now = start;
      expect((await fixture.operations.show('acme')).keys).toMatchObject([{ id, state: 'revoked' }]);
      await refused(fixture.operations.rotateKey('acme', id, 0, request), 'key_revoked');
    });

    test('encryption cannot be replaced during a grace, so that the previous credentials stay accepted', async () => {
      const fixture = await withAcme();
      const { operations, store } = fixture;
      const graceful = { ...usual, grace: day, replace: true };
      await operations.enableEncryption('acme', 'test', usual, request);
      await operations.enableEncryption('acme', 'live', { ...usual, grace: day }, request);
      await operations.enableEncryption('acme', 'test', graceful, request);
      const before = await store.read('acme');
      fixture.now = start + day - 1_000;
      await refused(operations.enableEncryption('acme', 'test', graceful, request), 'grace_running');
      await refused(operations.enableEncryption('acme', 'live', graceful, request), 'grace_running');
      expect(await store.read('acme')).toEqual(before);
      fixture.now = start + day;
      const later = await operations.enableEncryption('acme', 'test', graceful, request);
      expect(later.previous).toMatchObject({ accepts: 'credentials' });
      const atOnce = await operations.enableEncryption('acme', 'test', { ...usual, replace: true }, request);
      expect(atOnce.previous).toBeNull();
    });

    test('encryption is enabled, replaced with a grace, and disabled', async () => {
      const fixture = await withAcme();
      const { operations, store, trail } = fixture;
      const first = await operations.enableEncryption('acme', 'test', { ...usual, encoding: 'base64' }, request);
      expect(first).toMatchObject({ enabled: true, encoding: 'base64', format: 'text', previous: null });
      await refused(operations.enableEncryption('acme', 'test', usual, request), 'encryption_enabled');

      const again = { ...usual, grace: day, replace: true };
      const second = await operations.enableEncryption('acme', 'test', again, request);
      expect(second.previous).toEqual({
        accepts: 'credentials',
        until: '2026-11-22T10:00:00Z',
        ...neverUsed(store),
      });
      expect(second.key).not.toBe(first.key);
      const stored = await store.read('acme');
      expect(JSON.stringify(stored)).not.toContain(first.key);
      expect(JSON.stringify(stored)).not.toContain(second.key);
      const place = { account: 'acme', environment: 'test', member: 'key' } as const;
      const { credentials, previous } = stored?.encryption.test ?? {};
      expect(vault.unwrap(credentials?.key ?? '', place)).toBe(second.key);
      expect(vault.unwrap(previous?.credentials?.key ?? '', place)).toBe(first.key);

      fixture.now = start + day;
      expect((await operations.showEncryption('acme', 'test')).previous).toBeNull();
      expect(await operations.disableEncryption('acme', 'test', undefined, request)).toMatchObject({
        enabled: false,
        encoding: 'base64',
        created_at: null,
      });
      await refused(operations.disableEncryption('acme', 'test', undefined, request), 'encryption_disabled');
      await refused(operations.disableEncryption('acme', 'live', undefined, request), 'encryption_disabled');
      const moving = await operations.enableEncryption('acme', 'test', { ...usual, grace: day }, request);
      expect(moving.previous).toMatchObject({ accepts: 'plaintext' });
      expect(trail.map(({ action, details }) => [action, details])).toEqual([
        ['encryption_enabled', { environment: 'test', replaced: false }],
        ['encryption_enabled', { environment: 'test', replaced: true, grace_until: '2026-11-22T10:00:00Z' }],
        ['encryption_disabled', { environment: 'test' }],
        ['encryption_enabled', { environment: 'test', replaced: false, grace_until: '2026-11-23T10:00:00Z' }],
      ]);
    });

    test('encryption is disabled with a grace, which is shown and stored with the account', async () => {
      const fixture = await withAcme();
      const { operations, store, trail } = fixture;
      const { key } = await operations.enableEncryption('acme', 'test', { ...usual, encoding: 'base64' }, request);
      const until = '2026-11-22T10:00:00Z';
      const ending = { enabled: false, created_at: null, previous: { accepts: 'credentials', until } };
      expect(await operations.disableEncryption('acme', 'test', day, request)).toMatchObject(ending);
      expect(await operations.showEncryption('acme', 'test')).toMatchObject(ending);
      const stored = await store.read('acme');
      const { enabled, credentials, previous } = stored?.encryption.test ?? {};
      const place = { account: 'acme', environment: 'test', member: 'key' } as const;
      expect([enabled, credentials]).toEqual([false, undefined]);
      expect(vault.unwrap(previous?.credentials?.key ?? '', place)).toBe(key);
      const opened = stored && unwrapAccount(stored, vault).encryption.test;
      expect(opened).toMatchObject({ type: 'ending', until: start + day });
      expect(opened?.type === 'ending' && opened.previous.pack().encoding).toBe('base64');
      expect(trail.at(-1)).toMatchObject({
        action: 'encryption_disabled',
        details: { environment: 'test', grace_until: until },
      });
      fixture.now = start + day;
      expect((await operations.showEncryption('acme', 'test')).previous).toBeNull();
    });

    test('a repeated request changes nothing, and its response lacks the secret', async () => {
      const { operations, trail } = await withAcme();
      const { key, ...issued } = await operations.issueKey('acme', secretKey, once);
      expect(key).toBeDefined();
      expect(await operations.issueKey('acme', secretKey, once)).toEqual({ ...issued, secret_shown: false });
      const other = { ...once, idempotencyKey: { key: 'k2', request: 'r' } };
      const { key: aes, iv, ...enabled } = await operations.enableEncryption('acme', 'live', usual, other);
      expect([aes, iv]).not.toContain(undefined);
      expect(await operations.enableEncryption('acme', 'live', usual, other)).toEqual({
        ...enabled,
        secret_shown: false,
      });
      expect((await operations.show('acme')).keys).toHaveLength(1);
      expect(trail).toHaveLength(2);
    });

    test('a rekey wraps all credentials with the new master key', async () => {
      const { operations, store, trail } = await withAcme();
      await operations.add('globex', 'Globex', request);
      const { key } = await operations.enableEncryption('acme', 'live', usual, request);
      const other = new Vault(parseMasterKeys('11'.repeat(32)) ?? []);
      const both = new Vault(parseMasterKeys(`${'00'.repeat(32)}\n${'11'.repeat(32)}`) ?? []);
      const before = await store.read('acme');
      const unknowing = new Operations({ store, vault, clock: () => start, audit: (event) => trail.push(event) });
      await refused(unknowing.rekey(other, request), 'master_key_not_configured');
      expect(await store.read('acme')).toEqual(before);
      const knowing = new Operations({ store, vault: both, clock: () => start, audit: (event) => trail.push(event) });
      expect(await knowing.rekey(other, request)).toBe(1);
      const after = await store.read('acme');
      expect(await knowing.rekey(other, request)).toBe(0);
      expect(await store.read('acme')).toEqual(after);
      // Create credentials with the old key, as another sidecar may do. An interrupted rekey leaves such credentials, too.
      await operations.enableEncryption('globex', 'test', usual, request);
      expect(await knowing.rekey(other, request)).toBe(1);
      expect(await store.read('acme')).toEqual(after);
      trail.pop();
      trail.pop();
      trail.pop();
      const sealed = (await store.read('acme'))?.encryption.live?.credentials?.key ?? '';
      expect(other.unwrap(sealed, { account: 'acme', environment: 'live', member: 'key' })).toBe(key);
      expect(trail.at(-1)).toMatchObject({
        action: 'master_key_changed',
        account: undefined,
        details: { accounts: 1, kcv: 'fe1b058031', replaces_kcv: '9211053c55' },
      });
    });
  });
}

/** The member that shows that something was never used, if the store records uses. */
function neverUsed({ recordsUse }: Store): object {
  return recordsUse ? { last_used_at: null } : {};
}

async function refused(operation: Promise<unknown>, code: AccountsErrorCode): Promise<void> {
  await expect(operation).rejects.toMatchObject({ code });
}

import { createSecretKey } from 'node:crypto';
import { setTimeout as sleep } from 'node:timers/promises';
import { Client } from 'pg';
import { onTestFinished } from 'vitest';
import { readPrefix, type EnvironmentName } from '../../../src/accounts/api-key.ts';
import type { Difference } from '../../../src/accounts/differences.ts';
import { PostgresDirectory, type PostgresDirectoryOptions } from '../../../src/accounts/postgres/directory.ts';
import type { PostgresSettings } from '../../../src/accounts/postgres/accounts.ts';
import type { LookupOutcome, Monitor } from '../../../src/accounts/postgres/monitor.ts';
import { PostgresStore } from '../../../src/accounts/postgres/store.ts';
import type {
  AuditEvent,
  RewriteAccount,
  Store,
  StoredAccount,
  StoredEncryption,
  StoredKey,
} from '../../../src/accounts/store.ts';
import { createMasterKey } from '../../../src/accounts/master-key.ts';
import { Vault } from '../../../src/accounts/vault.ts';
import { sha256Hex } from '../../../src/cryptography.ts';
import { eventually } from '../../support/eventually.ts';
import type { TestPostgres } from '../../support/postgres.ts';

export const masterKey = createMasterKey(createSecretKey(Buffer.alloc(32, 7)));
export const vault = new Vault([masterKey]);

/** The settings of a sidecar whose accounts are in a database. */
export function settings(
  url: string,
  more: Partial<PostgresSettings> = {},
): PostgresSettings & { readonly type: 'postgres' } {
  return { type: 'postgres', url, masterKeys: [masterKey], auditKeys: [], cache: 100, staleFor: 900_000, ...more };
}

/** Locks the row of an account, until the returned function is called or the test is over. */
export async function lockAccount(url: string, id: string): Promise<() => Promise<void>> {
  const holder = new Client({ connectionString: url });
  await holder.connect();
  onTestFinished(() => holder.end());
  await holder.query('BEGIN');
  await holder.query('SELECT FROM envelope_sidecar.accounts WHERE account_id = $1 FOR UPDATE', [id]);
  return async () => void (await holder.query('COMMIT'));
}

/** A secret key that differs from others only in its name. */
export function keyNamed(name: string): string {
  return `sk_test_${name}${'x'.repeat(Math.max(0, 32 - name.length))}`;
}

export function storedKey(key: string, more: Partial<StoredKey> = {}): StoredKey {
  return {
    id: `id-${key.slice(8, 24)}`,
    prefix: readPrefix(key),
    hash: sha256Hex(key),
    name: 'Till 3',
    lastFour: key.slice(-4),
    createdAt: Date.parse('2026-11-01T00:00:00.123Z'),
    expiresAt: undefined,
    revokedAt: undefined,
    lastUsedAt: undefined,
    ...more,
  };
}

/** Encryption with credentials that belong to this account. */
export function storedEncryption(
  account: string,
  environment: EnvironmentName,
  more: Partial<StoredEncryption & { readonly enabled: true }> = {},
): StoredEncryption & { readonly enabled: true } {
  const seal = (text: string, member: 'key' | 'iv'): string => vault.wrap(text, { account, environment, member });
  return {
    enabled: true,
    encoding: 'hex',
    credentials: {
      key: seal(`${account}-${environment}`.padEnd(32, 'k'), 'key'),
      iv: seal('0123456789abcdef', 'iv'),
      format: 'text',
      createdAt: undefined,
    },
    previous: undefined,
    ...more,
  };
}

/** An account with one key, which is derived from the id. */
export function storedAccount(id: string, more: Partial<StoredAccount> = {}): StoredAccount {
  return { id, name: `Account ${id}`, active: true, keys: [storedKey(keyNamed(id))], encryption: {}, ...more };
}

/** Changes all accounts; returns the number of changed ones. */
export async function changeAll(store: Store, rewrite: RewriteAccount, event: AuditEvent): Promise<number> {
  let count = 0;
  for await (const { accounts } of store.changeAll(rewrite, event)) count += accounts;
  return count;
}

/** Writes accounts without changing them. */
export async function put(store: Store, ...accounts: readonly StoredAccount[]): Promise<void> {
  await store.change(
    accounts.map(({ id }) => id),
    () => ({ accounts, events: [], result: undefined }),
  );
}

export function openStore(url: string): PostgresStore {
  const store = new PostgresStore(url);
  onTestFinished(() => store.close());
  return store;
}

/** Records the events of a directory in order. */
export interface TestMonitor extends Monitor {
  readonly lookups: LookupOutcome[];
  readonly events: ('connected' | 'disconnected')[];
  /** The reason for the disconnection. */
  readonly reasons: string[];
  readonly failures: string[];
  readonly changes: Difference[];
  queries: number;
  /** The number of changes that the database has lost. */
  lostChanges: number;
}

export interface TestDirectory {
  readonly directory: PostgresDirectory;
  readonly monitor: TestMonitor;
}

/** Opens a directory, which is closed after the test. */
export async function openDirectory(url: string, more: Partial<PostgresDirectoryOptions> = {}): Promise<TestDirectory> {
  const monitor: TestMonitor = {
    lookups: [],
    events: [],
    reasons: [],
    failures: [],
    changes: [],
    queries: 0,
    lostChanges: 0,
    lost: (changes) => void (monitor.lostChanges += changes),
    lookup: (outcome) => void monitor.lookups.push(outcome),
    query: () => {
      monitor.queries += 1;
      return () => {};
    },
    connected: () => void monitor.events.push('connected'),
    disconnected: ({ message }) => {
      monitor.events.push('disconnected');
      monitor.reasons.push(message);
    },
    changed: (differences) => void monitor.changes.push(...differences),
    failed: (error) => void monitor.failures.push(error instanceof Error ? error.message : 'not an error'),
  };
  const directory = new PostgresDirectory({
    url,
    vault,
    cache: 100,
    staleFor: 60_000,
    uses: { key: () => {}, previous: () => {} },
    monotonic: () => performance.now(),
    monitor,
    heard: () => {},
    ...more,
  });
  onTestFinished(() => directory.close());
  await directory.open();
  return { directory, monitor };
}

/**
 * Slows searches down. After `sql` has been run in a database, `ILIKE` takes half a minute for stores whose URL has `option`. After `end`
 * has been run, it takes no time.
 */
export const slowSearches = {
  sql: `CREATE SCHEMA slow;
    CREATE FUNCTION slow.ilike(text, text) RETURNS boolean LANGUAGE sql AS 'SELECT pg_sleep(30) IS NULL';
    CREATE OPERATOR slow.~~* (LEFTARG = text, RIGHTARG = text, FUNCTION = slow.ilike)`,
  end: `CREATE OR REPLACE FUNCTION slow.ilike(text, text) RETURNS boolean LANGUAGE sql AS 'SELECT false';
    SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE wait_event = 'PgSleep'`,
  option: `&options=${encodeURIComponent('-c search_path=slow,pg_catalog')}`,
} as const;

/**
 * Makes commits wait for a standby that does not exist, until the test is over or the returned function is called. Commits wait as soon as
 * the checkpointer has read the setting, and only a waiting commit shows that it has.
 */
export async function holdCommits({ psql }: Pick<TestPostgres, 'psql'>, url: string): Promise<() => Promise<void>> {
  const configure = async (change: string): Promise<void> => {
    await psql(url, `ALTER SYSTEM ${change}`);
    await psql(url, 'SELECT pg_reload_conf()');
  };
  const release = (): Promise<void> => configure('RESET synchronous_standby_names');
  onTestFinished(release);
  await configure(`SET synchronous_standby_names = 'absent'`);
  let probes = 0;
  await eventually('a commit waits', async () => {
    probes += 1;
    psql(url, `SET synchronous_commit = on; CREATE TABLE probe${probes} ()`).catch(() => {});
    await sleep(200);
    const waiting = `SELECT count(*) FROM pg_stat_activity WHERE query LIKE '%probe${probes} ()' AND wait_event = 'SyncRep'`;
    return (await psql(url, waiting)) === '1';
  });
  return release;
}

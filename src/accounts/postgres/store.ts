import { isDeepStrictEqual } from 'node:util';
import type { Line } from '../../audit/lines.ts';
import type { DailyUses } from '../accounts.ts';
import type { TrailOptions } from '../events.ts';
import { AccountsError } from '../accounts-error.ts';
import { refuseReuse } from '../changes.ts';
import { selectEvents } from '../event-filter.ts';
import { endList, maxKeysRead } from '../store.ts';
import type {
  AppendedEvent,
  AuditEvent,
  ChangeResult,
  Decide,
  Decision,
  EventFilter,
  Hints,
  IdempotencyKey,
  RecordedEvent,
  RewriteAccount,
  RewriteResult,
  Selection,
  Store,
  StoredAccount,
  Unreadable,
} from '../store.ts';
import { OneAtATime } from '../../fair-queue.ts';
import { BatchLoader } from './batch-loader.ts';
import { BlockedChanges } from './blocked-changes.ts';
import { urgentLockTimeout } from './clients.ts';
import { DailyUseReader } from './daily-uses.ts';
import { pages } from './pages.ts';
import { Pools, purposeOf, whenBlocked, type Purpose } from './pools.ts';
import { olderWriters } from './rights.ts';
import {
  accountIfReadable,
  toAccount,
  selectAccounts,
  selectKeysFrom,
  selectWithoutKeys,
  readVersions,
  type AccountRow,
} from './rows.ts';
import { chainOlder, isRecorded, olderLines, pauseFor, record, trailLines } from './trail.ts';
import { Announcing, query, transaction, type Query, type Work } from './transaction.ts';
import { removeUnreadKeys, writeAccounts, type Versions } from './write.ts';
import type { EpochMs } from '../../times.ts';

/** Accounts in PostgreSQL; see migrations/ for the tables. */
export class PostgresStore implements Store {
  readonly recordsUse = true;
  /** This number is small, because one transaction locks all of these accounts. */
  readonly changedAtOnce = 50;
  readonly #trail: TrailOptions;
  readonly #announcing = new Announcing();
  readonly #pools: Pools;
  readonly #blocked = new BlockedChanges();
  /** Changes that accounts' tokens ask for take turns here before they compete for the trail's next position, unless they are urgent. */
  readonly #accountsTrail = new OneAtATime();
  /** Queries on the trail may take a long time. They run one at a time, so that they leave connections for other work. */
  readonly #trailTurns = new OneAtATime();
  /** Queries for daily uses also run one at a time, to leave connections for other work. */
  readonly #useTurns = new OneAtATime();
  readonly #uses = new DailyUseReader();
  readonly #withoutKeys = new BatchLoader(async (ids) => {
    const rows = await this.#query('seals')<AccountRow>(`${selectWithoutKeys} WHERE a.account_id = ANY($1)`, [ids]);
    return new Map(rows.map((row) => [row.account_id, row]));
  }, 1);
  /** Transactions in progress. */
  readonly #open = new Set<Promise<unknown>>();

  /** @param url `postgres://…`; connections are opened on demand */
  constructor(url: string, trail: TrailOptions = {}) {
    this.#pools = new Pools(url);
    this.#trail = trail;
  }

  async read(id: string, { key = '', ...hints }: Hints = {}): Promise<StoredAccount | undefined> {
    const select = selectAccounts({ limit: maxKeysRead, named: 'k.key_id = $2' });
    const rows = await this.#query(purposeOf(hints))<AccountRow>(`${select} WHERE a.account_id = $1`, [id, key]);
    return rows.map(toAccount)[0];
  }

  /** An account without its keys. Calls share queries, so each call waits for at most two queries. */
  async readWithoutKeys(id: string): Promise<StoredAccount | undefined> {
    // The result of a query in progress is not used, because the query may have begun before a change that precedes this call.
    this.#withoutKeys.invalidate();
    return this.#withoutKeys.load(id).then((row) => row && toAccount(row));
  }

  async readKeys(id: string, limit: number, from: string | undefined): Promise<StoredAccount | undefined> {
    const run = this.#query('single');
    const rows = await run<AccountRow>(`${selectKeysFrom} WHERE a.account_id = $1`, [id, from ?? null, limit]);
    return rows.map(toAccount)[0];
  }

  async findByKey(hash: string): Promise<StoredAccount | undefined> {
    const rows = await this.#query('single')<AccountRow>(
      `${selectAccounts({ limit: maxKeysRead, named: 'k.hash = $1' })} WHERE a.account_id = (SELECT account_id FROM envelope_sidecar.api_keys WHERE hash = $1)`,
      [Buffer.from(hash, 'hex')],
    );
    return rows.map(toAccount)[0];
  }

  async dailyUses(owner: string, keys: readonly string[], now: EpochMs): Promise<DailyUses> {
    return this.#uses.read(this.#queryInTurn(this.#useTurns, owner), keys, now);
  }

  async *list(after = '', unreadable = endList, selection?: Selection): AsyncIterable<StoredAccount> {
    for await (const rows of pages(this.#query('bulk'), after, selection)) {
      for (const row of rows) {
        const account = accountIfReadable(row, unreadable);
        if (account !== undefined) yield account;
      }
    }
  }

  async change<T>(
    ids: readonly string[],
    decide: Decide<T>,
    idempotencyKey?: IdempotencyKey,
    { key, ...hints }: Hints = {},
  ): Promise<ChangeResult<T>> {
    const purpose = ids.length > 1 ? 'bulk' : purposeOf(hints);
    return this.#transaction<{ readonly repeated: string } | Decision<T>, ChangeResult<T>>(
      purpose,
      {
        run: async (run) => {
          const repeated = idempotencyKey === undefined ? undefined : await claim(run, idempotencyKey);
          if (repeated !== undefined) return { repeated };

          const { existing, versions } = await lockAccounts(run, ids, key);
          const decision = decide(existing);

          const { removed = [] } = decision;
          const written = new Set([...decision.accounts.map(({ id }) => id), ...removed]);
          const before = [...existing.values()].filter(({ id }) => written.has(id));
          if (removed.length > 0) await removeUnreadKeys(run, removed, before);
          await writeAccounts(run, before, decision.accounts, versions);
          if (idempotencyKey !== undefined) {
            await run('UPDATE envelope_sidecar.receipts SET receipt = $2 WHERE idempotency_key = $1', [
              idempotencyKey.key,
              decision.receipt,
            ]);
          }
          return decision;
        },
        finish: async (run, made) => {
          if ('repeated' in made) return { outcome: 'repeated', receipt: made.repeated };
          const { result, events, check } = made;
          const write = async (): Promise<readonly AppendedEvent[]> =>
            record(run, events, this.#trail, pauseFor(hints));
          const waits = hints.ofAccount === true && hints.urgent !== true;
          const appended = await (waits ? this.#accountsTrail.run(ids[0] ?? '', write) : write());
          check?.();
          return { outcome: 'changed', result, appended };
        },
        isStored: async (run, made) => made.outcome === 'repeated' || isRecorded(run, made.appended),
      },
      ids[0],
    );
  }

  async *changeAll(rewrite: RewriteAccount, event: AuditEvent): AsyncIterable<RewriteResult> {
    // `rewrite` is called for all accounts before anything is written, so that nothing is changed if one account cannot be rewritten.
    for await (const account of this.list()) rewrite(account);
    let isRecorded = false;
    for await (const rows of pages(this.#query('bulk'))) {
      const due = rows.map(toAccount).filter((account) => isChangedBy(rewrite, account));
      for (let i = 0; i < due.length; i += this.changedAtOnce) {
        const ids = due.slice(i, i + this.changedAtOnce).map(({ id }) => id);
        yield this.#rewrite(ids, rewrite, event);
        isRecorded = true;
      }
    }
    if (!isRecorded) yield this.#rewrite([], rewrite, event);
  }

  events(filter: EventFilter, unreadable?: Unreadable): AsyncIterable<RecordedEvent> {
    const run = this.#queryInTurn(this.#trailTurns, filter.account ?? '');
    return selectEvents(trailLines(run, filter), filter, unreadable);
  }

  async *trail(after = 0): AsyncIterable<Line> {
    yield* trailLines(this.#query('bulk'), { after });
    yield* olderLines(this.#query('bulk'));
  }

  /** See `chainOlder` in trail.ts. */
  chainOlder(begun: AuditEvent): Promise<readonly AppendedEvent[]> {
    return chainOlder(this.#query('bulk'), begun, this.#trail);
  }

  /** See `olderWriters` in rights.ts. */
  olderWriters(): Promise<readonly string[]> {
    return olderWriters(this.#query('bulk'));
  }

  async close(): Promise<void> {
    // The pools stay open until all transactions have ended, because a transaction that waits for a locked row holds no connection in the
    // meantime and will need one again.
    while (this.#open.size > 0) await Promise.allSettled(this.#open);
    await this.#pools.end();
  }

  /** Rewrites the current versions of a few accounts, and records an event with the number of changed accounts. */
  #rewrite(ids: readonly string[], rewrite: RewriteAccount, event: AuditEvent): Promise<RewriteResult> {
    return this.#transaction<number, RewriteResult>('bulk', {
      run: async (run) => {
        const { existing, versions } = await lockAccounts(run, ids);
        const before = [...existing.values()];
        const after = before.map(rewrite);
        await writeAccounts(run, before, after, versions);
        return after.filter((account, i) => !isDeepStrictEqual(account, before[i])).length;
      },
      finish: async (run, accounts) => {
        const counted = { ...event, details: { ...event.details, accounts } };
        return { accounts, appended: await record(run, [counted], this.#trail) };
      },
      isStored: async (run, { appended }) => isRecorded(run, appended),
    });
  }

  async #transaction<Made, Result>(purpose: Purpose, work: Work<Made, Result>, account = ''): Promise<Result> {
    const made = this.#attempt(purpose, work, account);
    const over = made.finally(() => this.#open.delete(over));
    this.#open.add(over);
    return over;
  }

  async #attempt<Made, Result>(purpose: Purpose, work: Work<Made, Result>, account: string): Promise<Result> {
    const pool = await this.#pools.of(purpose);
    const blocked = whenBlocked(purpose);
    if (blocked === undefined) return transaction(pool, work, this.#announcing);
    try {
      return await transaction(pool, work, this.#announcing, { lockTimeout: urgentLockTimeout, mayRetry: () => false });
    } catch (error) {
      if (!(error instanceof AccountsError && error.code === 'store_locked')) throw error;
      const other = await this.#pools.of(blocked);
      return this.#blocked.run(`${blocked} ${account}`, (mayRetry) =>
        transaction(other, work, this.#announcing, { mayRetry }),
      );
    }
  }

  #query(purpose: Purpose): Query {
    return async (text, values) => query(await this.#pools.of(purpose), text, values);
  }

  #queryInTurn(turns: OneAtATime, owner: string): Query {
    return (text, values) => turns.run(owner, () => this.#query('bulk')(text, values));
  }
}

function isChangedBy(rewrite: RewriteAccount, account: StoredAccount): boolean {
  return !isDeepStrictEqual(rewrite(account), account);
}

interface LockedAccounts {
  readonly existing: ReadonlyMap<string, StoredAccount>;
  readonly versions: Versions;
}

/**
 * Locks accounts against other changes and reads them. The lock covers only rows of the accounts table and does not conflict with the locks
 * that foreign keys take, so a role that may only record uses cannot delay it.
 */
async function lockAccounts(run: Query, ids: readonly string[], key = ''): Promise<LockedAccounts> {
  // The accounts are read by a separate statement, which sees changes that were committed while the first statement waited for the lock.
  // Rows are locked in order of their ids, to avoid deadlocks.
  await run('SELECT FROM envelope_sidecar.accounts WHERE account_id = ANY($1) ORDER BY account_id FOR NO KEY UPDATE', [
    ids,
  ]);
  const select = selectAccounts({ limit: maxKeysRead, named: 'k.key_id = $2' });
  const rows = await run<AccountRow>(`${select} WHERE a.account_id = ANY($1)`, [ids, key]);
  return { existing: new Map(rows.map((row) => [row.account_id, toAccount(row)])), versions: readVersions(rows) };
}

/**
 * Claims an idempotency key for this transaction; returns undefined if the key was free, otherwise its receipt. Waits if another
 * transaction is claiming the same key.
 */
async function claim(run: Query, idempotencyKey: IdempotencyKey): Promise<string | undefined> {
  await run(
    `DELETE FROM envelope_sidecar.receipts WHERE idempotency_key IN (
      SELECT idempotency_key FROM envelope_sidecar.receipts WHERE made_at < now() - interval '48 hours'
      LIMIT 100 FOR UPDATE SKIP LOCKED)`,
  );
  const claimed = await run(
    `INSERT INTO envelope_sidecar.receipts (idempotency_key, request) VALUES ($1, $2)
      ON CONFLICT DO NOTHING RETURNING idempotency_key`,
    [idempotencyKey.key, idempotencyKey.request],
  );
  if (claimed.length > 0) return undefined;
  const [made] = await run<{ request: string; receipt: string | null }>(
    'SELECT request, receipt FROM envelope_sidecar.receipts WHERE idempotency_key = $1',
    [idempotencyKey.key],
  );
  refuseReuse(idempotencyKey, made?.request);
  return made?.receipt ?? '';
}

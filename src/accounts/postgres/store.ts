import type { Pool } from 'pg';
import type { EnvironmentName } from '../api-key.ts';
import { refuseReuse } from '../changes.ts';
import { endList } from '../store.ts';
import type {
  AuditEvent,
  Changed,
  Decide,
  EventFilter,
  IdempotencyKey,
  RecordedEvent,
  Selection,
  Store,
  StoredAccount,
  Unreadable,
} from '../store.ts';
import { changePool } from './clients.ts';
import { conditionsOf } from './conditions.ts';
import { accountIfReadable, accountOf, selectAccounts, type AccountRow } from './rows.ts';
import { readTrail, record } from './trail.ts';
import { query, transaction, type Query } from './transaction.ts';
import { writeAccounts } from './write.ts';

/** Accounts in one query when all are read. */
const page = 500;

/** The most connections of one process. Changes are rare, so others wait. */
const poolSize = 4;

/** Accounts in PostgreSQL, see migrations/ for the tables. */
export class PostgresStore implements Store {
  readonly recordsUse = true;
  readonly #url: string;
  #pool: Promise<Pool> | undefined;

  /** @param url `postgres://…`; connections are opened on demand */
  constructor(url: string) {
    this.#url = url;
  }

  async read(id: string): Promise<StoredAccount | undefined> {
    const rows = await this.#query<AccountRow>(`${selectAccounts} WHERE a.account_id = $1`, [id]);
    return rows.map(accountOf)[0];
  }

  async findByKey(hash: string): Promise<StoredAccount | undefined> {
    const rows = await this.#query<AccountRow>(
      `${selectAccounts} WHERE a.account_id = (SELECT account_id FROM envelope_sidecar.api_keys WHERE hash = $1)`,
      [Buffer.from(hash, 'hex')],
    );
    return rows.map(accountOf)[0];
  }

  async lastUnexpectedEnvelope(account: string, environment: EnvironmentName): Promise<number | undefined> {
    const rows = await this.#query<{ at: number }>(
      `SELECT (extract(epoch FROM seen_at) * 1000)::float8 AS at FROM envelope_sidecar.unexpected_envelopes
        WHERE account_id = $1 AND environment = $2 AND isfinite(seen_at)`,
      [account, environment],
    );
    return rows.map(({ at }) => Math.round(at))[0];
  }

  async *list(after = '', unreadable = endList, selection?: Selection): AsyncIterable<StoredAccount> {
    for await (const rows of pages(this.#query, after, selection)) {
      for (const row of rows) {
        const account = accountIfReadable(row, unreadable);
        if (account !== undefined) yield account;
      }
    }
  }

  async change<T>(ids: readonly string[], decide: Decide<T>, idempotencyKey?: IdempotencyKey): Promise<Changed<T>> {
    return transaction(await this.#connections(), async (run) => {
      const receipt = idempotencyKey === undefined ? undefined : await claim(run, idempotencyKey);
      if (receipt !== undefined) return { outcome: 'repeated', receipt };

      // Locks first, then reads in a separate statement, which sees changes that were committed while it waited for the
      // lock. Locks in the order of ids, to avoid deadlocks.
      await run('SELECT FROM envelope_sidecar.accounts WHERE account_id = ANY($1) ORDER BY account_id FOR UPDATE', [
        ids,
      ]);
      const rows = await run<AccountRow>(`${selectAccounts} WHERE a.account_id = ANY($1)`, [ids]);
      const existing = new Map(rows.map((row) => [row.account_id, accountOf(row)]));
      const decision = decide(existing);

      const written = new Set(decision.accounts.map(({ id }) => id));
      const before = [...existing.values()].filter(({ id }) => written.has(id));
      await writeAccounts(run, before, decision.accounts);
      await record(run, decision.events);
      if (idempotencyKey !== undefined) {
        await run('UPDATE envelope_sidecar.receipts SET receipt = $2 WHERE idempotency_key = $1', [
          idempotencyKey.key,
          decision.receipt,
        ]);
      }
      return { outcome: 'changed', result: decision.result };
    });
  }

  async changeAll(rewrite: (account: StoredAccount) => StoredAccount, event: AuditEvent): Promise<number> {
    return transaction(await this.#connections(), async (run) => {
      // Blocks changes but not reads: a change must not be decided on accounts that are about to be replaced.
      await run('LOCK TABLE envelope_sidecar.accounts IN EXCLUSIVE MODE');
      let different = 0;
      for await (const rows of pages(run)) {
        const before = rows.map(accountOf);
        const after = before.map(rewrite);
        await writeAccounts(run, before, after);
        different += after.filter((account, i) => JSON.stringify(account) !== JSON.stringify(before[i])).length;
      }
      await record(run, [{ ...event, details: { ...event.details, accounts: different } }]);
      return different;
    });
  }

  async *events(filter: EventFilter, unreadable?: Unreadable): AsyncIterable<RecordedEvent> {
    yield* readTrail(this.#query, filter, unreadable);
  }

  async close(): Promise<void> {
    await (await this.#pool)?.end();
  }

  readonly #query: Query = async (text, values) => query(await this.#connections(), text, values);

  #connections(): Promise<Pool> {
    this.#pool ??= changePool(this.#url, poolSize);
    return this.#pool;
  }
}

/** The selected accounts after the one with an id, in pages. */
async function* pages(run: Query, after = '', selection?: Selection): AsyncIterable<AccountRow[]> {
  const { conditions, values } = conditionsOf(selection, 3);
  const text = `${selectAccounts} WHERE a.account_id > $1${conditions} ORDER BY a.account_id LIMIT $2`;
  for (let last: string | undefined = after; last !== undefined;) {
    const rows: AccountRow[] = await run(text, [last, page, ...values]);
    yield rows;
    last = rows.length < page ? undefined : rows.at(-1)?.account_id;
  }
}

/**
 * Claims an idempotency key for this transaction: undefined if it was free, otherwise its receipt. Waits for another
 * transaction that is claiming the same key.
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

import { AccountsError } from '../accounts-error.ts';
import { endList, type AuditEvent, type EventFilter, type RecordedEvent } from '../store.ts';
import type { Query } from './transaction.ts';

/** Events read at once. */
const page = 1_000;

/** The key of the lock on the end of the trail: any number that no other advisory lock in the database has. */
const endOfTrail = 7_305_412_968;

interface EventRow {
  readonly position: string;
  /** Epoch milliseconds; NaN if it is not a date. */
  readonly at: number;
  readonly actor: string;
  readonly action: AuditEvent['action'];
  readonly account_id: string | null;
  readonly details: AuditEvent['details'];
}

/** Adds events to the trail, in a transaction, which should end soon. */
export async function record(run: Query, events: readonly AuditEvent[]): Promise<void> {
  if (events.length === 0) return;
  // Until the transaction ends: a later position must not be visible first, because a reader continues behind it.
  await run('SELECT pg_advisory_xact_lock($1)', [endOfTrail]);
  await run(
    `INSERT INTO envelope_sidecar.audit (at, actor, action, account_id, details)
      SELECT to_timestamp(at / 1000), actor, action, account, details
      FROM ROWS FROM (
        json_to_recordset($1) AS (at numeric, actor text, action text, account text, details jsonb)
      ) WITH ORDINALITY AS given (at, actor, action, account, details, number) ORDER BY number`,
    [JSON.stringify(events)],
  );
}

/** The events in the order of writing. @param unreadable gets an error for each row that is not an event */
export async function* readTrail(
  run: Query,
  { account, since = 0, after = 0 }: EventFilter,
  unreadable = endList,
): AsyncIterable<RecordedEvent> {
  for (let last = String(after); ;) {
    const rows = await run<EventRow>(
      `SELECT position, (extract(epoch FROM at) * 1000)::float8 AS at, actor, action, account_id, details
        FROM envelope_sidecar.audit
        WHERE position > $1 AND at >= to_timestamp($2::float8 / 1000) AND ($3::text IS NULL OR account_id = $3)
        ORDER BY position LIMIT ${page}`,
      [last, since, account ?? null],
    );
    for (const row of rows) {
      const { at, actor, action, account_id: id, details } = row;
      const position = Number(row.position);
      const account = id ?? undefined;
      if (Number.isFinite(at)) yield { at: Math.round(at), actor, action, account, details, position };
      else unreadable(new AccountsError('store_invalid', `audit event ${position}: its time cannot be used`));
    }
    if (rows.length < page) return;
    last = rows.at(-1)?.position ?? last;
  }
}

import type { Line } from '../../audit/lines.ts';
import type { TrailOptions } from '../chained-events.ts';
import type { AppendedEvent, AuditEvent } from '../store.ts';
import { record } from './trail.ts';
import type { Query } from './transaction.ts';

/** Events that are read at once, and chained by one statement. */
const page = 50;

/**
 * Chains the events that the version before wrote, beside running sidecars, and adds one that says so. An interrupted run is continued
 * by the next one.
 *
 * @param run carries out each statement outside of transactions, so that no change waits for this process
 * @param begun the event; it gets the number of `events`
 * @throws AccountsError
 */
export async function chainOlder(
  run: Query,
  begun: AuditEvent,
  options: TrailOptions,
): Promise<readonly AppendedEvent[]> {
  let events = 0;
  for await (const found of olderEvents(run)) {
    await record(run, found, options);
    events += found.length;
  }
  return events === 0 ? [] : record(run, [{ ...begun, details: { events } }], options);
}

/** The events of the version before that are not chained, as lines that belong to no chain. */
export async function* olderLines(run: Query): AsyncIterable<Line> {
  for await (const found of olderEvents(run)) {
    for (const { at, ...event } of found)
      yield { bytes: Buffer.from(JSON.stringify({ ...event, at: new Date(at).toISOString() })) };
  }
}

/** The events of the version before that are not chained, in the order of writing. */
async function* olderEvents(run: Query): AsyncIterable<readonly AuditEvent[]> {
  for (let last: number | undefined = 0; last !== undefined;) {
    // A time that no clock has is the earliest. A scalar subquery, unlike NOT EXISTS, is never planned as a scan of the whole trail.
    const found: (AuditEvent & { readonly older: number })[] = await run(
      `SELECT position::float8 AS older, CASE WHEN isfinite(at) THEN round(extract(epoch FROM at) * 1000) ELSE 0 END::float8 AS at,
          actor, action, account_id AS account, details
        FROM envelope_sidecar.audit
        WHERE position > $1 AND (
          SELECT true FROM envelope_sidecar.trail
          WHERE line::jsonb ? 'older' AND (line::jsonb ->> 'older')::bigint = audit.position) IS NULL
        ORDER BY position LIMIT ${page}`,
      [last],
    );
    yield found.map((event) => ({ ...event, account: event.account ?? undefined }));
    last = found.at(page - 1)?.older;
  }
}

import { beginning, hashOf } from '../../audit/chain.ts';
import { chainEvents, type TrailEnd, type TrailOptions } from '../chained-events.ts';
import type { AppendedEvent, AuditEvent, EventFilter, TrailState } from '../store.ts';
import { contended } from './failures.ts';
import { query, type Query } from './transaction.ts';
import type { Pool } from 'pg';

/** Events read at once. */
const page = 1_000;

/** Attempts at the next position. Another writer has taken it at each lost one. */
const attempts = 1_000;

export interface TrailRow {
  /** A bigint as the driver has it, so that none is out of reach. */
  readonly position: string;
  readonly line: string;
}

/**
 * Adds events to the trail, all or none, with a single statement behind the signing. As the last one of a transaction, others wait for
 * it no longer than a commit takes. Whoever loses the race for the next position tries again.
 *
 * @throws AccountsError `audit_key_missing`, `store_locked`
 */
export async function record(
  run: Query,
  events: readonly AuditEvent[],
  options: TrailOptions,
): Promise<readonly AppendedEvent[]> {
  if (events.length === 0) return [];
  for (let attempt = 1; attempt <= attempts; attempt += 1) {
    const end = await endOfTrail(run);
    const chained = chainEvents(end, events, options);
    // Nobody can take the positions behind the first one before it is committed.
    const taken = await run(
      `WITH given AS (SELECT $1::bigint + number AS position, line FROM unnest($2::text[]) WITH ORDINALITY AS line (line, number)),
        taken AS (INSERT INTO envelope_sidecar.trail SELECT * FROM given WHERE position = $1 + 1 ON CONFLICT (position) DO NOTHING RETURNING true),
        rest AS (INSERT INTO envelope_sidecar.trail SELECT * FROM given WHERE position > $1 + 1 AND EXISTS (SELECT FROM taken))
      SELECT FROM taken`,
      [end.position, chained.map(({ line }) => line)],
    );
    if (taken.length > 0) return chained.map(({ appended }) => appended);
  }
  throw contended(undefined);
}

/**
 * The last line that has one before it: a stray one, of the table's owner or of a time before the database refused it, does not stop
 * changes. A scalar subquery, unlike EXISTS, is never planned as a scan of the whole trail.
 */
async function endOfTrail(run: Query): Promise<TrailEnd> {
  const [last] = await run<{ readonly position: number; readonly line: string }>(
    `SELECT position::float8 AS position, line FROM envelope_sidecar.trail
      WHERE position = 1 OR (SELECT true FROM envelope_sidecar.trail AS before WHERE before.position = trail.position - 1)
      ORDER BY trail.position DESC LIMIT 1`,
  );
  if (last === undefined) return { ...beginning, chained: undefined };
  const chained = Buffer.from(last.line);
  return { position: last.position, hash: hashOf(chained), chained };
}

/** Where the trail ends, for any role. @param seen a position whose hash is wanted */
export async function trailState(pool: Pool, seen: number): Promise<TrailState> {
  const [row] = await query<{ readonly state: TrailState }>(
    pool,
    `SELECT jsonb_strip_nulls(jsonb_build_object('last', jsonb_build_object('position', last, 'hash', coalesce(last_hash, $2)),
        'isSigned', coalesce(last_signed, false), 'seenHash', seen_hash)) AS state
      FROM envelope_sidecar.trail_state($1)`,
    [seen, beginning.hash],
  );
  return row?.state ?? { last: beginning, isSigned: false, seenHash: undefined };
}

/** Lines of the trail, newest first; with `after` in the order of writing. @param condition on `line`; its parameters begin with $3 */
export async function* trailRows(
  run: Query,
  { before, after }: Pick<EventFilter, 'before' | 'after'>,
  condition = '',
  values: readonly unknown[] = [],
): AsyncIterable<TrailRow> {
  const order = after === undefined ? 'DESC' : 'ASC';
  let [low, high]: (number | string | null)[] = [after ?? 0, before ?? null];
  for (;;) {
    const found: readonly TrailRow[] = await run<TrailRow>(
      `SELECT position, line FROM envelope_sidecar.trail
        WHERE position > $1 AND ($2::bigint IS NULL OR position < $2) ${condition} ORDER BY trail.position ${order} LIMIT ${page}`,
      [low, high, ...values],
    );
    yield* found;
    const last = found.at(-1)?.position;
    if (last === undefined || found.length < page) return;
    if (after === undefined) high = last;
    else low = last;
  }
}

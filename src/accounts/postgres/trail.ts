import { beginning, hashOf } from '../../audit/chain.ts';
import { chainEvents, type ChainedEvent, type TrailEnd, type TrailOptions } from '../chained-events.ts';
import type { AppendedEvent, AuditEvent, EventFilter, TrailState } from '../store.ts';
import { contended } from './failures.ts';
import { query, type Query } from './transaction.ts';
import type { Pool } from 'pg';

/** Events read at once. */
const page = 1_000;

/** Attempts at the next position. Another writer has taken it at each lost one. */
const attempts = 1_000;

export interface TrailRow {
  readonly position: number;
  readonly line: string;
}

/**
 * Adds events to the trail. The last statements of a transaction, so that others wait for the position no longer than a commit takes:
 * whoever loses the race for it takes the next one.
 *
 * @throws AccountsError `audit_key_missing`, `store_locked`
 */
export async function record(
  run: Query,
  events: readonly AuditEvent[],
  options: TrailOptions,
): Promise<readonly AppendedEvent[]> {
  for (let attempt = 1; attempt <= attempts; attempt += 1) {
    const end = await endOfTrail(run);
    const chained = chainEvents(end, events, options);
    const first = chained.next();
    if (first.done) return [];
    const isTaken = await insert(run, end.position, [first.value], 'ON CONFLICT (position) DO NOTHING');
    if (!isTaken) continue;
    // Nobody can take the positions behind it before this transaction ends.
    const rest = [...chained];
    if (rest.length > 0) await insert(run, end.position + 1, rest);
    return [first.value, ...rest].map(({ appended }) => appended);
  }
  throw contended(undefined);
}

async function endOfTrail(run: Query): Promise<TrailEnd> {
  const [last] = await run<TrailRow>(
    'SELECT position::float8 AS position, line FROM envelope_sidecar.trail ORDER BY trail.position DESC LIMIT 1',
  );
  if (last === undefined) return { ...beginning, chained: undefined };
  const chained = Buffer.from(last.line);
  return { position: last.position, hash: hashOf(chained), chained };
}

/** Adds lines behind a position. Returns whether it did. */
async function insert(run: Query, after: number, chained: readonly ChainedEvent[], conflict = ''): Promise<boolean> {
  const added = await run(
    `INSERT INTO envelope_sidecar.trail (position, line)
      SELECT $1::bigint + number, line FROM unnest($2::text[]) WITH ORDINALITY AS given (line, number)
      ${conflict} RETURNING true`,
    [after, chained.map(({ line }) => line.toString())],
  );
  return added.length > 0;
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

/** All lines. */
export async function* readLines(run: Query): AsyncIterable<Buffer> {
  for await (const { line } of rows(run, { after: 0 })) yield Buffer.from(line);
}

/** Lines of the trail, newest first; with `after` in the order of writing. @param condition on `line`; its parameters begin with $3 */
export async function* rows(
  run: Query,
  { before, after }: Pick<EventFilter, 'before' | 'after'>,
  condition = '',
  values: readonly unknown[] = [],
): AsyncIterable<TrailRow> {
  const order = after === undefined ? 'DESC' : 'ASC';
  let [low, high] = [after ?? 0, before ?? Number.MAX_SAFE_INTEGER];
  for (;;) {
    const found = await run<TrailRow>(
      `SELECT position::float8 AS position, line FROM envelope_sidecar.trail
        WHERE position > $1 AND position < $2 ${condition} ORDER BY trail.position ${order} LIMIT ${page}`,
      [low, high, ...values],
    );
    yield* found;
    const last = found.at(-1)?.position;
    if (last === undefined || found.length < page) return;
    if (after === undefined) high = last;
    else low = last;
  }
}

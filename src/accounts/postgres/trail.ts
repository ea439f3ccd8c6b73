import { AccountsError } from '../accounts-error.ts';
import { beginning, hashOf } from '../../audit/chain.ts';
import { chainEvents, type ChainedEvent, type TrailEnd, type TrailOptions } from '../chained-events.ts';
import { eventOf } from '../event-line.ts';
import {
  endList,
  type AppendedEvent,
  type AuditEvent,
  type EventFilter,
  type RecordedEvent,
  type TrailState,
} from '../store.ts';
import { contended } from './failures.ts';
import { query, type Query } from './transaction.ts';
import type { Pool } from 'pg';

/** Events read at once. */
const page = 1_000;

/** Attempts at the next position. Another writer has taken it at each lost one. */
const attempts = 1_000;

interface LineRow {
  readonly position: string;
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
  const [last] = await run<LineRow>('SELECT position, line FROM envelope_sidecar.trail ORDER BY position DESC LIMIT 1');
  if (last === undefined) return { ...beginning, chained: undefined };
  const chained = Buffer.from(last.line);
  return { position: Number(last.position), hash: hashOf(chained), chained };
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
  const [row] = await query<{
    readonly last: string;
    readonly last_hash: string | null;
    readonly last_signed: boolean | null;
    readonly seen_hash: string | null;
  }>(pool, 'SELECT * FROM envelope_sidecar.trail_state($1)', [seen]);
  return {
    last: { position: Number(row?.last ?? 0), hash: row?.last_hash ?? beginning.hash },
    isSigned: row?.last_signed === true,
    seenHash: row?.seen_hash ?? undefined,
  };
}

/** The events, as of a store. @param unreadable gets an error for each row that is not an event */
export async function* readTrail(
  run: Query,
  { account, actor, action, environment, since = 0, until, ...range }: EventFilter,
  unreadable = endList,
): AsyncIterable<RecordedEvent> {
  const member = (name: string): string => `line::jsonb ->> '${name}'`;
  const condition = `AND ($3::text IS NULL OR ${member('account')} = $3)
    AND ${member('at')} >= $4 COLLATE "C" AND ($5::text IS NULL OR ${member('at')} < $5 COLLATE "C")
    AND ($6::text IS NULL OR ${member('action')} = $6)
    AND ($7::text IS NULL OR line::jsonb -> 'details' ->> 'environment' = $7)
    AND ($8::text IS NULL OR $8 IN (${member('actor')}, substr(${member('actor')}, strpos(${member('actor')}, ':') + 1)))`;
  const end = until === undefined ? null : new Date(until).toISOString();
  const begin = new Date(since).toISOString();
  const values = [account ?? null, begin, end, action ?? null, environment ?? null, actor ?? null];
  for await (const row of rows(run, range, condition, values)) {
    const event = eventOf(row.line, Number(row.position));
    if (event === undefined) unreadable(new AccountsError('store_invalid', `audit event ${row.position} is not one`));
    else yield event;
  }
}

/** All lines. */
export async function* readLines(run: Query): AsyncIterable<Buffer> {
  for await (const { line } of rows(run, { after: 0 })) yield Buffer.from(line);
}

async function* rows(
  run: Query,
  { before, after }: Pick<EventFilter, 'before' | 'after'>,
  condition = '',
  values: readonly unknown[] = [],
): AsyncIterable<LineRow> {
  const order = after === undefined ? 'DESC' : 'ASC';
  let [low, high] = [String(after ?? 0), String(before ?? Number.MAX_SAFE_INTEGER)];
  for (;;) {
    const found = await run<LineRow>(
      `SELECT position, line FROM envelope_sidecar.trail WHERE position > $1 AND position < $2 ${condition}
        ORDER BY position ${order} LIMIT ${page}`,
      [low, high, ...values],
    );
    yield* found;
    const last = found.at(-1)?.position;
    if (last === undefined || found.length < page) return;
    if (after === undefined) high = last;
    else low = last;
  }
}

import { setTimeout as delay } from 'node:timers/promises';
import { beginning } from '../../audit/chain.ts';
import type { Line } from '../../audit/lines.ts';
import { wantedTexts } from '../event-filter.ts';
import { chainEvents, type TrailEnd, type TrailOptions } from '../events.ts';
import type { AppendedEvent, AuditEvent, EventFilter, Hints, TrailState } from '../store.ts';
import { contended } from './failures.ts';
import type { Query } from './transaction.ts';
import { sha256Hex } from '../../cryptography.ts';

/** The number of events that one statement examines. */
const page = 1_000;

/** How many of the previous version's events are read together, and chained by one statement. */
const olderPage = 50;

/** Maximum number of attempts to take the next position. An attempt fails only if another writer has taken the position. */
const attempts = 1_000;

/** Maximum number of such attempts if there are pauses between them. */
const patientAttempts = 50;

/**
 * The average pause between attempts, in milliseconds. Any number of account tokens may make changes, through several sidecars. Without
 * pauses, an operator's revocation would compete with all of these changes for each position.
 */
export function pauseFor({ ofAccount = false, urgent = false }: Hints): number {
  if (!ofAccount) return 0;
  return urgent ? 25 : 100;
}

/**
 * Adds events to the trail, all or none. The events are signed beforehand and added by a single statement, the last one of its transaction,
 * so that other writers wait no longer than a commit takes. If another writer takes the next position first, the attempt is repeated.
 *
 * @param pause the average pause between attempts, in milliseconds, so that writers without pauses get the next positions
 * @throws AccountsError `audit_key_missing`, `store_locked`
 */
export async function record(
  run: Query,
  events: readonly AuditEvent[],
  options: TrailOptions,
  pause = 0,
): Promise<readonly AppendedEvent[]> {
  if (events.length === 0) return [];
  const most = pause > 0 ? patientAttempts : attempts;
  for (let attempt = 1; attempt <= most; attempt += 1) {
    if (pause > 0 && attempt > 1) await delay(2 * pause * Math.random());
    const end = await endOfTrail(run);
    const chained = chainEvents(end, events, options);
    // It is enough to take the first position, because no other writer can take a later position until this one is committed.
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

/** Whether the trail contains these appended events. Events are committed together, so it is enough to check one of them. */
export async function isRecorded(run: Query, [event]: readonly AppendedEvent[]): Promise<boolean> {
  return event === undefined || (await trailState(run, event.position)).seenHash === event.hash;
}

/**
 * Finds the last line that directly follows another line, so that a stray line does not block all changes. A stray line may have been added
 * by the table's owner, or before the database checked positions. A scalar subquery is used because, unlike EXISTS, it is never planned as
 * a scan of the whole trail.
 */
async function endOfTrail(run: Query): Promise<TrailEnd> {
  const [last] = await run<{ readonly position: number; readonly line: string }>(
    `SELECT position::float8 AS position, line FROM envelope_sidecar.trail
      WHERE position = 1 OR (SELECT true FROM envelope_sidecar.trail AS before WHERE before.position = trail.position - 1)
      ORDER BY trail.position DESC LIMIT 1`,
  );
  if (last === undefined) return { ...beginning, chained: undefined };
  const chained = Buffer.from(last.line);
  return { position: last.position, hash: sha256Hex(chained), chained };
}

/** Where the trail ends. Any database role may query this. @param seen the position whose hash is returned as `seenHash` */
export async function trailState(run: Query, seen: number): Promise<TrailState> {
  const [row] = await run<{ readonly state: TrailState }>(
    `SELECT jsonb_strip_nulls(jsonb_build_object('last', jsonb_build_object('position', last, 'hash', coalesce(last_hash, $2)),
        'isSigned', coalesce(last_signed, false), 'seenHash', seen_hash)) AS state
      FROM envelope_sidecar.trail_state($1)`,
    [seen, beginning.hash],
  );
  return row?.state ?? { last: beginning, isSigned: false, seenHash: undefined };
}

/** The lines of the trail, newest first or, with `after`, oldest first. Most lines that do not match are left out. */
export async function* trailLines(run: Query, filter: EventFilter): AsyncIterable<Line> {
  const { account = null, before = null, after } = filter;
  const order = after === undefined ? 'DESC' : 'ASC';
  const times = [filter.since, filter.until].map((time) =>
    // Times are limited to the year 9999, because years with more digits do not sort correctly as text.
    time === undefined ? null : new Date(Math.min(time, 253_402_300_799_999)).toISOString(),
  );
  const texts = wantedTexts(filter);
  // Positions are kept as the driver returns them, because a bigint may be too large for a number.
  let [low, high]: (number | string | null)[] = [after ?? 0, before];
  for (;;) {
    // Each statement reads one page of events, whether or not they match. A statement that searched a long trail for a whole page of
    // matching events would keep other queries waiting.
    const found: readonly { readonly position: string; readonly line: string | null }[] = await run(
      `WITH part AS (SELECT position, line FROM envelope_sidecar.trail
        WHERE position > $1 AND ($2::bigint IS NULL OR position < $2) AND ($3::text IS NULL OR line::jsonb ->> 'account' = $3)
        ORDER BY trail.position ${order} LIMIT ${page})
      SELECT position, CASE WHEN
          ($4::text IS NULL OR line::jsonb ->> 'at' >= $4 COLLATE "C") AND ($5::text IS NULL OR line::jsonb ->> 'at' < $5 COLLATE "C")
          AND NOT EXISTS (SELECT FROM unnest($6::text[]) AS wanted WHERE strpos(line, wanted) = 0)
        THEN line END AS line FROM part ORDER BY part.position ${order}`,
      [low, high, account, ...times, texts],
    );
    for (const { position, line } of found) if (line !== null) yield { position, bytes: Buffer.from(line) };
    const last = found.at(page - 1)?.position;
    if (last === undefined) return;
    [low, high] = after === undefined ? [low, last] : [last, high];
  }
}

/**
 * Chains the events that the previous version wrote, and adds an event that says so. Sidecars may keep running. If a run is interrupted,
 * the next run continues it.
 *
 * @param run runs each statement outside a transaction, so that no change waits for this process
 * @param begun the event to add, which gets the number of chained events as `events`
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

/** The events that the previous version wrote and that are not chained yet, as lines outside the chain. */
export async function* olderLines(run: Query): AsyncIterable<Line> {
  for await (const found of olderEvents(run)) {
    for (const { at, ...event } of found)
      yield { bytes: Buffer.from(JSON.stringify({ ...event, at: new Date(at).toISOString() })) };
  }
}

/** The events that the previous version wrote and that are not chained yet, in the order in which they were written. */
async function* olderEvents(run: Query): AsyncIterable<readonly AuditEvent[]> {
  for (let last: number | undefined = 0; last !== undefined;) {
    // An infinite time, which cannot come from a clock, becomes 1970. A scalar subquery is used because, unlike NOT EXISTS, it is never
    // planned as a scan of the whole trail.
    const found: (AuditEvent & { readonly older: number })[] = await run(
      `SELECT position::float8 AS older, CASE WHEN isfinite(at) THEN round(extract(epoch FROM at) * 1000) ELSE 0 END::float8 AS at,
          actor, action, account_id AS account, details
        FROM envelope_sidecar.audit
        WHERE position > $1 AND (
          SELECT true FROM envelope_sidecar.trail
          WHERE line::jsonb ? 'older' AND (line::jsonb ->> 'older')::bigint = audit.position) IS NULL
        ORDER BY position LIMIT ${olderPage}`,
      [last],
    );
    yield found.map((event) => ({ ...event, account: event.account ?? undefined }));
    last = found.at(olderPage - 1)?.older;
  }
}

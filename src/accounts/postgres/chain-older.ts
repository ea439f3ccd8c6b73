import type { TrailOptions } from '../chained-events.ts';
import type { AppendedEvent, AuditEvent } from '../store.ts';
import { changePool } from './clients.ts';
import { olderEvents, record } from './trail.ts';
import { query, transaction } from './transaction.ts';

/** Events that are chained in one transaction: others wait for the trail no longer than it takes. */
const chainedAtOnce = 50;

/**
 * Chains the events that the version before wrote, beside running sidecars, and adds one that says so. An interrupted run is
 * continued by the next one.
 *
 * @param begun that event; it gets the number of `events`
 * @throws AccountsError
 */
export async function chainOlder(
  url: string,
  begun: AuditEvent,
  options: TrailOptions,
): Promise<{ readonly events: number; readonly appended: readonly AppendedEvent[] }> {
  const pool = await changePool(url, 2);
  const append = async (batch: readonly AuditEvent[]): Promise<readonly AppendedEvent[]> =>
    transaction(pool, async (run) => record(run, batch, options));
  try {
    let events = 0;
    let batch: AuditEvent[] = [];
    for await (const { at, ...older } of olderEvents(async (text, values) => query(pool, text, values))) {
      batch.push({ ...older, at: Date.parse(at) });
      events += 1;
      if (batch.length < chainedAtOnce) continue;
      await append(batch);
      batch = [];
    }
    if (batch.length > 0) await append(batch);
    if (events === 0) return { events, appended: [] };
    return { events, appended: await append([{ ...begun, details: { events } }]) };
  } finally {
    await pool.end();
  }
}

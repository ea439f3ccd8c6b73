import { Gauge, type Registry } from 'prom-client';
import { beginning, type Link } from '../audit/chain.ts';
import type { AppendedEvent, TrailState } from '../accounts/store.ts';
import { auditTo } from './change-log.ts';
import type { Logger } from './logger.ts';

/** Milliseconds between two checks of the trail. */
const interval = 10_000;

/** The part of a store's trail that this sidecar has seen. */
interface Seen {
  last: Link;
  /** Whether the last event is signed. Undefined while that is not known. */
  isSigned: boolean | undefined;
  /** The first and the last of the sidecar's own events that come after events which the sidecar has not seen yet. */
  added: readonly Link[];
}

const unseen = (): Seen => ({ last: beginning, isSigned: undefined, added: [] });

/**
 * Reports if the store no longer has an event that this sidecar has seen, because an older copy of the store is in use or the trail was
 * changed.
 *
 * @param look asks the store for the end of its trail, and for the hash of the event at a position
 */
export function watchTrail(registry: Registry, log: Logger, look: (seen: number) => Promise<TrailState>) {
  let seen = unseen();
  let looking: Promise<void> | undefined;
  void new Gauge({
    name: 'envelope_sidecar_audit_events',
    help: 'Events of the audit trail, and whether the last one is signed.',
    labelNames: ['signed'],
    registers: [registry],
    collect() {
      this.reset();
      if (seen.isSigned !== undefined) this.set({ signed: String(seen.isSigned) }, seen.last.position);
    },
  });
  const consistent = new Gauge({
    name: 'envelope_sidecar_audit_consistent',
    help: 'Whether the audit trail still has the events that this sidecar has seen: 1 or, until a restart, 0.',
    registers: [registry],
  });
  consistent.set(1);

  const expectHash = ({ position, hash }: Link, found: string | undefined, last: number): void => {
    if (position === 0 || found === hash) return;
    consistent.set(0);
    log.error({ position, hash, last }, lost);
  };
  const compare = async (before: Seen): Promise<void> => {
    const { last: expected, added } = before;
    const { last, seenHash, isSigned } = await look(expected.position);
    // If the sidecar has added an event during this check, the result may be older than that event.
    if (expected.hash !== before.last.hash) return;
    expectHash(expected, seenHash, last.position);
    Object.assign(before, { last, isSigned });
    for (const link of added) {
      const again = await look(link.position);
      // If the accounts have moved to another store during this check, the answer is from that store.
      if (before === seen) expectHash(link, again.seenHash, last.position);
    }
    before.added = before.added.filter((link) => !added.includes(link));
  };
  /** Checks the trail. If the store does not respond, the next check tries again. */
  const lookAgain = (): Promise<void> =>
    // If the store cannot be read, other parts of the sidecar report it.
    (looking ??= compare(seen)
      .catch(() => {})
      .finally(() => (looking = undefined)));
  const timer = setInterval(() => void lookAgain(), interval).unref();
  return {
    /**
     * Begins to watch the trail of a store, instead of any earlier trail.
     *
     * @returns a function that logs an event that this sidecar has added to the trail, and watches it. If the event does not follow the
     *   last event seen, the next check covers it too, because it may be at the position of an event that was removed.
     */
    begin(): (event: AppendedEvent) => void {
      const audit = auditTo(log);
      // A store that was replaced may still complete a change or a check, so each store has its own state.
      const own = (seen = unseen());
      return (event) => {
        audit(event);
        const { position, hash, prev } = event;
        if (own.last.position === 0 || prev === own.last.hash) own.last = { position, hash };
        else own.added = [...own.added.filter((link, i) => i === 0 && link.hash !== prev), { position, hash }];
      };
    },
    look: lookAgain,
    stop: () => clearInterval(timer),
  };
}

const lost =
  'the audit trail no longer has an event that this sidecar has seen: an older copy of the store is in use, or the trail was changed';

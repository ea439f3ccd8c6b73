import { Gauge, type Registry } from 'prom-client';
import { beginning, type Link } from '../audit/chain.ts';
import type { AppendedEvent, TrailState } from '../accounts/store.ts';
import { auditTo } from './change-log.ts';
import type { Logger } from './logger.ts';

/** Milliseconds between two looks at the trail. */
const interval = 10_000;

/** What a sidecar has seen of a store's trail. */
interface Seen {
  last: Link;
  /** Whether the last event is signed; undefined: not known yet. */
  isSigned: boolean | undefined;
  /** The first and the last of its own events behind others that were not seen yet. */
  added: readonly Link[];
}

const unseen = (): Seen => ({ last: beginning, isSigned: undefined, added: [] });

/**
 * Tells when the store no longer has an event that this sidecar has seen: an older store came back, or the trail was changed.
 *
 * @param look asks the store where its trail ends, and for the hash of the event at a position
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
    // The look may be older than an event of this sidecar's own.
    if (expected.hash !== before.last.hash) return;
    expectHash(expected, seenHash, last.position);
    Object.assign(before, { last, isSigned });
    for (const link of added) {
      const again = await look(link.position);
      // Of another store, if the accounts have moved meanwhile.
      if (before === seen) expectHash(link, again.seenHash, last.position);
    }
    before.added = before.added.filter((link) => !added.includes(link));
  };
  /** Looks at the trail. If the store does not respond, the next look is due. */
  const lookAgain = (): Promise<void> =>
    // Others report that the store cannot be read.
    (looking ??= compare(seen)
      .catch(() => {})
      .finally(() => (looking = undefined)));
  const timer = setInterval(() => void lookAgain(), interval).unref();
  return {
    /**
     * Watches the trail of a store, and of no other from now on.
     *
     * @returns logs an event that this sidecar has added to it, and watches it. If it does not follow what was seen, the next look is for that, too:
     *   the event may stand where one was removed.
     */
    begin(): (event: AppendedEvent) => void {
      const audit = auditTo(log);
      // A store that was replaced may still end a change, or a look.
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
  'the audit trail no longer has an event that this sidecar has seen: an older store came back, or it was changed';

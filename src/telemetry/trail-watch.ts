import { Gauge, type Registry } from 'prom-client';
import { beginning, type Link } from '../audit/chain.ts';
import type { AppendedEvent, TrailState } from '../accounts/store.ts';
import { auditTo } from './change-log.ts';
import type { Logger } from './logger.ts';

/** Milliseconds between two looks at the trail. */
const interval = 10_000;

/** What a sidecar has seen of a store's trail. */
interface SeenTrail {
  last: Link;
  isSigned: boolean;
}

const nothing = (): SeenTrail => ({ last: beginning, isSigned: false });

/** Tells when the store no longer has an event that this sidecar has seen: an older store came back, or the trail was changed. */
export class TrailWatch {
  readonly #log: Logger;
  readonly #look: (seen: number) => Promise<TrailState>;
  readonly #consistent: Gauge;
  readonly #timer: NodeJS.Timeout;
  #seen = nothing();
  #isLooking = false;

  /** @param look asks the store where its trail ends, and for the hash of the event at a position */
  constructor(registry: Registry, log: Logger, look: (seen: number) => Promise<TrailState>) {
    this.#log = log;
    this.#look = look;
    const events = new Gauge({
      name: 'envelope_sidecar_audit_events',
      help: 'Events of the audit trail, and whether the last one is signed.',
      labelNames: ['signed'],
      registers: [registry],
      collect: () => {
        events.reset();
        events.set({ signed: String(this.#seen.isSigned) }, this.#seen.last.position);
      },
    });
    this.#consistent = new Gauge({
      name: 'envelope_sidecar_audit_consistent',
      help: 'Whether the audit trail still has the events that this sidecar has seen: 1 or, until a restart, 0.',
      registers: [registry],
    });
    this.#consistent.set(1);
    this.#timer = setInterval(() => void this.look(), interval).unref();
  }

  /**
   * Watches the trail of a store, and of no other from now on.
   *
   * @returns logs an event that this sidecar has added to it, and watches it if it follows what was seen. Otherwise the next look is for
   *   what was seen: the event may stand where one was removed.
   */
  begin(): (event: AppendedEvent) => void {
    const log = auditTo(this.#log);
    // A store that was replaced may still end a change, or a look.
    const seen = (this.#seen = nothing());
    return (event) => {
      log(event);
      const { position, hash, prev } = event;
      if (seen.last.position === 0 || prev === seen.last.hash) seen.last = { position, hash };
    };
  }

  /** Looks at the trail. If the store does not respond, the next look is due. */
  async look(): Promise<void> {
    if (this.#isLooking) return;
    this.#isLooking = true;
    const seen = this.#seen;
    const before = seen.last;
    try {
      const { last, seenHash, isSigned } = await this.#look(before.position);
      // The look may be older than an event of this sidecar's own.
      if (before !== seen.last) return;
      if (before.position > 0 && seenHash !== before.hash) this.#lost(before, last);
      Object.assign(seen, { last, isSigned });
    } catch {
      // Others report that the store cannot be read.
    } finally {
      this.#isLooking = false;
    }
  }

  stop(): void {
    clearInterval(this.#timer);
  }

  #lost({ position, hash }: Link, last: Link): void {
    this.#consistent.set(0);
    this.#log.error(
      { position, hash, last: last.position },
      'the audit trail no longer has an event that this sidecar has seen: an older store came back, or it was changed',
    );
  }
}

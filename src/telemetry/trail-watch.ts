import { Gauge, type Registry } from 'prom-client';
import { beginning, type Link } from '../audit/chain.ts';
import type { AppendedEvent, TrailState } from '../accounts/store.ts';
import { auditTo } from './change-log.ts';
import type { Logger } from './logger.ts';

/** Milliseconds between two looks at the trail. */
const interval = 10_000;

/** Tells when the store no longer has an event that this sidecar has seen: an older store came back, or the trail was changed. */
export class TrailWatch {
  readonly #log: Logger;
  readonly #look: (seen: number) => Promise<TrailState>;
  readonly #consistent: Gauge;
  readonly #timer: NodeJS.Timeout;
  #seen: Link = beginning;
  #isSigned = false;
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
        events.set({ signed: String(this.#isSigned) }, this.#seen.position);
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

  /** Looks at the trail. If the store does not respond, the next look is due. */
  async look(): Promise<void> {
    if (this.#isLooking) return;
    this.#isLooking = true;
    const seen = this.#seen;
    try {
      const { last, seenHash, isSigned } = await this.#look(seen.position);
      // The look may be older than an event of this sidecar's own.
      if (seen === this.#seen) {
        if (seen.position > 0 && seenHash !== seen.hash) this.#lost(seen, last);
        this.#seen = last;
        this.#isSigned = isSigned;
      }
    } catch {
      // Others report that the store cannot be read.
    } finally {
      this.#isLooking = false;
    }
  }

  /**
   * Logs an event that this sidecar has added, and watches it if it follows what was seen. Otherwise the next look is for what was
   * seen: the event may stand where one was removed.
   */
  readonly audit = (event: AppendedEvent): void => {
    auditTo(this.#log)(event);
    const { position, hash, prev } = event;
    if (this.#seen.position === 0 || prev === this.#seen.hash) this.#seen = { position, hash };
  };

  /** Forgets what it has seen, because the accounts are in another store. */
  reset(): void {
    this.#seen = beginning;
  }

  stop(): void {
    clearInterval(this.#timer);
  }

  #lost(seen: Link, last: Link): void {
    this.#consistent.set(0);
    this.#log.error(
      { position: seen.position, hash: seen.hash, last: last.position },
      'the audit trail no longer has an event that this sidecar has seen: an older store came back, or it was changed',
    );
  }
}

import { setTimeout as wait } from 'node:timers/promises';
import { LRUCache } from 'lru-cache';
import type { EpochMs } from '../times.ts';

/** The number of wrong tokens from one address that are answered without delay, because people make typing mistakes. */
const free = 5;

/** Maximum delay, in milliseconds. */
const longest = 10_000;

/** How long an address is remembered after its last wrong token, in milliseconds. */
const memory = 15 * 60_000;

/** Maximum number of addresses remembered. */
const maxAddresses = 10_000;

/** Delays the responses to wrong tokens from one address, each twice as long as the one before. A valid token is never delayed. */
export class WrongTokenDelay {
  readonly #clock: () => EpochMs;
  readonly #byAddress = new LRUCache<string, { count: number; last: number }>({ max: maxAddresses });

  constructor(clock: () => EpochMs) {
    this.#clock = clock;
  }

  /**
   * Counts a wrong token. Resolves when the response may be sent or the client has left, so there are never more waits than connections.
   */
  async wait(address: string, left: AbortSignal): Promise<void> {
    const delay = this.#delay(address);
    if (delay > 0) await wait(delay, undefined, { ref: false, signal: left }).catch(() => {});
  }

  #delay(address: string): number {
    const now = this.#clock();
    const known = this.#byAddress.get(address);
    const count = known === undefined || now - known.last > memory ? 1 : known.count + 1;
    this.#byAddress.set(address, { count, last: now });
    return count <= free ? 0 : Math.min(longest, 125 * 2 ** (count - free));
  }
}

import { LRUCache } from 'lru-cache';
import { MinuteRing } from './minute-ring.ts';
import type { EpochMs } from '../times.ts';

/** The requests with one or more API keys, as this process saw them. Times are epoch milliseconds. */
export interface KeyUse {
  /** Requests by hour, oldest first. The last hour is incomplete. */
  readonly hours: readonly number[];
  /** Requests in the last sixty minutes, accurate to five minutes. */
  readonly lastHour: number;
  readonly lastAt: number | undefined;
  /** Requests that were refused because the key had been revoked or had expired. They do not count as use. */
  readonly attempts: number;
  readonly lastAttemptAt: number | undefined;
}

const hour = 3_600_000;
const fiveMinutes = 300_000;

/** Maximum number of keys counted. If there are more, the least recently used key is dropped. */
const maxKeys = 20_000;

interface Counts {
  readonly hours: Uint32Array;
  readonly fives: Uint32Array;
  lastAt: number | undefined;
  attempts: number;
  lastAttemptAt: number | undefined;
}

/** Counts requests by API key over the last day. */
export class KeyUses {
  readonly #byKey = new LRUCache<string, Counts>({ max: maxKeys });
  readonly #hours = new MinuteRing(24, (slot) => this.#empty('hours', slot), hour);
  readonly #fives = new MinuteRing(12, (slot) => this.#empty('fives', slot), fiveMinutes);

  /**
   * Counts one request.
   *
   * @param key   the key's id
   * @param ended whether the key had been revoked or had expired
   */
  add(key: string, ended: boolean, now: EpochMs): void {
    const hour = this.#hours.at(now);
    const five = this.#fives.at(now);
    let counts = this.#byKey.get(key);
    if (counts === undefined) {
      counts = none();
      this.#byKey.set(key, counts);
    }
    if (ended) {
      counts.attempts++;
      counts.lastAttemptAt = now;
      return;
    }
    counts.hours[hour] = (counts.hours[hour] ?? 0) + 1;
    counts.fives[five] = (counts.fives[five] ?? 0) + 1;
    counts.lastAt = now;
  }

  /** The use of these keys, added up. */
  of(keys: readonly string[], now: EpochMs): KeyUse {
    const current = this.#hours.at(now);
    this.#fives.at(now);
    const found = keys.map((key) => this.#byKey.peek(key)).filter((counts) => counts !== undefined);
    return {
      hours: Array.from({ length: 24 }, (_, i) => sum(found.map(({ hours }) => hours[(current + 1 + i) % 24] ?? 0))),
      lastHour: sum(found.flatMap(({ fives }) => [...fives])),
      lastAt: latest(found.map(({ lastAt }) => lastAt)),
      attempts: sum(found.map(({ attempts }) => attempts)),
      lastAttemptAt: latest(found.map(({ lastAttemptAt }) => lastAttemptAt)),
    };
  }

  #empty(ring: 'hours' | 'fives', slot: number): void {
    for (const counts of this.#byKey.values()) counts[ring][slot] = 0;
  }
}

function none(): Counts {
  return {
    hours: new Uint32Array(24),
    fives: new Uint32Array(12),
    lastAt: undefined,
    attempts: 0,
    lastAttemptAt: undefined,
  };
}

export function sum(numbers: readonly number[]): number {
  return numbers.reduce((total, each) => total + each, 0);
}

function latest(times: readonly (number | undefined)[]): number | undefined {
  const known = times.filter((time) => time !== undefined);
  return known.length === 0 ? undefined : Math.max(...known);
}

import { environmentNames, type EnvironmentName } from '../accounts/api-key.ts';
import type { RefusalCode } from '../errors.ts';
import type { AccessLine } from './access-log.ts';
import { Durations } from './durations.ts';
import { MinuteRing } from './minute-ring.ts';
import type { EpochMs } from '../times.ts';

/** How long a history is, and how finely it is divided: 60 minutes, or 96 quarters of an hour. */
export const spans = {
  '1h': { slots: 60, length: 60_000 },
  '24h': { slots: 96, length: 900_000 },
} as const;
export type Span = keyof typeof spans;

/** Numbers of requests by outcome. */
export interface Outcomes {
  /** Requests to which the upstream responded with a status below 500. */
  readonly served: number;
  /** Requests that the sidecar refused. */
  readonly refused: number;
  /** Requests to which the upstream responded with a 5xx status. */
  readonly failed: number;
  /** Requests without a complete response, because the client left or the connection was closed. */
  readonly left: number;
}

/** The requests in a period. */
export interface Slot extends Outcomes {
  /** The start of the period. */
  readonly time: EpochMs;
  /** Percentiles of the durations of requests to which the upstream responded, in milliseconds; undefined if there were none. */
  readonly p50: number | undefined;
  readonly p99: number | undefined;
}

/** The requests in a span. */
export interface History {
  /** Oldest first. The last slot is incomplete. */
  readonly slots: readonly Slot[];
  /** Refusals by code, the most frequent code first. */
  readonly refusals: readonly (readonly [code: RefusalCode, count: number])[];
}

/** The environment of a request; `none` if the request's host is not configured. */
type Place = EnvironmentName | 'none';
const places: readonly Place[] = [...environmentNames, 'none'];

class Counts {
  served = 0;
  refused = 0;
  failed = 0;
  left = 0;
  readonly refusals = new Map<RefusalCode, number>();
  readonly durations = new Durations();

  add(outcome: keyof Outcomes, { code, duration_ms: duration }: Outcome): void {
    this[outcome]++;
    if (code !== undefined) this.refusals.set(code, (this.refusals.get(code) ?? 0) + 1);
    if (duration !== undefined && (outcome === 'served' || outcome === 'failed')) this.durations.add(duration);
  }

  addAll({ served, refused, failed, left, refusals, durations }: Counts): void {
    this.served += served;
    this.refused += refused;
    this.failed += failed;
    this.left += left;
    for (const [code, count] of refusals) this.refusals.set(code, (this.refusals.get(code) ?? 0) + count);
    this.durations.addAll(durations);
  }

  clear(): void {
    this.served = 0;
    this.refused = 0;
    this.failed = 0;
    this.left = 0;
    this.refusals.clear();
    this.durations.clear();
  }
}

type Outcome = Pick<AccessLine, 'code' | 'status' | 'environment' | 'duration_ms'>;

/** Counts the requests to this process by their outcome, over an hour and over a day. */
export class TrafficHistory {
  readonly #series = { '1h': new Series(spans['1h']), '24h': new Series(spans['24h']) } as const;

  /** Counts one request. */
  add(line: Outcome, now: EpochMs): void {
    const outcome = classifyOutcome(line);
    this.#series['1h'].add(outcome, line, now);
    this.#series['24h'].add(outcome, line, now);
  }

  /** @param environment if undefined, all requests are included */
  of(span: Span, environment: EnvironmentName | undefined, now: EpochMs): History {
    return this.#series[span].of(environment === undefined ? places : [environment], now);
  }
}

/** The statuses of requests without a complete response. */
const unfinished: ReadonlySet<number> = new Set([444, 499]);

function classifyOutcome({ code, status }: Outcome): keyof Outcomes {
  if (code !== undefined) return 'refused';
  if (unfinished.has(status)) return 'left';
  return status >= 500 ? 'failed' : 'served';
}

class Series {
  readonly #length: number;
  readonly #slots: readonly Readonly<Record<Place, Counts>>[];
  readonly #ring: MinuteRing;

  constructor({ slots, length }: { readonly slots: number; readonly length: number }) {
    this.#length = length;
    this.#slots = Array.from({ length: slots }, () => ({ test: new Counts(), live: new Counts(), none: new Counts() }));
    this.#ring = new MinuteRing(slots, (slot) => this.#empty(slot), length);
  }

  add(outcome: keyof Outcomes, line: Outcome, now: EpochMs): void {
    this.#slots[this.#ring.at(now)]?.[line.environment ?? 'none'].add(outcome, line);
  }

  of(wanted: readonly Place[], now: EpochMs): History {
    const current = this.#ring.at(now);
    const size = this.#slots.length;
    const all = new Counts();
    const slots = Array.from({ length: size }, (_, i): Slot => {
      const sum = new Counts();
      const slot = this.#slots[(current + 1 + i) % size];
      for (const place of wanted) if (slot !== undefined) sum.addAll(slot[place]);
      all.addAll(sum);
      const { served, refused, failed, left, durations } = sum;
      const time = this.#ring.begin - (size - 1 - i) * this.#length;
      return { time, served, refused, failed, left, p50: durations.percentile(0.5), p99: durations.percentile(0.99) };
    });
    return { slots, refusals: [...all.refusals].toSorted(([, a], [, b]) => b - a) };
  }

  #empty(index: number): void {
    const slot = this.#slots[index];
    for (const place of places) slot?.[place].clear();
  }
}

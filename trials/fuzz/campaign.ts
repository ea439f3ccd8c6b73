import * as fc from 'fast-check';
import { regressionsOf } from './regressions.ts';
import { Tally, type OpenPart, type Part } from './part.ts';

/** The result of a part. */
export interface PartReport {
  readonly name: string;
  readonly cases: number;
  readonly seconds: number;
  readonly counts: ReadonlyMap<string, number>;
  /** The violated property and the smallest failing case; undefined if all properties hold. */
  readonly failure: string | undefined;
}

/** Runs the regressions of a part and then `cases` new ones, in parallel lanes. */
export async function runPart<Case>(part: Part<Case>, cases: number, seed: number): Promise<PartReport> {
  const tally = new Tally();
  const startedAt = performance.now();
  let failure = await withOpen(part, tally, (open) => replay(part, open));
  let run = regressionsOf(part).length;
  if (failure === undefined) {
    const lanes = new Lanes(part, cases, seed);
    failure = await withOpen(part, tally, (open) => lanes.run(open));
    run += lanes.cases;
    if (failure !== undefined) {
      const alone = await withOpen(part, new Tally(), (open) => lanes.isolate(open));
      failure = alone ?? `not when run alone\n${failure}`;
    }
  }
  const seconds = (performance.now() - startedAt) / 1_000;
  return { name: part.name, cases: run, seconds, counts: tally.counts, failure };
}

async function withOpen<Case, T>(
  part: Part<Case>,
  tally: Tally,
  use: (open: OpenPart<Case>) => Promise<T>,
): Promise<T> {
  const open = await part.open(tally);
  try {
    return await use(open);
  } finally {
    await open.close();
  }
}

async function replay<Case>(part: Part<Case>, { check }: OpenPart<Case>): Promise<string | undefined> {
  for (const { why, one } of regressionsOf(part)) {
    try {
      await check(one, 0, true);
    } catch (error) {
      return `${why}\n${String(error)}\n${JSON.stringify(one)}`;
    }
  }
  return undefined;
}

/** Each lane has its own seed and runs its cases one after another. */
class Lanes<Case> {
  readonly #part: Part<Case>;
  readonly #seed: number;
  readonly #share: (lane: number) => number;
  /** The number of cases that each lane has begun. */
  readonly #begun: number[];
  #failed: { readonly lane: number; readonly failure: string } | undefined;

  constructor(part: Part<Case>, cases: number, seed: number) {
    this.#part = part;
    this.#seed = seed;
    const count = Math.min(part.lanes, cases);
    this.#share = (lane) => Math.floor(cases / count) + (lane < cases % count ? 1 : 0);
    this.#begun = Array.from({ length: count }, () => 0);
  }

  get cases(): number {
    return this.#begun.reduce((sum, begun) => sum + begun, 0);
  }

  /** Runs all lanes at once until one fails. */
  async run({ check }: OpenPart<Case>): Promise<string | undefined> {
    const runLane = async (lane: number): Promise<void> => {
      const property = fc.asyncProperty(this.#part.cases, async (one) => {
        if (this.#failed !== undefined) throw new Error('another lane has failed');
        this.#begun[lane] = this.#begunIn(lane) + 1;
        try {
          await check(one, lane, false);
        } catch (error) {
          this.#failed ??= { lane, failure: `${String(error)}\n${JSON.stringify(one)}` };
          throw error;
        }
      });
      await fc.check(property, { seed: this.#seed + lane, numRuns: this.#share(lane), endOnFailure: true });
    };
    await Promise.all(this.#begun.map((_, lane) => runLane(lane)));
    return this.#failed?.failure;
  }

  /**
   * After a lane has failed, reruns each case that was in progress, one at a time, and shrinks the one that fails. This finds the right
   * case even if the fault is inside the sidecar and another lane noticed it first.
   */
  async isolate({ check }: OpenPart<Case>): Promise<string | undefined> {
    const failed = this.#failed?.lane ?? 0;
    for (const lane of [failed, ...this.#begun.keys()]) {
      const begun = this.#begunIn(lane);
      for (const index of [begun - 1, begun - 2].filter(
        (each) => each >= 0 && (lane === failed || each === begun - 1),
      )) {
        const property = fc.asyncProperty(this.#part.cases, async (one) => check(one, lane, true));
        const details = await fc.check(property, { seed: this.#seed + lane, path: String(index), numRuns: 1 });
        const [counterexample] = details.counterexample ?? [];
        if (details.failed) return `${String(details.errorInstance)}\n${JSON.stringify(counterexample)}`;
      }
    }
    return undefined;
  }

  #begunIn(lane: number): number {
    return this.#begun[lane] ?? 0;
  }
}

/** Formats a report as lines of text. */
export function table({ name, cases, seconds, counts, failure }: PartReport): string {
  const outcome = failure === undefined ? 'all hold' : 'FAILED';
  const lines = [...counts]
    .toSorted((a, b) => b[1] - a[1])
    .map(([kind, count]) => `${String(count).padStart(9)}  ${kind}`);
  return [`\n${name}: ${cases} cases, ${seconds.toFixed(1)} s, ${outcome}`, ...lines].join('\n');
}

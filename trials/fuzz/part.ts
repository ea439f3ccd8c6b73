import type * as fc from 'fast-check';

/** Counts the results of cases, by kind. */
export class Tally {
  readonly counts = new Map<string, number>();

  count(kind: string): void {
    this.counts.set(kind, (this.counts.get(kind) ?? 0) + 1);
  }
}

/** One part of the fuzzing. A case is JSON, so that a failed one can be kept in a file; its characters are bytes. */
export interface Part<Case> {
  readonly name: string;
  /** The share of this part in a hundred cases. */
  readonly share: number;
  /** The number of parallel cases. */
  readonly lanes: number;
  readonly cases: fc.Arbitrary<Case>;
  open(tally: Tally): Promise<OpenPart<Case>>;
}

/** A part with everything that it needs running. */
export interface OpenPart<Case> {
  /**
   * @param lane number of the lane, which runs one case at a time
   * @param alone whether no other lane runs: an internal error, even a later one, is then due to this case
   * @throws if a property does not hold
   */
  check(this: void, one: Case, lane: number, alone: boolean): void | Promise<void>;
  close(this: void): Promise<void>;
}

/** The property that a case violates. */
export class Violation extends Error {
  override readonly name = 'Violation';
}

/** Throws if a property does not hold. */
export function ensure(holds: boolean, property: string, ...shown: readonly unknown[]): asserts holds {
  if (!holds) throw new Violation([property, ...shown.map(abbreviated)].join('\n  '));
}

/** The case is shown in full, so a part of its result is enough. */
function abbreviated(shown: unknown): string {
  const text = JSON.stringify(shown) ?? 'undefined';
  return text.length > 2_000 ? `${text.slice(0, 2_000)}…` : text;
}

import type * as fc from 'fast-check';

/** Counts the results of cases, by kind. */
export class Tally {
  readonly counts = new Map<string, number>();

  count(kind: string): void {
    this.counts.set(kind, (this.counts.get(kind) ?? 0) + 1);
  }
}

/**
 * One part of the fuzzing. A case is a JSON value, so that a failed one can be kept in a file. Each character of its strings is one byte.
 */
export interface Part<Case> {
  readonly name: string;
  /** The share of this part in every hundred cases. */
  readonly share: number;
  /** The number of cases that run in parallel. */
  readonly lanes: number;
  readonly cases: fc.Arbitrary<Case>;
  open(tally: Tally): Promise<OpenPart<Case>>;
}

/** A part that is running, with everything that it needs. */
export interface OpenPart<Case> {
  /**
   * @param lane number of the lane, which runs one case at a time
   * @param alone whether no other lane is running, in which case even a later internal error is due to this case
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

/** Shortens a value that is shown with a violation. This is enough, because the case is shown in full. */
function abbreviated(shown: unknown): string {
  const text = JSON.stringify(shown) ?? 'undefined';
  return text.length > 2_000 ? `${text.slice(0, 2_000)}…` : text;
}

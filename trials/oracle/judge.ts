import type { ClassName } from './classes.ts';
import type { Times } from './measure.ts';
import type { Random } from './random.ts';
import { detectableDelta, differenceOf, shiftFor, type Difference } from './statistics.ts';

/** Two classes can be told apart if delta is at least `delta` and the p-value is below `p`. */
export const limits = { delta: 0.05, p: 0.001 } as const;

/** A comparison of two classes, or of one class with itself, and its expected result. */
export interface Comparison {
  readonly name: string;
  /**
   * `alike` if they must not be told apart. The classes of one control must be `apart`, or the measurement is blind.
   */
  readonly expected: 'alike' | 'apart';
  readonly difference: Difference;
}

/** The differences that a client must not be able to measure. */
const pairs: readonly (readonly [ClassName, ClassName])[] = [
  ['bad padding', 'fault at the last byte'],
  ['fault at the first byte', 'fault at the last byte'],
  ['bad padding, block before it garbled', 'block before good padding garbled'],
];

const reference = 'fault at the last byte';

/** All comparisons, with the two controls at the end. */
export function compare(times: Times, random: Random): Comparison[] {
  const halves = random.shuffle([...times[reference]]);
  const middle = Math.floor(halves.length / 2);
  return [
    ...pairs.map(([first, second]): Comparison => ({
      name: `${first} : ${second}`,
      expected: 'alike',
      difference: differenceOf(times[first], times[second], random),
    })),
    {
      name: `${reference} : itself (control)`,
      expected: 'alike',
      difference: differenceOf(halves.slice(0, middle), halves.slice(middle), random),
    },
    {
      name: `longer : ${reference} (control)`,
      expected: 'apart',
      difference: differenceOf(times.longer, times[reference], random),
    },
  ];
}

export function isApart({ delta, p }: Pick<Difference, 'delta' | 'p'>): boolean {
  return Math.abs(delta) >= limits.delta && p < limits.p;
}

/** The delta that would be detected nine times out of ten, and the difference in nanoseconds that causes it. */
export function detectable({ [reference]: times }: Times): { readonly delta: number; readonly shift: number } {
  const delta = Math.max(limits.delta, detectableDelta(times.length, times.length));
  return { delta, shift: shiftFor(times, delta) };
}

/** One sentence for each expectation that was not met. */
export function objections(comparisons: readonly Comparison[]): string[] {
  return comparisons
    .filter(({ expected, difference }) => isApart(difference) !== (expected === 'apart'))
    .map(({ name, expected }) =>
      expected === 'alike' ? `told apart: ${name}` : `not told apart, so this measurement is blind: ${name}`,
    );
}

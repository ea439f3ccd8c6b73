import type { ClassName } from './classes.ts';
import type { Times } from './measure.ts';
import type { Random } from './random.ts';
import { detectableDelta, differenceOf, shiftFor, type Difference } from './statistics.ts';

/** From this delta on, two classes can be told apart if the difference is significant. */
export const limits = { delta: 0.05, p: 0.001 } as const;

/** Two classes, or one class twice, and the expected result of their comparison. */
export interface Comparison {
  readonly name: string;
  /** Whether they must not be told apart. Those of one control must be, or the measurement is blind. */
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

/** All comparisons, the two controls last. */
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

/** The delta that would be detected nine times in ten, and the nanoseconds that cause it. */
export function detectable({ [reference]: times }: Times): { readonly delta: number; readonly shift: number } {
  const delta = Math.max(limits.delta, detectableDelta(times.length, times.length));
  return { delta, shift: shiftFor(times, delta) };
}

/** A sentence for each failed expectation. */
export function objections(comparisons: readonly Comparison[]): string[] {
  return comparisons
    .filter(({ expected, difference }) => isApart(difference) !== (expected === 'apart'))
    .map(({ name, expected }) =>
      expected === 'alike' ? `told apart: ${name}` : `not told apart, so this measurement is blind: ${name}`,
    );
}

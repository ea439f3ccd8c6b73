import type { Defer } from '../load/stage.ts';
import { Copy, type Outcome } from './copy.ts';
import type { Mutant } from './mutant.ts';

/** The least part of all mutants that must be noticed, or be argued to make no difference. */
const leastNoticed = 0.9;

/** For all tests together, in milliseconds. */
const maxCheckTime = 1_200_000;

export interface Tried {
  readonly mutant: Mutant;
  readonly outcome: Outcome | { readonly kind: 'equivalent' };
}

/** Runs all tests of these mutants without any of them. @throws Error if they fail */
export async function checkTests(mutants: readonly Mutant[], defer: Defer): Promise<void> {
  const outcome = await new Copy(defer).test([...new Set(mutants.flatMap(({ tests }) => tests))], maxCheckTime);
  if (outcome.kind !== 'survived') throw new Error(`the tests fail without a mutant: ${JSON.stringify(outcome)}`);
}

/**
 * Tests mutants, several at a time, each in a copy of the repository.
 *
 * @param told after each mutant
 */
export async function tryMutants(
  mutants: readonly Mutant[],
  jobs: number,
  defer: Defer,
  told: (tried: Tried) => void,
): Promise<readonly Tried[]> {
  const queue = mutants.values();
  const tried: Tried[] = [];
  const work = async (copy: Copy): Promise<void> => {
    for (const mutant of queue) {
      const outcome = mutant.equivalent === undefined ? await copy.try(mutant) : ({ kind: 'equivalent' } as const);
      tried.push({ mutant, outcome });
      told({ mutant, outcome });
    }
  };
  await Promise.all(Array.from({ length: jobs }, async () => work(new Copy(defer))));
  return tried;
}

/** The last line of a run, and whether it passes: nothing stale or broken, and enough mutants noticed. */
export function verdict(tried: readonly Tried[]): { readonly line: string; readonly ok: boolean } {
  const count = (kind: Tried['outcome']['kind']): number => tried.filter(({ outcome }) => outcome.kind === kind).length;
  const noticed = (count('killed') + count('equivalent')) / tried.length;
  const faulty = count('stale') + count('broken');
  const parts = [
    `${count('killed')} killed`,
    `${count('survived')} survived`,
    `${count('equivalent')} argued equivalent`,
  ];
  if (faulty > 0) parts.push(`${count('stale')} stale`, `${count('broken')} broken`);
  const line = `${tried.length} mutants: ${parts.join(', ')}: ${(noticed * 100).toFixed(1)} %`;
  return { line, ok: faulty === 0 && noticed >= leastNoticed };
}

/** One line about a mutant. */
export function lineOf({ mutant, outcome }: Tried): string {
  const what = `${outcome.kind.padEnd(10)} ${mutant.file}  ${mutant.why}`;
  if (outcome.kind === 'killed') return `${what}  [${outcome.by}]`;
  if (outcome.kind === 'broken') return `${what}  (${outcome.message})`;
  if (outcome.kind === 'equivalent') return `${what}  (${mutant.equivalent})`;
  return `${what}  ${JSON.stringify(mutant.text)} -> ${JSON.stringify(mutant.replacement)}`;
}

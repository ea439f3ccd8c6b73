/** A deliberate fault in the sources. The tests that it names must fail with it. */
export interface Mutant {
  /** Path of the source file, from the root of the repository. */
  readonly file: string;
  /** Stands in the file exactly once. */
  readonly text: string;
  readonly replacement: string;
  /** Paths of the test files that must notice. */
  readonly tests: readonly string[];
  /** The purpose of the changed code. */
  readonly why: string;
  /** Why the mutant behaves like the original; it is counted, but not run. */
  readonly equivalent: string | undefined;
}

/** A change of one file: text, replacement, what the text guards, and perhaps why the change makes no difference. */
export type Change = readonly [text: string, replacement: string, why: string, equivalent?: string];

/** The mutants of one file that the same tests must notice. */
export function mutantsOf(file: string, tests: readonly string[], changes: readonly Change[]): Mutant[] {
  return changes.map(([text, replacement, why, equivalent]) => {
    return { file, tests, text, replacement, why, equivalent };
  });
}

/** The source with the mutant in it. @returns undefined if its text does not stand there exactly once: it is stale */
export function mutated(source: string, { text, replacement }: Mutant): string | undefined {
  const [before, after, ...others] = source.split(text);
  return before === undefined || after === undefined || others.length > 0 ? undefined : before + replacement + after;
}

import { readFileSync } from 'node:fs';
import type { Part } from './part.ts';

/** A case that once failed. */
interface Kept<Case> {
  /** The fault that it showed. */
  readonly why: string;
  readonly one: Case;
}

/** The cases of a part that once failed, by hand from the counterexamples. They are run before all others. */
export function keptCases<Case>({ name }: Part<Case>): readonly Kept<Case>[] {
  const file = new URL(`kept/${name}.json`, import.meta.url);
  return JSON.parse(readFileSync(file, 'utf8')) as readonly Kept<Case>[];
}

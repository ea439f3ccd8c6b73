import { readFileSync } from 'node:fs';
import type { Part } from './part.ts';

/** A case that once failed. */
interface Regression<Case> {
  /** The fault that the case revealed. */
  readonly why: string;
  readonly one: Case;
}

/** The cases of a part that once failed, written by hand from the counterexamples. They run before all others. */
export function regressionsOf<Case>({ name }: Part<Case>): readonly Regression<Case>[] {
  const file = new URL(`regressions/${name}.json`, import.meta.url);
  return JSON.parse(readFileSync(file, 'utf8')) as readonly Regression<Case>[];
}

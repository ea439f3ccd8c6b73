import { describe } from 'vitest';

/**
 * Describes tests that need something of the machine. Where it is missing they are skipped, and it is said why.
 *
 * @param missing what is not there; undefined where nothing is missing
 */
export function describeWhere(missing: string | undefined, name: string, tests: () => void): void {
  if (missing !== undefined) console.warn(`Skipped: ${name}: ${missing}`);
  const run = missing === undefined ? describe : describe.skip;
  run(missing === undefined ? name : `${name} (skipped: ${missing})`, tests);
}

import { describe } from 'vitest';

/**
 * Describes tests that need a tool or a right on the machine. If it is missing, the tests are skipped and the reason is shown.
 *
 * @param missing the reason to skip; undefined if nothing is missing
 */
export function describeUnless(missing: string | undefined, name: string, tests: () => void): void {
  if (missing !== undefined) console.warn(`Skipped: ${name}: ${missing}`);
  const run = missing === undefined ? describe : describe.skip;
  run(missing === undefined ? name : `${name} (skipped: ${missing})`, tests);
}

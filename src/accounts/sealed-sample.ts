import type { Account } from './account.ts';

/** What became of opening the sealed credentials of some accounts. */
export interface SealedSample {
  /** Accounts. */
  readonly tried: number;
  /** Why those of an account did not open, one message for each account. */
  readonly failures: readonly string[];
}

/** The sample of a file: all its credentials were opened when it was read. */
export function sampleOf(accounts: readonly Account[]): SealedSample {
  const tried = accounts.filter(
    ({ encryption, unopened }) => unopened !== undefined || Object.keys(encryption).length > 0,
  );
  return { tried: tried.length, failures: tried.flatMap(({ unopened }) => unopened ?? []) };
}

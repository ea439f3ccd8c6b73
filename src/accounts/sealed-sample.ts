import type { Account } from './account.ts';

/** What became of opening the sealed credentials of some accounts. */
export interface SealedSample {
  /** Accounts. */
  readonly tried: number;
  /** Why those of an account did not open, one message for each account. */
  readonly failures: readonly string[];
  /** Whether the master key opened none of those that it was tried on. A row that cannot be read says nothing about the key. */
  readonly noneOpens: boolean;
}

/** The sample of a file: all its credentials were opened when it was read. If none opens, the file is invalid. */
export function sampleOf(accounts: readonly Account[]): SealedSample {
  const tried = accounts.filter(
    ({ encryption, unopened }) => unopened !== undefined || Object.keys(encryption).length > 0,
  );
  return { tried: tried.length, failures: tried.flatMap(({ unopened }) => unopened ?? []), noneOpens: false };
}

import type { Account } from './account.ts';

/** The result of opening the sealed credentials of some accounts. */
export interface SealedSample {
  /** The number of accounts. */
  readonly tried: number;
  /** One message for each account whose credentials did not open. */
  readonly failures: readonly string[];
  /** Whether the master key opened none of the credentials. Rows that cannot be read do not count. */
  readonly noneOpens: boolean;
}

/** The sample of a file: all its credentials were opened when it was read. If none opens, the file is invalid. */
export function sampleOf(accounts: readonly Account[]): SealedSample {
  const tried = accounts.filter(
    ({ encryption, unopened }) => unopened !== undefined || Object.keys(encryption).length > 0,
  );
  return { tried: tried.length, failures: tried.flatMap(({ unopened }) => unopened ?? []), noneOpens: false };
}

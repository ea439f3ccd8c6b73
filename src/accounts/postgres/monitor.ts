import type { AccountsError } from '../accounts-error.ts';
import type { Difference } from '../differences.ts';

/** The outcome of a look-up. */
export const lookupOutcomes = [
  // From the cache, which is up to date: a known or an unknown key.
  'cached',
  'cached_unknown',
  // From the database.
  'found',
  'unknown',
  // From the cache, while the database was unreachable.
  'stale',
  'unavailable',
] as const;
export type LookupOutcome = (typeof lookupOutcomes)[number];

/** Receives the events of the directory, for metrics and the log. */
export interface Monitor {
  lookup(outcome: LookupOutcome): void;
  /** Called at the start of a query; the returned function is called at its end. */
  query(): () => void;
  connected(): void;
  /** The connection is lost, or the first attempt has failed; called once. */
  disconnected(error: AccountsError): void;
  /** A cached account was read again and has changed. */
  changed(differences: readonly Difference[]): void;
  /** The database is in an older state than before. @param changes the minimum number of changes that are lost */
  lost(changes: number): void;
  /** Another failure, which an operator must correct. Contains no secret. */
  failed(error: unknown): void;
}

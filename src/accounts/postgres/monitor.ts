import type { AccountsError } from '../accounts-error.ts';
import type { Difference } from '../differences.ts';

/** The outcome of a look-up. */
export const lookupOutcomes = [
  // Answered from the cache, which was up to date. The key is known or unknown.
  'cached',
  'cached_unknown',
  // Answered by the database.
  'found',
  'unknown',
  // Answered from the cache, because the database could not confirm the key.
  'stale',
  // Not answered, because neither the database nor the cache could be used.
  'unavailable',
] as const;
export type LookupOutcome = (typeof lookupOutcomes)[number];

/** Receives the events of the directory, for metrics and the log. */
export interface Monitor {
  lookup(outcome: LookupOutcome): void;
  /** Called at the start of a query; the returned function is called at its end. */
  query(): () => void;
  connected(): void;
  /** Called once when the connection is lost, or when the first attempt to connect has failed. */
  disconnected(error: AccountsError): void;
  /** A cached account was read again and has changed. */
  changed(differences: readonly Difference[]): void;
  /** The database is in an older state than before. @param changes the minimum number of changes that are lost */
  lost(changes: number): void;
  /** Any other failure, which an operator must correct. The error contains no secret. */
  failed(error: unknown): void;
}

import type { AccountsError } from '../accounts-error.ts';
import type { Difference } from '../differences.ts';

/** The outcome of a look-up. */
export const lookupOutcomes = [
  // From the cache, known to be up to date: a key, or that there is none.
  'cached',
  'cached_unknown',
  // By the database.
  'found',
  'unknown',
  // From the cache, while the database could not be asked.
  'stale',
  'unavailable',
] as const;
export type LookupOutcome = (typeof lookupOutcomes)[number];

/** Receives the events of the directory, for metrics and the log. */
export interface Monitor {
  lookup(outcome: LookupOutcome): void;
  /** A query begins; the returned function is called at its end. */
  query(): () => void;
  connected(): void;
  /** The connection is lost, or the first attempt has failed; called once. */
  disconnected(error: AccountsError): void;
  /** An account that was in the cache was read again, and is different. */
  changed(differences: readonly Difference[]): void;
  /** Another failure, which an operator has to correct. Never with a secret. */
  failed(error: unknown): void;
}

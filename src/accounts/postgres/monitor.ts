import type { AccountsError } from '../accounts-error.ts';
import type { Difference } from '../differences.ts';

/** How a look-up was answered. */
export const lookupOutcomes = [
  // From the cache, known to be what the database has: a key, or that there is none.
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

/** Is told how the directory works, for metrics and the log. */
export interface Monitor {
  lookup(outcome: LookupOutcome): void;
  /** A query begins; what is returned is called at its end. */
  query(): () => void;
  connected(): void;
  /** The connection is lost, or cannot be made to begin with; told once. */
  disconnected(error: AccountsError): void;
  /** An account that was in the cache was read again, and is different. */
  changed(differences: readonly Difference[]): void;
  /** Something else failed that an operator has to put right. Never with a secret. */
  failed(error: unknown): void;
}

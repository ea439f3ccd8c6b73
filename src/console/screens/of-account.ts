import type { Account } from '../api.ts';
import type { Loaded } from '../load.ts';

/** What the tabs of an account are given. */
export interface OfAccount {
  readonly account: Account;
  readonly loaded: Loaded<Account>;
}

import type { Account } from '../api.ts';
import type { Loaded } from '../load.ts';

/** The props of the tabs of an account. */
export interface AccountTab {
  readonly account: Account;
  readonly loaded: Loaded<Account>;
}

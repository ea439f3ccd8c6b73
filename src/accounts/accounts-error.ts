/** Why a look at the accounts, or a change of them, was refused or failed. A closed set: programs may rely on it. */
export type AccountsErrorCode =
  // The request conflicts with the stored state.
  | 'account_unknown'
  | 'account_exists'
  | 'account_differs'
  | 'key_unknown'
  | 'key_exists'
  | 'key_expired'
  | 'key_revoked'
  | 'key_rotated'
  | 'encryption_enabled'
  | 'encryption_disabled'
  | 'grace_running'
  | 'grace_not_running'
  | 'until_not_allowed'
  | 'credentials_equal'
  | 'idempotency_key_reused'
  // Key material cannot be read.
  | 'master_key_missing'
  | 'master_key_wrong'
  | 'master_key_not_configured'
  // The store cannot do it now, or not at all. Nothing was changed.
  | 'store_changed'
  | 'store_invalid'
  | 'store_locked'
  | 'store_read_only'
  | 'store_unavailable'
  | 'disk_full';

/** The message is one line for people: it says how to correct the mistake, and never contains a secret. */
export class AccountsError extends Error {
  override readonly name = 'AccountsError';
  readonly code: AccountsErrorCode;
  /** The one account that is in the way, if it is one and the message does not name another. */
  readonly account: string | undefined;

  constructor(code: AccountsErrorCode, message: string, cause?: unknown, account?: string) {
    super(message, { cause });
    this.code = code;
    this.account = account;
  }
}

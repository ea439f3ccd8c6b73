/** Why a query for accounts or a change to accounts was refused or failed. The set is closed, so programs may rely on it. */
export type AccountsErrorCode =
  // The request conflicts with the stored state.
  | 'account_unknown'
  | 'account_exists'
  | 'account_differs'
  | 'account_in_use'
  | 'key_unknown'
  | 'key_exists'
  | 'key_expired'
  | 'key_revoked'
  | 'key_rotated'
  | 'too_many_keys'
  | 'lifetime_not_allowed'
  | 'encryption_enabled'
  | 'encryption_disabled'
  | 'grace_running'
  | 'grace_not_running'
  | 'until_not_allowed'
  | 'credentials_equal'
  | 'forbidden'
  | 'idempotency_key_reused'
  // Key material cannot be read.
  | 'master_key_missing'
  | 'master_key_wrong'
  | 'master_key_not_configured'
  | 'audit_key_missing'
  // The KMS that wraps the master key does not respond, or refuses the request.
  | 'kms_unavailable'
  | 'kms_refused'
  // The store cannot carry out the operation, temporarily or permanently. Nothing was changed.
  | 'store_changed'
  | 'store_invalid'
  | 'store_locked'
  | 'store_read_only'
  | 'store_unavailable'
  | 'disk_full';

/** The message is one line that says how to correct the mistake. It never contains a secret. */
export class AccountsError extends Error {
  override readonly name = 'AccountsError';
  readonly code: AccountsErrorCode;
  /** The account that caused the error, if there is exactly one. */
  readonly account: string | undefined;

  constructor(code: AccountsErrorCode, message: string, cause?: unknown, account?: string) {
    super(message, { cause });
    this.code = code;
    this.account = account;
  }
}

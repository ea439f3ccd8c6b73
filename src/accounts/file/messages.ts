import type { AccountsErrorCode } from '../accounts-error.ts';
import type { AuditEvent, IdempotencyKey, Selection, StoredAccount } from '../store.ts';

/** A task for the thread. */
export type FileTask =
  | { readonly kind: 'read'; readonly id: string }
  | { readonly kind: 'find_by_key'; readonly hash: string }
  | { readonly kind: 'list'; readonly after: string | undefined; readonly selection: Selection | undefined }
  | { readonly kind: 'change'; readonly ids: readonly string[]; readonly once: IdempotencyKey | undefined };

/**
 * A message of the thread. `accounts` has the result of a read, a part of a list, or the accounts about to be changed; the thread
 * then waits for a reply. After the other two it waits for the next task.
 */
export type FileMessage =
  | { readonly kind: 'accounts'; readonly accounts: readonly StoredAccount[] }
  /** `receipt`: of a change that was made before and is not made again. */
  | { readonly kind: 'done'; readonly receipt: string | undefined }
  | { readonly kind: 'failed'; readonly code: AccountsErrorCode; readonly message: string };

/** The reply to `accounts`: the accounts to be written if it is a change, or `enough` to stop. */
export type FileReply =
  | {
      readonly accounts: readonly StoredAccount[];
      readonly events: readonly AuditEvent[];
      readonly receipt?: string | undefined;
    }
  | 'enough';

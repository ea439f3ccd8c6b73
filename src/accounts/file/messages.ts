import type { AccountsErrorCode } from '../accounts-error.ts';
import type { AuditEvent, IdempotencyKey, Selection, StoredAccount } from '../store.ts';

/** What a thread is asked to do. */
export type FileTask =
  | { readonly kind: 'read'; readonly id: string }
  | { readonly kind: 'find_by_key'; readonly hash: string }
  | { readonly kind: 'list'; readonly after: string | undefined; readonly selection: Selection | undefined }
  | { readonly kind: 'change'; readonly ids: readonly string[]; readonly once: IdempotencyKey | undefined };

/**
 * What the thread tells. After `accounts` it waits for a reply: they are what was read, some of what is listed, or those
 * about to be changed. After the other two it waits for the next task.
 */
export type FileMessage =
  | { readonly kind: 'accounts'; readonly accounts: readonly StoredAccount[] }
  /** `receipt`: of a change that was made before and is not made again. */
  | { readonly kind: 'done'; readonly receipt: string | undefined }
  | { readonly kind: 'failed'; readonly code: AccountsErrorCode; readonly message: string };

/** Goes on, with the accounts to be written if it is a change, or gives up. */
export type FileReply =
  | {
      readonly accounts: readonly StoredAccount[];
      readonly events: readonly AuditEvent[];
      readonly receipt?: string | undefined;
    }
  | 'enough';

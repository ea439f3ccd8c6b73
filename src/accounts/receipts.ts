import { AccountsError } from './accounts-error.ts';
import type { Once } from './store.ts';

/** How many are kept: the oldest is forgotten for the next. */
const most = 1_000;

/** Receipts of changes that must be made once only, in this process's memory. */
export class Receipts {
  readonly #kept = new Map<string, { readonly request: string; readonly receipt: string }>();

  /** The receipt of a request that was carried out. @throws AccountsError `idempotency_key_reused` */
  find({ key, request }: Once): string | undefined {
    const kept = this.#kept.get(key);
    if (kept !== undefined && kept.request !== request) {
      throw new AccountsError('idempotency_key_reused', 'this idempotency key stands for another request');
    }
    return kept?.receipt;
  }

  keep({ key, request }: Once, receipt: string): void {
    this.#kept.set(key, { request, receipt });
    const [oldest] = this.#kept.keys();
    if (this.#kept.size > most && oldest !== undefined) this.#kept.delete(oldest);
  }
}

import { AccountsError } from '../accounts-error.ts';

/** How long a change waits for others of its account that have met a lock, in milliseconds: as long as these try. */
const patience = 5_000;

/**
 * Urgent changes that have met a lock. Those of one account take turns, so that however many there are, one of them at a time uses a
 * connection.
 */
export class BlockedChanges {
  /** The end of the latest change of each account. */
  readonly #latest = new Map<string, Promise<unknown>>();

  /**
   * Runs a change in its turn.
   *
   * @throws AccountsError `store_locked` if its turn comes too late, or what `change` throws
   */
  async run<T>(account: string, change: () => Promise<T>): Promise<T> {
    const until = performance.now() + patience;
    const made = (this.#latest.get(account) ?? Promise.resolve()).then(() => {
      if (performance.now() > until)
        throw new AccountsError('store_locked', 'others are changing the account: try again');
      return change();
    });
    const end = Promise.allSettled([made]);
    this.#latest.set(account, end);
    try {
      return await made;
    } finally {
      if (this.#latest.get(account) === end) this.#latest.delete(account);
    }
  }
}

import { AccountsError } from '../accounts-error.ts';

/** How long a change may take, including the wait for its turn, in milliseconds. */
const patience = 5_000;

/**
 * Urgent changes that were blocked by another transaction's lock. The changes to one account take turns, so that only one of them at a time
 * uses a connection, however many there are.
 */
export class BlockedChanges {
  /** For each account, a promise that resolves when the latest change to it has ended. */
  readonly #latest = new Map<string, Promise<unknown>>();

  /**
   * Runs a change in its turn.
   *
   * @param change gets the fraction of the time that is left for it, above 0 and at most 1
   * @throws AccountsError `store_locked` if its turn comes too late; otherwise, whatever `change` throws
   */
  async run<T>(account: string, change: (left: number) => Promise<T>): Promise<T> {
    const until = performance.now() + patience;
    const made = (this.#latest.get(account) ?? Promise.resolve()).then(() => {
      const left = (until - performance.now()) / patience;
      if (left <= 0) throw new AccountsError('store_locked', 'others are changing the account: try again');
      return change(left);
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

import { AccountsError } from '../accounts-error.ts';

/** How long a change may take, including the wait for its turn, in milliseconds. */
const patience = 5_000;

/**
 * Urgent changes that were blocked by another transaction's lock. Changes in the same line take turns, so that only one of them at a time
 * uses a connection, however many there are.
 */
export class BlockedChanges {
  /** For each line, a promise that resolves when the latest change in it has ended. */
  readonly #latest = new Map<string, Promise<unknown>>();

  /**
   * Runs a change in its turn.
   *
   * @param line the name of the line. Changes to different accounts, or with different connections, wait in different lines
   * @param change gets a function that returns whether there is time for another attempt
   * @throws AccountsError `store_locked` if its turn comes too late; otherwise, whatever `change` throws
   */
  async run<T>(line: string, change: (hasTime: () => boolean) => Promise<T>): Promise<T> {
    const until = performance.now() + patience;
    const hasTime = (): boolean => performance.now() < until;
    const made = (this.#latest.get(line) ?? Promise.resolve()).then(() => {
      if (!hasTime())
        throw new AccountsError('store_locked', 'other changes to the account are in progress: try again');
      return change(hasTime);
    });
    const end = Promise.allSettled([made]);
    this.#latest.set(line, end);
    try {
      return await made;
    } finally {
      if (this.#latest.get(line) === end) this.#latest.delete(line);
    }
  }
}

import { LRUCache } from 'lru-cache';
import type { ApiKey } from '../api-key.ts';
import { differencesButKeys, keyDifferences, type Difference } from '../differences.ts';
import type { Principal } from '../key-directory.ts';

/** Maximum number of accounts remembered. Changes to other accounts are applied without a log line. */
const maxKeys = 1_000;

/** Remembers earlier versions of cached accounts, to determine what has changed when the accounts are read again. */
export class LastKnown {
  readonly #accounts = new LRUCache<string, { account: Principal['account']; readonly keys: Map<string, ApiKey> }>({
    max: maxKeys,
  });

  /** Remembers a cache entry that is about to be dropped or replaced. */
  remember({ account, key }: Principal): void {
    const known = this.#accounts.get(account.id);
    if (known === undefined) this.#accounts.set(account.id, { account, keys: new Map([[key.hash, key]]) });
    else known.keys.set(key.hash, key);
  }

  /**
   * The differences between a principal that was just read and the remembered version. Each difference is returned only once, however many
   * keys the account has.
   */
  differences({ account, key }: Principal): readonly Difference[] {
    const known = this.#accounts.get(account.id);
    if (known === undefined) return [];
    const before = known.keys.get(key.hash);
    const found = [
      ...differencesButKeys(known.account, account),
      ...(before === undefined ? [] : keyDifferences(account.id, before, key)),
    ];
    known.account = account;
    known.keys.delete(key.hash);
    return found;
  }
}

import { LRUCache } from 'lru-cache';
import type { EnvironmentName } from '../accounts/api-key.ts';
import type { EpochMs } from '../times.ts';

/** An API key whose requests were accepted because of a grace period. */
interface GraceUse {
  readonly account: string;
  readonly environment: EnvironmentName;
  /** The id of the API key. */
  readonly apiKey: string;
  lastUsedAt: EpochMs;
}

/** The API keys that still depend on a grace period, at most 1,000. If there are more, the key that was used longest ago is dropped. */
export class GraceUses {
  readonly #uses = new LRUCache<string, GraceUse>({ max: 1_000 });

  add(account: string, environment: EnvironmentName, apiKey: string, now: EpochMs): void {
    const id = `${account} ${environment} ${apiKey}`;
    const known = this.#uses.get(id);
    if (known === undefined) this.#uses.set(id, { account, environment, apiKey, lastUsedAt: now });
    else known.lastUsedAt = now;
  }

  /** The uses by one account or by all accounts, latest first. */
  latest(account?: string): readonly Readonly<GraceUse>[] {
    return [...this.#uses.values()].filter((use) => account === undefined || use.account === account);
  }
}

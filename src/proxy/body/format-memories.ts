import { LRUCache } from 'lru-cache';
import type { EnvironmentName } from '../../accounts/api-key.ts';
import type { OpenContext } from '../../envelope/codec.ts';
import type { EpochMs } from '../../times.ts';

/** Maximum number of accounts remembered in an environment. The least recently used are forgotten first. */
const maxAccounts = 10_000;

/** What envelope formats remember, by account and environment. It belongs to the proxy, because a reload makes new codecs. */
export class FormatMemories {
  readonly #clock: () => EpochMs;
  readonly #memories = {
    test: new LRUCache<string, OpenContext['memory']>({ max: maxAccounts }),
    live: new LRUCache<string, OpenContext['memory']>({ max: maxAccounts }),
  };

  constructor(clock: () => EpochMs) {
    this.#clock = clock;
  }

  /** For callers that send their own credentials: nothing is remembered. */
  none(): OpenContext {
    return { now: this.#clock(), memory: new Map() };
  }

  of(environment: EnvironmentName, account: string): OpenContext {
    const memories = this.#memories[environment];
    let memory = memories.get(account);
    if (memory === undefined) memories.set(account, (memory = new Map()));
    return { now: this.#clock(), memory };
  }
}

import { LRUCache } from 'lru-cache';
import type { EnvironmentName } from '../../accounts/api-key.ts';
import type { OpenContext } from '../../envelope/codec.ts';
import type { EpochMs } from '../../times.ts';

/** Maximum number of accounts remembered in each environment. The least recently used accounts are forgotten first. */
const maxAccounts = 10_000;

type Memory = ReturnType<OpenContext['memory']>;

/**
 * What envelope formats remember about each account in each environment. The proxy keeps these memories, because a reload replaces the
 * codecs.
 */
export class FormatMemories {
  readonly #clock: () => EpochMs;
  readonly #memories = {
    test: new LRUCache<string, Memory>({ max: maxAccounts }),
    live: new LRUCache<string, Memory>({ max: maxAccounts }),
  };

  constructor(clock: () => EpochMs) {
    this.#clock = clock;
  }

  /** Returns a context that remembers nothing, for callers that send their own credentials. */
  none(): OpenContext {
    return { clock: this.#clock, memory: () => new Map() };
  }

  /** Returns an account's context. Its memory is looked up only when a format asks for it. */
  of(environment: EnvironmentName, account: string): OpenContext {
    return { clock: this.#clock, memory: () => this.#memoryOf(environment, account) };
  }

  #memoryOf(environment: EnvironmentName, account: string): Memory {
    const memories = this.#memories[environment];
    const memory = memories.get(account) ?? new Map<string, unknown>();
    memories.set(account, memory);
    return memory;
  }
}

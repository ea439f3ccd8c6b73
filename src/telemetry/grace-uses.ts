import type { EnvironmentName } from '../accounts/api-key.ts';

/** An API key whose requests were accepted because of a grace. */
export interface GraceUse {
  readonly account: string;
  readonly environment: EnvironmentName;
  /** The id of the API key. */
  readonly apiKey: string;
  /** Epoch milliseconds. */
  readonly lastUsedAt: number;
}

/** The most API keys that are remembered. */
const maxKeys = 1_000;

/** The API keys that still depend on a grace. Beyond the limit the key with the oldest last use is dropped. */
export class GraceUses {
  readonly #uses = new Map<string, { -readonly [Member in keyof GraceUse]: GraceUse[Member] }>();

  /** @param now epoch milliseconds */
  add(account: string, environment: EnvironmentName, apiKey: string, now: number): void {
    const id = `${account} ${environment} ${apiKey}`;
    const known = this.#uses.get(id);
    if (known !== undefined) {
      known.lastUsedAt = now;
      return;
    }
    if (this.#uses.size === maxKeys) this.#dropOldest();
    this.#uses.set(id, { account, environment, apiKey, lastUsedAt: now });
  }

  /** Uses of one account or of all, latest first. */
  latest(account?: string): readonly GraceUse[] {
    return [...this.#uses.values()]
      .filter((use) => account === undefined || use.account === account)
      .toSorted((a, b) => b.lastUsedAt - a.lastUsedAt);
  }

  #dropOldest(): void {
    let oldest: readonly [id: string, at: number] | undefined;
    for (const [id, { lastUsedAt }] of this.#uses) {
      if (oldest === undefined || lastUsedAt < oldest[1]) oldest = [id, lastUsedAt];
    }
    if (oldest !== undefined) this.#uses.delete(oldest[0]);
  }
}

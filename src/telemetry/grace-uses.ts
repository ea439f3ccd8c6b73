import type { EnvironmentName } from '../accounts/api-key.ts';

/** An API key whose requests a grace has let in. */
export interface GraceUse {
  readonly account: string;
  readonly environment: EnvironmentName;
  /** The id of the API key. */
  readonly apiKey: string;
  /** Epoch milliseconds. */
  readonly lastUsedAt: number;
}

/** How many API keys are remembered. */
const maxKeys = 1_000;

/** Which API keys still send what only a grace accepts. Beyond the limit the key whose last use is the oldest is forgotten. */
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

  /** The latest use first; of one account, or of all. */
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

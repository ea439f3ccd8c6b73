import type { EnvironmentName } from '../accounts/api-key.ts';
import type { RefusalCode } from '../errors.ts';
import type { EpochMs } from '../times.ts';

/** One refused request from a known account. */
interface RefusedRequest {
  /** When the request was completed. */
  readonly time: EpochMs;
  readonly environment: EnvironmentName;
  readonly account: string;
  /** The id of the API key. */
  readonly apiKey: string;
  readonly requestId: string;
  readonly route: string;
  readonly code: RefusalCode;
  /** The reason for the refusal, for example why an envelope could not be opened. */
  readonly reason: string | undefined;
}

const maxOfAccount = 50;
const maxRefusals = 1_000;

/**
 * The most recent refusals of known accounts: 50 per account and 1,000 in all, so that no account can displace the refusals of all others.
 */
export class RefusalLog {
  /** Oldest first. */
  readonly #refused: RefusedRequest[] = [];
  readonly #countOf = new Map<string, number>();

  add(refused: RefusedRequest): void {
    const { account } = refused;
    const count = this.#countOf.get(account) ?? 0;
    if (count === maxOfAccount) this.#drop(this.#refused.findIndex((each) => each.account === account));
    else if (this.#refused.length === maxRefusals) this.#drop(0);
    this.#refused.push(refused);
    this.#countOf.set(account, (this.#countOf.get(account) ?? 0) + 1);
  }

  /** The refusals of one account or of all accounts, newest first. */
  latest(account?: string): readonly RefusedRequest[] {
    const newestFirst = this.#refused.toReversed();
    return account === undefined ? newestFirst : newestFirst.filter((each) => each.account === account);
  }

  #drop(index: number): void {
    const [dropped] = this.#refused.splice(index, 1);
    if (dropped === undefined) return;
    const left = (this.#countOf.get(dropped.account) ?? 1) - 1;
    if (left === 0) this.#countOf.delete(dropped.account);
    else this.#countOf.set(dropped.account, left);
  }
}

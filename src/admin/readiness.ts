import type { CredentialsSample } from '../accounts/accounts.ts';
import type { Logger } from '../telemetry/logger.ts';
import type { SetFailingCredentials } from '../telemetry/sidecar-metrics.ts';

/** Milliseconds until the next sample of a database, while the sidecar cannot be ready (`interval`) and afterwards (`laterInterval`). */
const interval = 2_000;
const laterInterval = 600_000;

/**
 * Whether the sidecar is ready for traffic. It becomes ready once its store has been reached, unless the master key unwraps none of the
 * credentials in the first samples. A rollout therefore stops at the first pod if the store or the master key is wrong, or if the store
 * lacks tables. Later outages do not end readiness.
 */
export class Readiness {
  readonly #log: Logger;
  readonly #setFailing: SetFailingCredentials;
  #began = false;
  #draining = false;
  #storeReached = false;
  #noneUnwraps = false;
  /** The message last logged about a database that cannot be used. */
  #reason = '';
  /** The message last logged about a sample. */
  #judgement = '';
  /** Takes a sample of the database. Undefined if the accounts are in a file. */
  #take: (() => Promise<CredentialsSample>) | undefined;
  #next: NodeJS.Timeout | undefined;

  constructor(setFailing: SetFailingCredentials, log: Logger) {
    this.#setFailing = setFailing;
    this.#log = log;
  }

  get isReady(): boolean {
    return this.#began && !this.#draining && this.#storeReached && !this.#noneUnwraps;
  }

  /** Called when the listeners are open. */
  begin(): void {
    this.#began = true;
  }

  /** Called when the drain begins. */
  end(): void {
    this.#draining = true;
    clearTimeout(this.#next);
  }

  /**
   * Tests a database and the master key repeatedly, because another sidecar may seal credentials with a key that this sidecar lacks.
   *
   * @param take rejects if the database cannot be used
   */
  async tryStore(take: () => Promise<CredentialsSample>): Promise<void> {
    clearTimeout(this.#next);
    this.#take = take;
    const sample = await take().catch((error: unknown) => this.#logUnusable(error));
    // Ignore the result if another store is in use now.
    if (this.#draining || this.#take !== take) return;
    if (sample !== undefined) this.#judge(sample);
    const isUsable = this.#storeReached && !this.#noneUnwraps;
    this.#next = setTimeout(() => void this.tryStore(take), isUsable ? laterInterval : interval).unref();
  }

  /** Judges a sample of the accounts in a file. */
  report(sample: CredentialsSample): void {
    clearTimeout(this.#next);
    this.#take = undefined;
    this.#judge(sample);
  }

  #logUnusable(error: unknown): void {
    const problem = error instanceof Error ? error.message : String(error);
    if (problem === this.#reason) return;
    this.#reason = problem;
    const consequence = this.#storeReached ? '' : 'not ready: ';
    this.#log.error({ problem }, `${consequence}the accounts cannot be read from their database`);
  }

  /** Logs a sample, sets the metric, and decides whether the sidecar can be ready. */
  #judge({ tried, failures, noneUnwraps }: CredentialsSample): void {
    const isFirst = !this.#storeReached;
    this.#storeReached = true;
    const failed = failures.length;
    this.#setFailing(tried === 0 ? 0 : failed / tried);
    // A sidecar that has been ready stays ready, because accounts that do not encrypt need no master key.
    this.#noneUnwraps = noneUnwraps && (this.#noneUnwraps || isFirst);
    const consequence = this.#noneUnwraps ? ': not ready' : '';
    const judgement = `${noneUnwraps ? 'no' : 'not all'} sealed credentials open with the master key${consequence}`;
    const isKnown = this.#judgement === judgement;
    this.#judgement = failed === 0 ? '' : judgement;
    if (failed > 0 && !isKnown) this.#log.error({ tried, failed, problem: failures[0] }, judgement);
  }
}

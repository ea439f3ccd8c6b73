import type { CredentialsSample } from '../accounts/accounts.ts';
import type { Logger } from '../telemetry/logger.ts';
import type { SetFailingCredentials } from '../telemetry/sidecar-metrics.ts';

/** Milliseconds until the next sample, if one could not be taken or unwrapped. */
const interval = 2_000;

/**
 * Whether the sidecar is ready for traffic: not before its store was reached once. A rollout stops at the first pod if the store
 * is the wrong one or lacks tables, or if the master key unwraps none of a sample of the stored credentials. Later outages do
 * not end readiness.
 */
export class Readiness {
  readonly #log: Logger;
  readonly #setFailing: SetFailingCredentials;
  #began = false;
  #draining = false;
  #storeReached = false;
  #noneUnwraps = false;
  /** The last reason that was logged. */
  #reason = '';
  #retry: NodeJS.Timeout | undefined;

  constructor(setFailing: SetFailingCredentials, log: Logger) {
    this.#setFailing = setFailing;
    this.#log = log;
  }

  get isReady(): boolean {
    return this.#began && !this.#draining && this.#storeReached && !this.#noneUnwraps;
  }

  /** The listeners are open. */
  begin(): void {
    this.#began = true;
  }

  /** The process is about to end. */
  end(): void {
    this.#draining = true;
    clearTimeout(this.#retry);
  }

  /**
   * Tests the store and the master key until the sidecar can be ready.
   *
   * @param take rejects if the store cannot be used
   */
  async tryStore(take: () => Promise<CredentialsSample>): Promise<void> {
    clearTimeout(this.#retry);
    const sample = await take().catch((error: unknown) => this.#logUnusable(error));
    if (this.#draining) return;
    if (sample !== undefined) this.report(sample);
    if (sample === undefined || this.#noneUnwraps) {
      this.#retry = setTimeout(() => void this.tryStore(take), interval).unref();
    }
  }

  #logUnusable(error: unknown): void {
    const problem = error instanceof Error ? error.message : String(error);
    if (problem === this.#reason) return;
    this.#reason = problem;
    const consequence = this.#storeReached ? '' : 'not ready: ';
    this.#log.error({ problem }, `${consequence}the accounts cannot be read from their database`);
  }

  /** Judges a sample: logs it, sets the metric, and decides whether the sidecar can be ready. */
  report({ tried, failures, noneUnwraps }: CredentialsSample): void {
    this.#storeReached = true;
    const failed = failures.length;
    this.#setFailing(tried === 0 ? 0 : failed / tried);
    // A sidecar that has been ready stays ready: accounts that do not encrypt need no master key.
    this.#noneUnwraps = noneUnwraps && (this.#noneUnwraps || !this.#began);
    if (failed === 0) return;
    const consequence = this.#noneUnwraps ? ': not ready' : '';
    this.#log.error(
      { tried, failed, problem: failures[0] },
      `${noneUnwraps ? 'no' : 'not all'} sealed credentials open with the master key${consequence}`,
    );
  }
}

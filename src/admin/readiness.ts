import type { CredentialsSample } from '../accounts/accounts.ts';
import type { Logger } from '../telemetry/logger.ts';
import type { SetFailingCredentials } from '../telemetry/sidecar-metrics.ts';

/** Milliseconds until the next sample, if one could not be taken or unwrapped. */
const interval = 10_000;

/**
 * Whether the sidecar is ready for traffic. Until it has been ready once, a master key that unwraps none of a sample of
 * the stored credentials prevents it: a rollout with the wrong key stops at the first pod.
 */
export class Readiness {
  readonly #log: Logger;
  readonly #setFailing: SetFailingCredentials;
  #began = false;
  #draining = false;
  #noneUnwraps = false;
  #retry: NodeJS.Timeout | undefined;

  constructor(setFailing: SetFailingCredentials, log: Logger) {
    this.#setFailing = setFailing;
    this.#log = log;
  }

  get isReady(): boolean {
    return this.#began && !this.#draining && !this.#noneUnwraps;
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
   * Tests the master key until the sidecar can be ready.
   *
   * @param take rejects if the database is unreachable, which is not a wrong key
   */
  async tryMasterKey(take: () => Promise<CredentialsSample>): Promise<void> {
    clearTimeout(this.#retry);
    const sample = await take().catch(() => undefined);
    if (this.#draining) return;
    if (sample !== undefined) this.report(sample);
    if (sample === undefined || this.#noneUnwraps) {
      this.#retry = setTimeout(() => void this.tryMasterKey(take), interval).unref();
    }
  }

  /** Judges a sample: logs it, sets the metric, and decides whether the sidecar can be ready. */
  report({ tried, failures, noneUnwraps }: CredentialsSample): void {
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

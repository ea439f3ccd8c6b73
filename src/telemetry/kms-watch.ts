import { Counter, Gauge, type Registry } from 'prom-client';
import { AccountsError } from '../accounts/accounts-error.ts';
import type { Keyring, KeyringStatus } from '../accounts/keyring.ts';
import type { Logger } from './logger.ts';

/** Milliseconds between two checks of the KMS. */
const interval = 60_000;

/**
 * Watches the KMS for the metrics and the log. Without these checks, a running sidecar would contact the KMS only if a reload needed
 * different master keys.
 *
 * @param keyring returns the current keyring; undefined if there is no KMS
 */
export function watchKms(registry: Registry, log: Logger, keyring: () => Keyring | undefined) {
  /** The result of the last check; undefined before the first check or if there is no KMS. */
  let status: KeyringStatus | undefined;
  void new Gauge({
    name: 'envelope_sidecar_kms_healthy',
    help: 'Whether the KMS reported within the last minute that it is healthy: 1 or 0. Absent if there is no KMS.',
    registers: [registry],
    collect() {
      this.remove();
      if (status !== undefined) this.set(status.healthy ? 1 : 0);
    },
  });
  /** Asks the KMS for its status and logs a change. Never rejects, because nothing waits for the result. */
  const look = async (): Promise<void> => {
    const before = status;
    let problem: string | undefined;
    status = await keyring()
      ?.status()
      .catch((error: Error) => {
        // The messages of other errors may contain data that must not be logged.
        problem = error instanceof AccountsError ? error.message : error.name;
        return { healthy: false, keyId: '' };
      });
    if (status === undefined) return;
    // While the KMS is unavailable, the key with which it last wrapped is still the newest known key.
    if (!status.healthy) status = { healthy: false, keyId: before?.keyId ?? '' };
    const { healthy, keyId } = status;
    const worked = before?.healthy ?? true;
    if (worked && !healthy) log.warn({ problem }, 'the KMS is unavailable: the current configuration does not need it');
    if (!worked && healthy) log.info({ key_id: keyId }, 'the KMS is available again');
    if (worked && healthy && keyId !== (before?.keyId ?? keyId))
      log.info({ key_id: keyId }, 'the KMS now wraps with a different key: run "master-key rewrap"');
  };
  void look();
  const timer = setInterval(() => void look(), interval).unref();
  return { status: () => status, stop: () => clearInterval(timer) };
}

/** Returns a function that wraps a keyring so that its calls are counted. */
export function callCounter(registry: Registry): (keyring: Keyring) => Keyring {
  const calls = new Counter({
    name: 'envelope_sidecar_kms_requests_total',
    help: 'Calls to the KMS, by operation and outcome: ok, unavailable, refused, or wrong if it returned a different key from the one that was wrapped.',
    labelNames: ['operation', 'outcome'],
    registers: [registry],
  });
  // The codes are `kms_unavailable`, `kms_refused` and `master_key_wrong`.
  const toOutcome = (error: unknown): string =>
    error instanceof AccountsError ? error.code.replace(/^.*_/, '') : 'unavailable';
  const count = async <T>(operation: string, call: Promise<T>): Promise<T> => {
    calls.inc({ operation, outcome: await call.then(() => 'ok', toOutcome) });
    return call;
  };
  return (keyring) => ({
    wrap: (key) => count('encrypt', keyring.wrap(key)),
    unwrap: (key) => count('decrypt', keyring.unwrap(key)),
    status: () => count('status', keyring.status()),
  });
}

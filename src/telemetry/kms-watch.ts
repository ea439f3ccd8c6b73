import { Counter, Gauge, type Registry } from 'prom-client';
import { AccountsError } from '../accounts/accounts-error.ts';
import type { EnvironmentName } from '../accounts/api-key.ts';
import type { Keyring, KeyringStatus } from '../accounts/keyring.ts';
import { keysFor, type MasterKey } from '../accounts/master-key.ts';
import type { Logger } from './logger.ts';

/** Milliseconds between two looks at the KMS. */
const interval = 60_000;

/** The master keys in force, and what wraps them; undefined without a KMS. */
export interface MasterKeysInForce {
  readonly environments: readonly { readonly name: EnvironmentName }[];
  readonly masterKeys: readonly MasterKey[];
  readonly keyring: Keyring | undefined;
}

/** Watches the KMS for the metrics and the log. Nothing else of a running sidecar asks it. */
export class KmsWatch {
  readonly #inForce: () => MasterKeysInForce;
  readonly #log: Logger;
  readonly #timer: NodeJS.Timeout;
  /** Of the last look; undefined before the first one and without a KMS. */
  #status: KeyringStatus | undefined;

  constructor(registry: Registry, log: Logger, inForce: () => MasterKeysInForce) {
    this.#inForce = inForce;
    this.#log = log;
    const status = (): KeyringStatus | undefined => this.#status;
    void new Gauge({
      name: 'envelope_sidecar_kms_healthy',
      help: 'Whether the KMS said within the last minute that it works: 1 or 0. Absent without a KMS.',
      registers: [registry],
      collect() {
        this.remove();
        const current = status();
        if (current !== undefined) this.set(current.healthy ? 1 : 0);
      },
    });
    void new Gauge({
      name: 'envelope_sidecar_master_keys',
      help: 'Configured master keys, by environment, by where they are, and by state: current, old or rewrap_due.',
      labelNames: ['environment', 'provider', 'state'],
      registers: [registry],
      collect() {
        this.reset();
        const { environments, masterKeys } = inForce();
        const newest = status()?.keyId ?? '';
        for (const { name: environment } of environments) {
          for (const [i, { wrapped }] of (keysFor(environment, masterKeys) ?? []).entries()) {
            const isDue = wrapped !== undefined && newest !== '' && wrapped.keyId !== newest;
            const state = isDue ? 'rewrap_due' : i === 0 ? 'current' : 'old';
            this.inc({ environment, provider: wrapped === undefined ? 'clear' : 'kms', state });
          }
        }
      },
    });
    this.#timer = setInterval(() => void this.#look(), interval).unref();
    void this.#look();
  }

  stop(): void {
    clearInterval(this.#timer);
  }

  /** Asks the KMS how it is; a change is logged. Never rejects, because nothing waits for it. */
  async #look(): Promise<void> {
    const before = this.#status;
    let problem: string | undefined;
    try {
      this.#status = await this.#inForce().keyring?.status();
    } catch (error) {
      this.#status = { healthy: false, keyId: '' };
      // Another message may say what no log may have.
      problem = error instanceof AccountsError ? error.message : (error as Error).name;
    }
    if (this.#status === undefined) return;
    const { healthy, keyId } = this.#status;
    // While it does not work, the key that it wrapped with last is still the newest one known.
    if (!healthy) this.#status = { healthy, keyId: before?.keyId ?? '' };
    if (!healthy && before?.healthy !== false) {
      this.#log.warn({ problem }, 'the KMS does not work: what is in force does not need it');
    } else if (healthy && before?.healthy === false) {
      this.#log.info({ key_id: keyId }, 'the KMS works again');
    } else if (healthy && before !== undefined && before.keyId !== keyId) {
      this.#log.info({ key_id: keyId }, 'the KMS wraps with another key: run "master-key rewrap"');
    }
  }
}

/** Makes keyrings whose calls are counted. */
export function callCounter(registry: Registry): (keyring: Keyring) => Keyring {
  const calls = new Counter({
    name: 'envelope_sidecar_kms_requests_total',
    help: 'Calls to the KMS, by operation and outcome: ok, unavailable, refused, or wrong for another key than was wrapped.',
    labelNames: ['operation', 'outcome'],
    registers: [registry],
  });
  const count = async <T>(operation: string, call: Promise<T>): Promise<T> => {
    const outcomeOf = (error: unknown): string =>
      // `kms_unavailable`, `kms_refused`, `master_key_wrong`
      error instanceof AccountsError ? error.code.replace(/^.*_/, '') : 'unavailable';
    calls.inc({ operation, outcome: await call.then(() => 'ok', outcomeOf) });
    return call;
  };
  return (keyring) => ({
    wrap: (key) => count('encrypt', keyring.wrap(key)),
    unwrap: (key) => count('decrypt', keyring.unwrap(key)),
    status: () => count('status', keyring.status()),
  });
}

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
        for (const { name } of environments) {
          for (const [i, { wrapped }] of (keysFor(name, masterKeys) ?? []).entries()) {
            const newest = status()?.keyId ?? '';
            const isDue = wrapped !== undefined && newest !== '' && wrapped.keyId !== newest;
            const state = isDue ? 'rewrap_due' : i === 0 ? 'current' : 'old';
            this.inc({ environment: name, provider: wrapped === undefined ? 'clear' : 'kms', state });
          }
        }
      },
    });
    this.#timer = setInterval(() => void this.look(), interval).unref();
  }

  /** Asks the KMS how it is; a change is logged. */
  async look(): Promise<void> {
    const { keyring } = this.#inForce();
    const before = this.#status;
    const status = await statusOf(keyring);
    if (status === undefined) {
      this.#status = undefined;
      return;
    }
    const { healthy, keyId, problem } = status;
    // While it does not work, the key that it wrapped with last is still the newest one known.
    this.#status = { healthy, keyId: healthy ? keyId : (before?.keyId ?? '') };
    if (!healthy && before?.healthy !== false) {
      this.#log.warn({ problem }, 'the KMS does not work: what is in force does not need it');
    } else if (healthy && before?.healthy === false) {
      this.#log.info({ key_id: keyId }, 'the KMS works again');
    } else if (healthy && before !== undefined && before.keyId !== keyId) {
      this.#log.info({ key_id: keyId }, 'the KMS wraps with another key: run "master-key rewrap"');
    }
  }

  stop(): void {
    clearInterval(this.#timer);
  }
}

async function statusOf(keyring: Keyring | undefined): Promise<(KeyringStatus & { problem?: string }) | undefined> {
  try {
    return await keyring?.status();
  } catch (error) {
    if (!(error instanceof AccountsError)) throw error;
    return { healthy: false, keyId: '', problem: error.message };
  }
}

const outcomes = { kms_unavailable: 'unavailable', kms_refused: 'refused', master_key_wrong: 'wrong' } as const;

/** A keyring whose calls are counted. */
export function counted(keyring: Keyring, registry: Registry): Keyring {
  const name = 'envelope_sidecar_kms_requests_total';
  const counter =
    (registry.getSingleMetric(name) as Counter<'operation' | 'outcome'> | undefined) ??
    new Counter({
      name,
      help: 'Calls to the KMS, by operation and outcome: ok, unavailable, refused, or wrong for another key than was wrapped.',
      labelNames: ['operation', 'outcome'],
      registers: [registry],
    });
  const count = async <T>(operation: 'encrypt' | 'decrypt' | 'status', call: Promise<T>): Promise<T> => {
    try {
      const result = await call;
      counter.inc({ operation, outcome: 'ok' });
      return result;
    } catch (error) {
      const outcome = error instanceof AccountsError ? outcomes[error.code as keyof typeof outcomes] : undefined;
      counter.inc({ operation, outcome: outcome ?? 'unavailable' });
      throw error;
    }
  };
  return {
    wrap: (key) => count('encrypt', keyring.wrap(key)),
    unwrap: (key) => count('decrypt', keyring.unwrap(key)),
    status: () => count('status', keyring.status()),
  };
}

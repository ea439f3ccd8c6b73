import type { KeyObject } from 'node:crypto';
import { setTimeout as delay } from 'node:timers/promises';
import { AccountsError } from './accounts-error.ts';
import type { MasterKey } from './master-key.ts';

/** Whether a keyring is working, and which key it currently wraps with. */
export interface KeyringStatus {
  readonly healthy: boolean;
  readonly keyId: string;
}

/**
 * Holds the key that wraps master keys. Master keys are unwrapped before a configuration is applied, and before a command decides on a
 * change, so that no request waits for a keyring.
 *
 * The methods throw AccountsError: `kms_unavailable` if a later attempt may succeed, `kms_refused` if no later attempt will.
 */
export interface Keyring {
  /**
   * Returns the line to store for a master key, after checking that `unwrap` opens it.
   *
   * @throws AccountsError `master_key_wrong`, besides the codes above
   */
  wrap(key: KeyObject): Promise<string>;
  /** Unwraps a master key that was read from a line made by `wrap`. @throws AccountsError `master_key_wrong`, besides the codes above */
  unwrap(key: MasterKey): Promise<MasterKey>;
  status(): Promise<KeyringStatus>;
}

/** The keyring for master keys in the clear, which need no unwrapping. */
export const localKeyring: Keyring = {
  wrap: async (key) => key.export().toString('base64'),
  unwrap: async (key) => key,
  status: async () => ({ healthy: true, keyId: '' }),
};

/** The time between attempts at startup while the keyring is unavailable, in milliseconds. */
const retryInterval = 1_000;

/**
 * Unwraps the keys of a configuration. A key that cannot be unwrapped is returned with its problem.
 *
 * @param start set only when a sidecar starts. The function then retries for `wait` milliseconds, warns once, and throws if the keyring
 *   still fails
 * @throws AccountsError only with `start`: `kms_unavailable` after `wait`, `kms_refused` at once
 */
export async function unwrapKeys(
  keyring: Keyring,
  keys: readonly MasterKey[],
  start?: { readonly wait: number; readonly warn: (error: AccountsError) => void },
): Promise<readonly MasterKey[]> {
  const isOver = AbortSignal.timeout(start?.wait ?? 0);
  for (let tries = 1; ; tries += 1) {
    const failures: AccountsError[] = [];
    const unwrapped = await Promise.all(
      keys.map((key) =>
        keyring.unwrap(key).catch((error: unknown) => {
          if (!(error instanceof AccountsError)) throw error;
          failures.push(error);
          return { ...key, problem: `${error.message} (${error.code})` };
        }),
      ),
    );
    const failure = failures.find(({ code }) => code !== 'master_key_wrong');
    if (start === undefined || failure === undefined) return unwrapped;
    if (failure.code !== 'kms_unavailable' || isOver.aborted) throw failure;
    if (tries === 1) start.warn(failure);
    // The delay is aborted when the startup wait is over.
    await delay(retryInterval, undefined, { signal: isOver }).catch(() => {});
  }
}

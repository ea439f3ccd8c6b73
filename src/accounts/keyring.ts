import type { KeyObject } from 'node:crypto';
import { setTimeout as delay } from 'node:timers/promises';
import { AccountsError } from './accounts-error.ts';
import type { MasterKey } from './master-key.ts';

/** Whether the holder of the wrapping key works, and which key it wraps with now. */
export interface KeyringStatus {
  readonly healthy: boolean;
  readonly keyId: string;
}

/**
 * The holder of the key that wraps master keys. Master keys are unwrapped before a configuration is applied, and before a command decides
 * on a change: nothing that serves a request waits for a keyring.
 *
 * Its methods throw AccountsError: `kms_unavailable` if a later attempt may succeed, `kms_refused` if none will.
 */
export interface Keyring {
  /** Returns the line that stores a master key, after `unwrap` has opened it once. @throws AccountsError also `master_key_wrong` */
  wrap(key: KeyObject): Promise<string>;
  /** Unwraps the line that `wrap` has made of a key. @throws AccountsError also `master_key_wrong` */
  unwrap(key: MasterKey): Promise<MasterKey>;
  status(): Promise<KeyringStatus>;
}

/** For master keys in the clear, which are already unwrapped when their lines have been read. */
export const localKeyring: Keyring = {
  wrap: async (key) => key.export().toString('base64'),
  unwrap: async (key) => key,
  status: async () => ({ healthy: true, keyId: '' }),
};

/** How often a start tries again if the keyring is unavailable. Milliseconds. */
const retryInterval = 1_000;

/**
 * The keys of a configuration, each unwrapped or with the problem of its line.
 *
 * @param start for the start of a sidecar: it tries for `wait` milliseconds, warns once, and fails if the keyring does
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
    // The end of the wait cuts the delay short.
    await delay(retryInterval, undefined, { signal: isOver }).catch(() => {});
  }
}

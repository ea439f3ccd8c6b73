import type { KeyObject } from 'node:crypto';
import type { MasterKey } from './master-key.ts';

/** Whether what holds the wrapping key works, and which key it wraps with now. */
export interface KeyringStatus {
  readonly healthy: boolean;
  readonly keyId: string;
}

/**
 * Where the key is that wraps master keys. Master keys are unwrapped before a configuration is applied, and before a command decides
 * on a change: nothing that serves a request waits for it.
 *
 * Its methods throw AccountsError: `kms_unavailable` if it may work later, `kms_refused` if it will not.
 */
export interface Keyring {
  /** The line that stores a master key. */
  wrap(key: KeyObject): Promise<string>;
  /** The key that `wrap` has made a line of. @throws AccountsError also `master_key_wrong` */
  unwrap(key: MasterKey): Promise<MasterKey>;
  status(): Promise<KeyringStatus>;
}

/** Lines are master keys in the clear, which reading them has unwrapped. */
export const localKeyring: Keyring = {
  wrap: async (key) => key.export().toString('base64'),
  unwrap: async (key) => key,
  status: async () => ({ healthy: true, keyId: '' }),
};

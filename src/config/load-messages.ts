import type { Account, EncryptionEnding, EncryptionOn } from '../accounts/account.ts';
import { environmentNames } from '../accounts/api-key.ts';
import type { PackedCodec } from '../envelope/codec.ts';
import { unpackCodec } from '../envelope/formats.ts';
import type { Env } from '../yaml/values.ts';
import type { Settings, StoreSettings } from './config.ts';
import type { FileContent } from './loaded.ts';

/** The messages of the loading thread, in this order: batches of accounts, then the rest. */
export type WorkerMessage =
  | { readonly kind: 'accounts'; readonly accounts: readonly PackedAccount[] }
  | {
      readonly kind: 'loaded';
      readonly sidecar: FileContent<Settings>;
      /** Without the accounts, which were sent before. */
      readonly accounts: FileContent<undefined> | undefined;
      readonly files: readonly string[];
    };

/** The input of the loading thread. */
export interface WorkerTask {
  readonly file: string;
  readonly env: Env;
  /** As for `loadFiles`. */
  readonly running?: StoreSettings;
}

type PackedAccount = Omit<Account, 'encryption'> & {
  readonly encryption: Partial<Record<string, EncryptionBy<PackedCodec>>>;
};

/** An account in the form that can be sent to another thread. */
export function packAccount(account: Account): PackedAccount {
  return { ...account, encryption: mapEncryption(account.encryption, (codec) => codec.pack()) };
}

/** The account that was packed on another thread. */
export function unpackAccount(account: PackedAccount): Account {
  return { ...account, encryption: mapEncryption(account.encryption, unpackCodec) };
}

/** `encryption` with its codecs in another form. */
function mapEncryption<A, B>(
  encryption: Partial<Record<string, EncryptionBy<A>>>,
  convert: (codec: A) => B,
): Partial<Record<string, EncryptionBy<B>>> {
  const mapped: Partial<Record<string, EncryptionBy<B>>> = {};
  for (const environment of environmentNames) {
    const one = encryption[environment];
    if (one === undefined) continue;
    if (one.kind === 'ending') {
      mapped[environment] = { ...one, previous: convert(one.previous) };
      continue;
    }
    const { grace } = one;
    mapped[environment] = {
      ...one,
      current: convert(one.current),
      grace: grace && { ...grace, previous: grace.previous === undefined ? undefined : convert(grace.previous) },
    };
  }
  return mapped;
}

/** How an account encrypts, with its codecs in the form `C`. */
type EncryptionBy<C> =
  | (Omit<EncryptionOn, 'current' | 'grace'> & {
      readonly current: C;
      readonly grace: { readonly previous: C | undefined; readonly until: number } | undefined;
    })
  | (Omit<EncryptionEnding, 'previous'> & { readonly previous: C });

import type { Account, Encryption } from '../accounts/account.ts';
import { environmentNames } from '../accounts/api-key.ts';
import { AesCbc, type PackedAesCbc } from '../envelope/aes-cbc.ts';
import type { Problem } from '../yaml/problem.ts';
import type { Config } from './config.ts';

/** What the loading thread tells, in this order: batches of accounts, then the rest; or that there is nothing valid. */
export type WorkerMessage =
  | { readonly kind: 'accounts'; readonly accounts: readonly PackedAccount[] }
  | {
      readonly kind: 'loaded';
      readonly config: Omit<Config, 'accounts'>;
      readonly warnings: readonly Problem[];
      readonly files: readonly string[];
    }
  | { readonly kind: 'invalid'; readonly problems: readonly Problem[]; readonly files: readonly string[] };

type PackedAccount = Omit<Account, 'encryption'> & {
  readonly encryption: Partial<Record<string, EncryptionBy<PackedAesCbc>>>;
};

/** Makes an account fit for the way between threads. */
export function packAccount(account: Account): PackedAccount {
  return { ...account, encryption: mapEncryption(account.encryption, (codec) => codec.pack()) };
}

/** The account again, on the other side. */
export function unpackAccount(account: PackedAccount): Account {
  return { ...account, encryption: mapEncryption(account.encryption, (packed) => AesCbc.unpack(packed)) };
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
type EncryptionBy<C> = Omit<Encryption, 'current' | 'grace'> & {
  readonly current: C;
  readonly grace: { readonly previous: C | undefined; readonly until: number } | undefined;
};

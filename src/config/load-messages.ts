import type { KeyObject } from 'node:crypto';
import type { Account, Encryption } from '../accounts/account.ts';
import { environmentNames } from '../accounts/api-key.ts';
import { Credentials } from '../envelope/credentials.ts';
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

/** Credentials do not pass between threads as they are: their class would be lost. Keys do, without being copied. */
interface PackedCredentials {
  readonly key: KeyObject;
  readonly iv: Uint8Array;
}

type PackedAccount = Omit<Account, 'encryption'> & {
  readonly encryption: Partial<Record<string, WithCredentials<PackedCredentials>>>;
};

/** Makes an account fit for the way between threads. */
export function packAccount(account: Account): PackedAccount {
  return { ...account, encryption: mapEncryption(account.encryption, packCredentials) };
}

/** The account again, on the other side. */
export function unpackAccount(account: PackedAccount): Account {
  return { ...account, encryption: mapEncryption(account.encryption, unpackCredentials) };
}

function packCredentials({ key, iv }: Credentials): PackedCredentials {
  return { key, iv };
}

function unpackCredentials({ key, iv }: PackedCredentials): Credentials {
  return new Credentials(key, Buffer.from(iv));
}

/** `encryption` with other credentials in it. */
function mapEncryption<A, B>(
  encryption: Partial<Record<string, WithCredentials<A>>>,
  convert: (credentials: A) => B,
): Partial<Record<string, WithCredentials<B>>> {
  const mapped: Partial<Record<string, WithCredentials<B>>> = {};
  for (const environment of environmentNames) {
    const one = encryption[environment];
    if (one === undefined) continue;
    const { grace } = one;
    mapped[environment] = {
      ...one,
      credentials: convert(one.credentials),
      grace: grace && { ...grace, previous: grace.previous === undefined ? undefined : convert(grace.previous) },
    };
  }
  return mapped;
}

/** How an account encrypts, with credentials in another form. */
type WithCredentials<C> = Omit<Encryption, 'credentials' | 'grace'> & {
  readonly credentials: C;
  readonly grace: { readonly previous: C | undefined; readonly until: number } | undefined;
};

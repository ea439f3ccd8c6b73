import { isDeepStrictEqual } from 'node:util';
import type { Account, Encryption } from './account.ts';
import { environmentNames, type ApiKey, type EnvironmentName } from './api-key.ts';

/** One difference between two versions of an account. It contains no secrets, because it is logged. */
export interface Difference {
  readonly account: string;
  readonly change:
    | 'account_added'
    | 'account_removed'
    | 'account_renamed'
    | 'account_activated'
    | 'account_deactivated'
    | 'account_available'
    | 'account_unavailable'
    | 'key_issued'
    | 'key_revoked'
    | 'key_changed'
    | 'key_removed'
    | 'encryption_enabled'
    | 'encryption_disabled'
    | 'encryption_changed'
    | 'credentials_replaced'
    | 'grace_changed';
  /** The id of the API key. */
  readonly key?: string;
  readonly environment?: EnvironmentName;
}

/** Lists the differences between two versions of an account that can affect requests. When a key was last used is ignored. */
export function differences(before: Account | undefined, after: Account | undefined): readonly Difference[] {
  if (after === undefined) return before === undefined ? [] : [{ account: before.id, change: 'account_removed' }];
  if (before === undefined) return [{ account: after.id, change: 'account_added' }];
  // Maps, because an account may have thousands of keys.
  const [earlier, later] = [keysByHash(before), keysByHash(after)];
  return [
    ...differencesButKeys(before, after),
    ...after.keys.flatMap((key) => keyDifferences(after.id, earlier.get(key.hash), key)),
    ...before.keys.filter(({ hash }) => !later.has(hash)).flatMap((key) => keyDifferences(after.id, key, undefined)),
  ];
}

type WithoutKeys = Omit<Account, 'keys'>;

/** The same as `differences`, but ignores the account's keys. */
export function differencesButKeys(before: WithoutKeys, after: WithoutKeys): readonly Difference[] {
  const found: Difference[] = [];
  const account = after.id;
  if (before.name !== after.name) found.push({ account, change: 'account_renamed' });
  if (before.active !== after.active) {
    found.push({ account, change: after.active ? 'account_activated' : 'account_deactivated' });
  }
  if (before.unwrapError !== undefined || after.unwrapError !== undefined) {
    if (before.unwrapError === undefined) found.push({ account, change: 'account_unavailable' });
    if (after.unwrapError === undefined) found.push({ account, change: 'account_available' });
    return found;
  }
  for (const environment of environmentNames) {
    const change = encryptionChange(before.encryption[environment], after.encryption[environment]);
    if (change !== undefined) found.push({ account, change, environment });
  }
  return found;
}

/** The differences between two versions of a key. A version is undefined if the key does not exist in it. */
export function keyDifferences(
  account: string,
  before: ApiKey | undefined,
  after: ApiKey | undefined,
): readonly Difference[] {
  if (after === undefined) return before === undefined ? [] : [{ account, change: 'key_removed', key: before.id }];
  const key = after.id;
  if (before === undefined) return [{ account, change: 'key_issued', key }];
  if (before.revokedAt === undefined && after.revokedAt !== undefined) return [{ account, change: 'key_revoked', key }];
  return keyMembers.every((member) => before[member] === after[member])
    ? []
    : [{ account, change: 'key_changed', key }];
}

const keyMembers = ['id', 'prefix', 'hash', 'createdAt', 'expiresAt', 'revokedAt'] as const;

export function keysByHash({ keys }: Pick<Account, 'keys'>): ReadonlyMap<string, ApiKey> {
  return new Map(keys.map((key) => [key.hash, key]));
}

function encryptionChange(
  before: Encryption | undefined,
  after: Encryption | undefined,
): Difference['change'] | undefined {
  const [one, other] = [splitEncryption(before), splitEncryption(after)];
  if (isDeepStrictEqual(one, other)) return undefined;
  if (one.current === undefined && other.current !== undefined) return 'encryption_enabled';
  if (one.current !== undefined && other.current === undefined) return 'encryption_disabled';
  if (!isDeepStrictEqual(one.current, other.current)) return 'credentials_replaced';
  return isDeepStrictEqual(one.grace, other.grace) ? 'encryption_changed' : 'grace_changed';
}

/**
 * Splits encryption into parts that can be compared deeply. Codecs cannot be compared in this way, because they keep their credentials in
 * private fields, which a deep comparison ignores.
 */
function splitEncryption(encryption: Encryption | undefined): Readonly<Record<'current' | 'grace' | 'rest', unknown>> {
  if (encryption === undefined) return { current: undefined, grace: undefined, rest: undefined };
  if (encryption.type === 'ending') {
    const { previous, until } = encryption;
    return { current: undefined, grace: { previous: previous.pack(), until }, rest: undefined };
  }
  const { current, createdAt, grace } = encryption;
  const { key, iv, ...rest } = current.pack();
  return {
    current: { key, iv },
    grace: grace && { previous: grace.previous?.pack(), until: grace.until },
    rest: { createdAt, ...rest },
  };
}

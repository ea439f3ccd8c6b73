import { isDeepStrictEqual } from 'node:util';
import type { Account, Encryption } from './account.ts';
import { environmentNames, type ApiKey } from './api-key.ts';

/** Whether requests with a key are decided alike by both of its versions. When a key was last used makes no difference. */
export function equalKeys(one: ApiKey, other: ApiKey): boolean {
  return keyMembers.every((member) => one[member] === other[member]);
}

const keyMembers = ['id', 'prefix', 'hash', 'createdAt', 'expiresAt', 'revokedAt'] as const;

/** Whether two versions of an account are equal, apart from its keys. */
export function equalAccounts(one: Omit<Account, 'keys'>, other: Omit<Account, 'keys'>): boolean {
  if (one.id !== other.id || one.name !== other.name || one.active !== other.active) return false;
  return environmentNames.every((name) =>
    isDeepStrictEqual(comparable(one.encryption[name]), comparable(other.encryption[name])),
  );
}

/** Codecs keep their credentials in private fields, which a comparison does not see. */
function comparable(encryption: Encryption | undefined): object | undefined {
  if (encryption === undefined) return undefined;
  if (encryption.kind === 'ending') return { ...encryption, previous: encryption.previous.pack() };
  const { current, grace, ...rest } = encryption;
  return { ...rest, current: current.pack(), grace: grace && { ...grace, previous: grace.previous?.pack() } };
}

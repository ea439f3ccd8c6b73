import { environmentNames } from '../api-key.ts';
import { rfc3339 } from '../../input/value-types.ts';
import type { StoredAccount, StoredCredentials, StoredEncryption } from '../store.ts';

/** A value in the accounts file. Undefined members are not written. */
export type Plain = string | boolean | readonly Members[] | Members;
export interface Members {
  readonly [name: string]: Plain | undefined;
}

export function isMembers(value: Plain | undefined): value is Members {
  return typeof value === 'object' && !isList(value);
}

export function isList(value: Plain | undefined): value is readonly Members[] {
  return Array.isArray(value);
}

/** An account as it is written to the file. */
export function toMembers(account: StoredAccount): Members {
  const encryption: Record<string, Members> = {};
  for (const environment of environmentNames) {
    const one = account.encryption[environment];
    if (one !== undefined) encryption[environment] = toEncryptionMembers(one);
  }
  return {
    id: account.id,
    name: account.name,
    active: account.active,
    keys: account.keys.map(({ id, name, prefix, hash, lastFour, createdAt, expiresAt, revokedAt }) => ({
      id,
      name,
      prefix,
      sha256: hash,
      lastFour,
      createdAt: rfc3339(createdAt),
      expiresAt: formatDate(expiresAt),
      revokedAt: formatDate(revokedAt),
    })),
    encryption: Object.keys(encryption).length === 0 ? undefined : encryption,
  };
}

function toEncryptionMembers({ enabled, encoding, credentials, previous }: StoredEncryption): Members {
  return {
    enabled,
    ...toCredentialMembers(credentials),
    encoding,
    format: toFormat(credentials, 'text'),
    createdAt: formatDate(credentials?.createdAt),
    previous: previous && {
      ...toCredentialMembers(previous.credentials),
      format: toFormat(previous.credentials, credentials?.format ?? 'text'),
      until: rfc3339(previous.until),
    },
  };
}

function toCredentialMembers(credentials: StoredCredentials | undefined): Members {
  return { key: credentials?.key, iv: credentials?.iv };
}

/** The format of credentials, or undefined if it is the usual one, which is not written. */
function toFormat(credentials: StoredCredentials | undefined, usual: StoredCredentials['format']): string | undefined {
  return credentials?.format === usual ? undefined : credentials?.format;
}

function formatDate(time: number | undefined): string | undefined {
  return time === undefined ? undefined : rfc3339(time);
}

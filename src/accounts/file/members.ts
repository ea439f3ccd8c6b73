import { Scalar, stringify } from 'yaml';
import { isPlainScalar } from '../../yaml/simple.ts';
import { environmentNames } from '../api-key.ts';
import { rfc3339 } from '../../input/value-types.ts';
import type { StoredAccount, StoredCredentials, StoredEncryption } from '../store.ts';

/** A value of the accounts' file. Undefined members are not written. */
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

/** An account in the form of the file. */
export function membersOf(account: StoredAccount): Members {
  const encryption: Record<string, Members> = {};
  for (const environment of environmentNames) {
    const one = account.encryption[environment];
    if (one !== undefined) encryption[environment] = encryptionOf(one);
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
      expiresAt: dateOf(expiresAt),
      revokedAt: dateOf(revokedAt),
    })),
    encryption: Object.keys(encryption).length === 0 ? undefined : encryption,
  };
}

function encryptionOf({ enabled, encoding, credentials, previous }: StoredEncryption): Members {
  return {
    enabled,
    ...credentialsOf(credentials),
    encoding,
    format: formatOf(credentials, 'text'),
    createdAt: dateOf(credentials?.createdAt),
    previous: previous && {
      ...credentialsOf(previous.credentials),
      format: formatOf(previous.credentials, credentials?.format ?? 'text'),
      until: rfc3339(previous.until),
    },
  };
}

function credentialsOf(credentials: StoredCredentials | undefined): Members {
  return { key: credentials?.key, iv: credentials?.iv };
}

/** Optional members with default values are left out. */
function formatOf(credentials: StoredCredentials | undefined, usual: StoredCredentials['format']): string | undefined {
  return credentials?.format === usual ? undefined : credentials?.format;
}

function dateOf(time: number | undefined): string | undefined {
  return time === undefined ? undefined : rfc3339(time);
}

/**
 * An item of a list in lines, one member on each: the form that is read without the parser.
 *
 * @param indent the spaces before its dash
 */
export function itemLines(item: Members, indent: string): string {
  const column = `${indent}  `;
  return `${indent}- ${linesOf(item, column).slice(column.length)}`;
}

function linesOf(members: Members, indent: string): string {
  let lines = '';
  for (const [name, value] of Object.entries(members)) {
    if (value === undefined) continue;
    lines += `${indent}${name}:`;
    if (isMembers(value)) lines += `\n${linesOf(value, `${indent}  `)}`;
    else if (!isList(value)) lines += ` ${scalarText(value)}\n`;
    else if (value.length === 0) lines += ' []\n';
    else lines += `\n${value.map((item) => itemLines(item, `${indent}  `)).join('')}`;
  }
  return lines;
}

function scalarText(value: string | boolean): string {
  if (typeof value === 'boolean') return String(value);
  return stringify(styled(new Scalar(value)), { lineWidth: 0 }).replace(/\n$/, '');
}

/**
 * The scalar in a style that is read without the parser, whatever it contains: one name that needs the parser would make
 * it read the whole file.
 */
export function styled(scalar: Scalar): Scalar {
  const { value } = scalar;
  if (typeof value !== 'string') return scalar;
  // What looks like an anchor has to be looked at, too.
  const isPlain = isPlainScalar(value) && !/[&*]/.test(value);
  if (!isPlain) scalar.type = /["\\]/.test(value) ? 'QUOTE_SINGLE' : 'QUOTE_DOUBLE';
  return scalar;
}

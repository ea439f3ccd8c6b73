import { parseCredentials, sameCredentials } from '../envelope/credentials.ts';
import type { Credentials } from '../envelope/credentials.ts';
import { formatPath } from '../yaml/member-path.ts';
import type { MemberPath } from '../yaml/member-path.ts';
import { validate } from '../yaml/validate.ts';
import type { Partly } from '../yaml/validate.ts';
import { valuesIn } from '../yaml/values.ts';
import type { Env } from '../yaml/values.ts';
import type { YamlFile } from '../yaml/yaml-file.ts';
import type { Account, Encryption } from './account.ts';
import { accountsSchema } from './accounts-schema.ts';
import type { AccountsFile } from './accounts-schema.ts';
import { hashOf, prefixOf } from './api-key.ts';
import type { ApiKey } from './api-key.ts';

type AccountEntry = Partly<AccountsFile['accounts'][number]>;
type KeyEntry = Partly<AccountsFile['accounts'][number]['keys'][number]>;
type EncryptionEntry = Partly<NonNullable<AccountsFile['accounts'][number]['encryption']['test']>>;

/** Credentials and where their key stands. */
interface Placed {
  readonly credentials: Credentials;
  readonly path: MemberPath;
}

/**
 * Reads the accounts of their file. What is wrong is reported to the file; an account is complete where nothing was.
 */
export function readAccounts(file: YamlFile, env: Env): Account[] {
  const content = validate(file, accountsSchema(valuesIn({ env, directory: file.directory, files: file.files })));
  const reader = new AccountsReader(file);
  const accounts: Account[] = [];
  for (const [i, entry] of (content?.accounts ?? []).entries()) {
    const account = entry && reader.account(entry, ['accounts', i]);
    if (account !== undefined) accounts.push(account);
  }
  return accounts;
}

/** Makes accounts of entries that may be incomplete, and holds each against those before it. */
class AccountsReader {
  readonly #file: YamlFile;
  readonly #accountIds = new Map<string, MemberPath>();
  readonly #keyIds = new Map<string, MemberPath>();
  readonly #keyHashes = new Map<string, MemberPath>();
  readonly #credentialKeys = new Map<string, MemberPath>();

  constructor(file: YamlFile) {
    this.#file = file;
  }

  account(entry: AccountEntry, path: MemberPath): Account | undefined {
    const { id, name, active } = entry;
    this.#once(this.#accountIds, id, [...path, 'id'], 'id');
    const keys = (entry.keys ?? []).map((key, i) => key && this.#key(key, [...path, 'keys', i]));
    const test = this.#encryption(entry.encryption?.test, [...path, 'encryption', 'test']);
    const live = this.#encryption(entry.encryption?.live, [...path, 'encryption', 'live']);
    this.#differ(test.placed, live.placed);
    this.#warnOfSharing([...test.placed, ...live.placed], path);

    if (id === undefined || name === undefined || active === undefined || keys.includes(undefined)) return undefined;
    return {
      id,
      name,
      active,
      keys: keys.filter((key) => key !== undefined),
      encryption: {
        ...(test.encryption && { test: test.encryption }),
        ...(live.encryption && { live: live.encryption }),
      },
    };
  }

  #key(entry: KeyEntry, path: MemberPath): ApiKey | undefined {
    const { id, key, sha256, createdAt } = entry;
    this.#once(this.#keyIds, id, [...path, 'id'], 'id');
    if (key !== undefined) {
      for (const member of ['prefix', 'sha256'] as const) {
        if (entry[member] !== undefined) this.#file.report([...path, member], 'not beside "key": remove one of them');
      }
    } else if (sha256 === undefined && !this.#file.isWrong([...path, 'sha256'])) {
      this.#file.report([...path, 'key'], 'missing: expected "key", or "sha256" with "prefix"');
    } else if (entry.prefix === undefined) {
      this.#file.report([...path, 'prefix'], 'missing: a key kept as "sha256" needs it');
    }
    const hash = key === undefined ? sha256 : hashOf(key);
    const prefix = key === undefined ? entry.prefix : prefixOf(key);
    this.#once(this.#keyHashes, hash, [...path, key === undefined ? 'sha256' : 'key'], 'key');

    if (id === undefined || prefix === undefined || hash === undefined || createdAt === undefined) return undefined;
    return { id, prefix, hash, createdAt, expiresAt: entry.expiresAt, revokedAt: entry.revokedAt };
  }

  #encryption(entry: EncryptionEntry = {}, path: MemberPath): { encryption?: Encryption; placed: Placed[] } {
    const { enabled, encoding, format, createdAt, previous } = entry;
    const isGiven = enabled || entry.key !== undefined || entry.iv !== undefined;
    const current = isGiven ? this.#credentials(entry, format, path) : undefined;
    const before =
      previous?.key !== undefined || previous?.iv !== undefined
        ? this.#credentials(previous, format, [...path, 'previous'])
        : undefined;

    const placed: Placed[] = [];
    if (current !== undefined) placed.push({ credentials: current, path: [...path, 'key'] });
    if (before !== undefined) placed.push({ credentials: before, path: [...path, 'previous', 'key'] });
    if (!enabled || current === undefined || encoding === undefined) return { placed };
    const grace = previous?.until === undefined ? undefined : { previous: before, until: previous.until };
    return { placed, encryption: { credentials: current, encoding, createdAt, grace } };
  }

  /** The credentials of a key and an IV, of which neither may be missing. */
  #credentials(
    { key, iv }: Pick<EncryptionEntry, 'key' | 'iv'>,
    format: EncryptionEntry['format'],
    path: MemberPath,
  ): Credentials | undefined {
    if (key === undefined) this.#file.report([...path, 'key'], 'missing: expected the AES key');
    if (iv === undefined) this.#file.report([...path, 'iv'], 'missing: expected the IV');
    if (key === undefined || iv === undefined || format === undefined) return undefined;
    const credentials = parseCredentials(key, iv, format);
    if (!Array.isArray(credentials)) return credentials;
    for (const { member, message } of credentials) this.#file.report([...path, member], message);
    return undefined;
  }

  /** Reports a text that must stand once in the file. */
  #once(seen: Map<string, MemberPath>, text: string | undefined, path: MemberPath, what: string): void {
    if (text === undefined) return;
    const first = seen.get(text);
    if (first === undefined) seen.set(text, path);
    else this.#file.report(path, `the same ${what} as ${formatPath(first)}`);
  }

  /** A test key that leaked would otherwise read live traffic through the test environment. */
  #differ(test: readonly Placed[], live: readonly Placed[]): void {
    for (const { credentials, path } of live) {
      const same = test.find((other) => sameCredentials(other.credentials, credentials));
      if (same !== undefined) this.#file.report(path, `the same key as ${formatPath(same.path)}: live needs its own`);
    }
  }

  #warnOfSharing(placed: readonly Placed[], account: MemberPath): void {
    for (const { credentials, path } of placed) {
      const key = credentials.key.export().toString('latin1');
      const first = this.#credentialKeys.get(key);
      if (first === undefined) this.#credentialKeys.set(key, path);
      else if (first[1] !== account[1]) this.#file.warn(path, `the same key as ${formatPath(first)}`);
    }
  }
}

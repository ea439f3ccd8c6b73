import { sameCredentials, type Credentials } from '../../envelope/credentials.ts';
import { parseCredentials } from '../../envelope/formats.ts';
import { formatPath, type MemberPath } from '../../input/member-path.ts';
import { validate, type Input, type Partly } from '../../input/validate.ts';
import { valuesIn, type Env } from '../../yaml/values.ts';
import type { YamlFile } from '../../yaml/yaml-file.ts';
import { AccountsError } from '../accounts-error.ts';
import { accountsSchema, type AccountsFile } from './schema.ts';
import { environmentNames, readPrefix, type EnvironmentName } from '../api-key.ts';
import type { StoredAccount, StoredCredentials, StoredEncryption, StoredKey } from '../store.ts';
import { isWrapped, type Place, type Vault } from '../vault.ts';
import { sha256Hex } from '../../cryptography.ts';

/**
 * The number of keys with which a change to the file takes about a second. From this number on, tokens of accounts cannot issue keys,
 * because that would slow down everyone else's changes.
 */
export const maxKeysInFile = 5_000;

export function countKeys(accounts: readonly StoredAccount[]): number {
  return accounts.reduce((sum, { keys }) => sum + keys.length, 0);
}

type AccountEntry = Partly<AccountsFile['accounts'][number]>;
type KeyEntry = Partly<AccountsFile['accounts'][number]['keys'][number]>;
type EncryptionEntry = Partly<NonNullable<AccountsFile['accounts'][number]['encryption']['test']>>;

/** An accounts file, or another input with the same members. */
type AccountsSource = Input & Pick<YamlFile, 'isWrong' | 'warn'>;

/** Credentials, the strings that they were parsed from, and the path of their key. */
interface Placed {
  readonly credentials: Credentials;
  readonly stored: StoredCredentials;
  readonly path: MemberPath;
}

/** The members of an account and its keys that end access. */
export interface Revocable extends Pick<StoredAccount, 'id' | 'active'> {
  readonly keys: readonly Pick<StoredKey, 'hash' | 'revokedAt' | 'expiresAt'>[];
}

/** What was read. `revocable` has the accounts and keys that could be read, even if something else in them is wrong. */
export interface ReadAccounts {
  readonly accounts: StoredAccount[];
  readonly revocable: readonly Revocable[];
}

/**
 * Reads the accounts in a file, in the same order. Mistakes are reported to `file`, and an account with a mistake is left out. Wrapped
 * strings stay wrapped.
 *
 * If only some of the wrapped strings can be unwrapped, each failure is by default only a warning, because it affects a single account.
 *
 * @param vault unwraps strings to check them; if undefined, they are not checked
 */
export function readAccounts(
  file: YamlFile,
  env: Env,
  vault: Vault | undefined,
  failures: UnopenedSeverity = 'warning',
): ReadAccounts {
  return accountsIn(file, accountsSchema(valuesIn(file, env)), vault, failures);
}

/**
 * Reads accounts from any input that has the same members as an accounts file; see `readAccounts`.
 *
 * @param failures how a string that cannot be unwrapped is reported
 */
export function accountsIn(
  file: AccountsSource,
  schema: ReturnType<typeof accountsSchema>,
  vault: Vault | undefined,
  failures: UnopenedSeverity = 'problem',
): ReadAccounts {
  const content = validate(file, schema);
  const reader = new AccountsReader(file, vault);
  const accounts: StoredAccount[] = [];
  for (const [i, entry] of (content?.accounts ?? []).entries()) {
    const account = entry && reader.account(entry, ['accounts', i]);
    if (account !== undefined) accounts.push(account);
  }
  reader.end(failures);
  return { accounts, revocable: reader.revocable };
}

/**
 * How sealed strings that cannot be unwrapped are reported. `warning`: as warnings, unless none can be unwrapped, because the master key is
 * wrong then.
 */
export type UnopenedSeverity = 'problem' | 'warning' | 'warning, even of all';

/** The owner of credentials; `account` is undefined if the account's id is invalid. */
interface Owner {
  readonly account: string | undefined;
  readonly environment: EnvironmentName;
}

/** Converts entries, which may be incomplete, to accounts, and checks that ids, keys and credentials do not occur twice. */
class AccountsReader {
  readonly #file: AccountsSource;
  readonly #vault: Vault | undefined;
  readonly revocable: Revocable[] = [];
  readonly #accountIds = new Map<string, MemberPath>();
  readonly #keyIds = new Map<string, MemberPath>();
  readonly #keyHashes = new Map<string, MemberPath>();
  readonly #credentialKeys = new Map<string, MemberPath>();
  readonly #wrapped: { readonly path: MemberPath; readonly error: AccountsError | undefined }[] = [];

  constructor(file: AccountsSource, vault: Vault | undefined) {
    this.#file = file;
    this.#vault = vault;
  }

  account(entry: AccountEntry, path: MemberPath): StoredAccount | undefined {
    const { id, name, active } = entry;
    this.#once(this.#accountIds, id, [...path, 'id'], 'id');
    const ends: Revocable['keys'][number][] = [];
    const keys = (entry.keys ?? []).map((key, i) => key && this.#key(key, [...path, 'keys', i], ends));
    this.revocable.push({ id: id ?? '', active: active ?? true, keys: ends });
    const encryption: Partial<Record<EnvironmentName, StoredEncryption>> = {};
    const placed: Record<EnvironmentName, Placed[]> = { test: [], live: [] };
    let isWhole = true;
    for (const environment of environmentNames) {
      const written = entry.encryption?.[environment];
      if (written === undefined) continue;
      const read = this.#encryption(written, [...path, 'encryption', environment], { account: id, environment });
      placed[environment] = read.placed;
      if (read.stored === undefined) isWhole = false;
      else encryption[environment] = read.stored;
    }
    this.#differ(placed.test, placed.live);
    this.#warnOfSharing([...placed.test, ...placed.live], path);

    // If only the unreadable environment were left out, the account would be treated as one that does not encrypt there.
    if (!isWhole || keys.includes(undefined)) return undefined;
    if (id === undefined || name === undefined || active === undefined) return undefined;
    return { id, name, active, keys: keys.filter((key) => key !== undefined), encryption };
  }

  /**
   * Reports the strings that could not be unwrapped. If there are several wrapped strings and none could be unwrapped, the master key is
   * wrong, which is reported only once.
   */
  end(failures: UnopenedSeverity): void {
    const failed = this.#wrapped.filter(({ error }) => error !== undefined);
    const [first] = failed;
    const isAll = failed.length === this.#wrapped.length;
    if (first?.error?.code === 'master_key_missing' && failures !== 'warning, even of all') {
      this.#file.report(first.path, 'sealed: set accounts.masterKey to the master key');
    } else if (failures !== 'warning, even of all' && isAll && first !== undefined && failed.length > 1) {
      this.#file.report(first.path, 'does not open, nor does any other sealed value: expected a different master key');
    } else {
      const isWarning = failures === 'warning, even of all' || (failures === 'warning' && !isAll);
      for (const { path } of failed) {
        const message = 'does not open: sealed with another master key, or for another account, environment or member';
        if (isWarning) this.#file.warn(path, `${message}; requests from this account are refused`);
        else this.#file.report(path, message);
      }
    }
  }

  /** @param ends receives when the key ends, even if something else in the entry is wrong */
  #key(entry: KeyEntry, path: MemberPath, ends: Revocable['keys'][number][]): StoredKey | undefined {
    const { id, key, sha256, createdAt } = entry;
    this.#once(this.#keyIds, id, [...path, 'id'], 'id');
    if (key !== undefined) {
      for (const member of ['prefix', 'sha256', 'lastFour'] as const) {
        if (entry[member] !== undefined)
          this.#file.report([...path, member], 'cannot be combined with "key": remove one of them');
      }
    } else if (sha256 === undefined && !this.#file.isWrong([...path, 'sha256'])) {
      this.#file.report([...path, 'key'], 'missing: expected "key", or "sha256" with "prefix"');
    } else if (entry.prefix === undefined) {
      this.#file.report([...path, 'prefix'], 'missing: required for a key stored as "sha256"');
    }
    const hash = key === undefined ? sha256 : sha256Hex(key);
    const prefix = key === undefined ? entry.prefix : readPrefix(key);
    if (hash !== undefined) ends.push({ hash, revokedAt: entry.revokedAt, expiresAt: entry.expiresAt });
    this.#once(this.#keyHashes, hash, [...path, key === undefined ? 'sha256' : 'key'], 'key');

    if (id === undefined || prefix === undefined || hash === undefined || createdAt === undefined) return undefined;
    const { name, expiresAt, revokedAt } = entry;
    // If `key` is set, the file contains the whole key, so `lastFour` would only repeat its end.
    const lastFour = key === undefined ? entry.lastFour : undefined;
    return { id, name, prefix, hash, lastFour, createdAt, expiresAt, revokedAt, lastUsedAt: undefined };
  }

  #encryption(
    entry: EncryptionEntry,
    path: MemberPath,
    owner: Owner,
  ): { stored: StoredEncryption | undefined; placed: Placed[] } {
    const { enabled, encoding, format, createdAt, previous } = entry;
    const isGiven = enabled || entry.key !== undefined || entry.iv !== undefined;
    const current = isGiven ? this.#credentials({ ...entry, format, createdAt }, path, owner) : undefined;
    const isPlaintext = previous?.key === undefined && previous?.iv === undefined;
    const before = isPlaintext
      ? undefined
      : this.#credentials(
          { ...previous, format: previous.format ?? format, createdAt: undefined },
          [...path, 'previous'],
          owner,
        );

    const placed = [current, before].filter((each): each is Placed => each !== undefined && 'credentials' in each);
    // Previous credentials that cannot be read must not be taken to mean that plaintext is accepted.
    const isBroken = enabled === undefined || encoding === undefined || (!isPlaintext && before === undefined);
    if (isBroken) return { stored: undefined, placed };
    const grace =
      previous?.until === undefined
        ? undefined
        : { credentials: before?.stored, until: previous.until, lastUsedAt: undefined };
    const common = { encoding, previous: grace };
    const stored: StoredEncryption | undefined = !enabled
      ? { enabled, credentials: current?.stored, ...common }
      : current && { enabled, credentials: current.stored, ...common };
    return { stored, placed };
  }

  /** Reads credentials, for which both the key and the IV are needed. */
  #credentials(
    { key, iv, format, createdAt }: Pick<EncryptionEntry, 'key' | 'iv' | 'format' | 'createdAt'>,
    path: MemberPath,
    owner: Owner,
  ): Placed | Omit<Placed, 'credentials'> | undefined {
    if (key === undefined) this.#file.report([...path, 'key'], 'missing: expected the AES key');
    if (iv === undefined) this.#file.report([...path, 'iv'], 'missing: expected the IV');
    if (key === undefined || iv === undefined || format === undefined) return undefined;
    const stored = { stored: { key, iv, format, createdAt }, path: [...path, 'key'] };
    // The strings were sealed with a master key that this sidecar is not meant to have, so they cannot be checked.
    if (!this.#vault?.isFor(owner.environment) && (isWrapped(key) || isWrapped(iv))) return stored;
    const plainKey = this.#unwrapped(key, [...path, 'key'], { ...owner, member: 'key' });
    const plainIv = this.#unwrapped(iv, [...path, 'iv'], { ...owner, member: 'iv' });
    // A string that cannot be unwrapped is kept unchanged. `end` reports it.
    if (plainKey === undefined || plainIv === undefined) return stored;
    const credentials = parseCredentials(plainKey, plainIv, format);
    if (!Array.isArray(credentials)) return { ...stored, credentials };
    for (const { member, message } of credentials) this.#file.report([...path, member], message);
    return undefined;
  }

  #unwrapped(
    text: string,
    path: MemberPath,
    { account = '', ...place }: Owner & Pick<Place, 'member'>,
  ): string | undefined {
    if (!isWrapped(text)) return text;
    try {
      const plain = this.#vault?.unwrap(text, { account, ...place });
      this.#wrapped.push({ path, error: undefined });
      return plain;
    } catch (error) {
      if (!(error instanceof AccountsError)) throw error;
      this.#wrapped.push({ path, error });
      return undefined;
    }
  }

  /** Reports a string that must be unique in the file but occurs again. */
  #once(seen: Map<string, MemberPath>, text: string | undefined, path: MemberPath, what: string): void {
    if (text === undefined) return;
    const first = seen.get(text);
    if (first === undefined) seen.set(text, path);
    else this.#file.report(path, `the same ${what} as ${formatPath(first)}`);
  }

  /**
   * Reports an AES key that is used in both test and live, because a leaked test key could then be used to read live traffic through the
   * test environment.
   */
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

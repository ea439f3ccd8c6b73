import type { KeyObject } from 'node:crypto';
import { realpathSync } from 'node:fs';
import { dirname } from 'node:path';
import { isDeepStrictEqual } from 'node:util';
import { Files, displayName } from '../../yaml/files.ts';
import { formatFileProblem, type FileProblem } from '../../yaml/file-problem.ts';
import type { Env } from '../../yaml/values.ts';
import { WrongValue } from '../../input/wrong-value.ts';
import { YamlFile } from '../../yaml/yaml-file.ts';
import { AccountsError, type AccountsErrorCode } from '../accounts-error.ts';
import { isSelected } from '../conditions.ts';
import { readAccounts } from './read.ts';
import { changedText, membersOf } from './edit.ts';
import { lockFile } from './lock.ts';
import { Receipts } from './receipts.ts';
import { replaceFile, versionOf, type Companion } from './replace.ts';
import { Trail } from './trail.ts';
import { lastUnexpectedEnvelope } from './unexpected-envelopes.ts';
import type { EnvironmentName } from '../api-key.ts';
import type {
  AuditEvent,
  Changed,
  Decide,
  EventFilter,
  IdempotencyKey,
  Selection,
  Store,
  StoredAccount,
  Unreadable,
} from '../store.ts';
import { Vault } from '../vault.ts';

/** How long to wait for another writer, in milliseconds. */
const patience = 10_000;
/** How often a change is restarted because another program changed the file meanwhile. */
const attempts = 3;

export interface FileStoreOptions {
  /** The path of the accounts' file. If it is a symbolic link, its target is rewritten. */
  readonly file: string;
  /** For references in the file. */
  readonly env: Env;
  /** If sealed texts in the file do not open, the file is not changed. */
  readonly masterKeys: readonly KeyObject[];
}

/** As `Decide`; may return a promise. */
type Deciding<T> = (...existing: Parameters<Decide<T>>) => ReturnType<Decide<T>> | Promise<ReturnType<Decide<T>>>;

/** The accounts' file as a store. Each operation reads the whole file, so that it is never out of date. */
export class FileStore implements Store {
  readonly recordsUse = false;
  readonly #file: string;
  readonly #env: Env;
  readonly #vault: Vault;

  constructor({ file, env, masterKeys }: FileStoreOptions) {
    this.#file = file;
    this.#env = env;
    this.#vault = new Vault(masterKeys);
  }

  async read(id: string): Promise<StoredAccount | undefined> {
    return this.#read(this.#target()).accounts.find((account) => account.id === id);
  }

  async findByKey(hash: string): Promise<StoredAccount | undefined> {
    return this.#read(this.#target()).accounts.find(({ keys }) => keys.some((key) => key.hash === hash));
  }

  async *list(after = '', _unreadable?: Unreadable, selection?: Selection): AsyncIterable<StoredAccount> {
    const { accounts } = this.#read(this.#target());
    const selected = accounts.filter((account) => account.id > after && isSelected(account, selection));
    // Ids are ASCII: the order of their UTF-16 code units is that of their bytes.
    yield* selected.toSorted((a, b) => (a.id < b.id ? -1 : 1));
  }

  /** @param decide may take its time: the lock is held meanwhile */
  async change<T>(ids: readonly string[], decide: Deciding<T>, once?: IdempotencyKey): Promise<Changed<T>> {
    return this.#locked(async (path) => {
      const receipts = new Receipts(path);
      const receipt = once && receipts.find(once);
      if (receipt !== undefined) return { outcome: 'repeated', receipt };
      for (let attempt = 1; ; attempt++) {
        const read = this.#read(path);
        const wanted = new Set(ids);
        const asked = read.accounts.filter(({ id }) => wanted.has(id));
        const decision = await decide(new Map(asked.map((account) => [account.id, account])));
        const isKept = once !== undefined && decision.receipt !== undefined;
        const kept = isKept ? receipts.with(once, decision.receipt) : undefined;
        if (
          this.#write(path, read, { accounts: decision.accounts, events: decision.events, receipts: kept }, attempt)
        ) {
          return { outcome: 'changed', result: decision.result };
        }
      }
    });
  }

  async changeAll(rewrite: (account: StoredAccount) => StoredAccount, event: AuditEvent): Promise<number> {
    return this.#locked(async (path) => {
      for (let attempt = 1; ; attempt++) {
        const read = this.#read(path);
        const different = read.accounts
          .map((account) => [account, rewrite(account)] as const)
          .filter(([before, after]) => !isDeepStrictEqual(before, after));
        const accounts = different.map(([, after]) => after);
        const events = [{ ...event, details: { ...event.details, accounts: accounts.length } }];
        if (this.#write(path, read, { accounts, events, receipts: undefined }, attempt)) return accounts.length;
      }
    });
  }

  async *events(filter: EventFilter, unreadable?: Unreadable): AsyncIterable<AuditEvent> {
    try {
      yield* new Trail(this.#target()).read(filter, unreadable);
    } catch (error) {
      throw this.#failure(error);
    }
  }

  async lastUnexpectedEnvelope(account: string, environment: EnvironmentName): Promise<number | undefined> {
    try {
      return lastUnexpectedEnvelope(this.#target(), account, environment);
    } catch (error) {
      throw this.#failure(error);
    }
  }

  async close(): Promise<void> {}

  /** The target of the path: replacing a symbolic link would leave the file itself unchanged. */
  #target(): string {
    try {
      return realpathSync(this.#file);
    } catch (error) {
      // Without the right to search its folder, the file cannot even be read.
      const isHidden = isSystemError(error) && error.code === 'EACCES';
      throw this.#failure(isHidden ? new WrongValue('cannot read the file: permission denied') : error);
    }
  }

  async #locked<T>(work: (path: string) => Promise<T>): Promise<T> {
    const path = this.#target();
    let release: (() => void) | undefined;
    try {
      release = await lockFile(path, patience);
      return await work(path);
    } catch (error) {
      throw this.#failure(error);
    } finally {
      release?.();
    }
  }

  #read(path: string): Read {
    try {
      // Before the text: what changes in between is noticed when the text is to be replaced.
      const version = versionOf(path);
      const { text, accounts, problems } = this.#parse(path, this.#vault);
      const [first] = problems;
      if (first === undefined) return { version, text, accounts };
      const others = problems.length === 1 ? '' : ` (and ${problems.length - 1} more: run "check")`;
      throw new AccountsError('store_invalid', formatFileProblem(first) + others);
    } catch (error) {
      throw this.#failure(error);
    }
  }

  /** @param text in place of what the file holds */
  #parse(
    path: string,
    vault?: Vault,
    text?: string,
  ): Pick<Read, 'text' | 'accounts'> & { readonly problems: readonly FileProblem[] } {
    const file = new YamlFile(path, new Files(), dirname(this.#file), text);
    const accounts = readAccounts(file, this.#env, vault);
    return { text: file.text, accounts, problems: file.problems };
  }

  /** Returns false if the file was changed meanwhile, and another attempt is worth it. */
  #write(path: string, read: Read, { accounts: changed, events, receipts }: Written, attempt: number): boolean {
    if (changed.length === 0 && receipts === undefined && events.length === 0) return true;
    const wanted = new Map([...read.accounts, ...changed].map((account) => [account.id, account]));
    refuseDuplicates([...wanted.values()]);
    const { text, part, ids } =
      changed.length === 0
        ? { text: read.text, part: 'accounts: []', ids: [] }
        : changedText(read.text, read.accounts, changed);
    const expected = ids.flatMap((id) => wanted.get(id) ?? []);
    const check = (candidate: string): void => {
      // Sealed texts are not opened: they may be sealed with another master key from now on.
      const { accounts, problems } = this.#parse(candidate, undefined, part);
      if (problems.length === 0 && isDeepStrictEqual(accounts.map(membersOf), expected.map(membersOf))) return;
      throw new AccountsError('store_invalid', `${displayName(path)} ${problems[0]?.message ?? entangled}`);
    };
    const takeAway = new Trail(path).append(events);
    let written: boolean;
    try {
      written = replaceFile(path, text, read.version, check, receipts);
    } catch (error) {
      // If only the last step failed, which comes after the change, the event is true.
      if (versionOf(path) === read.version) takeAway();
      throw error;
    }
    if (!written) takeAway();
    if (!written && attempt === attempts) {
      throw new AccountsError('store_changed', `${displayName(path)} was changed by another program: try again`);
    }
    return written;
  }

  #failure(error: unknown): unknown {
    if (error instanceof AccountsError) return error;
    const name = displayName(this.#file);
    if (error instanceof WrongValue) return new AccountsError('store_unavailable', `${name}: ${error.message}`, error);
    if (!isSystemError(error)) return error;
    const known = failures[error.code];
    if (known !== undefined) return new AccountsError(known[0], `${name} ${known[1]}`, error);
    const other = error.path === undefined ? name : displayName(error.path);
    return new AccountsError('store_unavailable', `${other} cannot be used: ${error.code}`, error);
  }
}

/** The parts of a change that are written together. */
interface Written {
  readonly accounts: readonly StoredAccount[];
  readonly events: readonly AuditEvent[];
  readonly receipts: Companion | undefined;
}

/** A version of the file that was read and found valid. */
interface Read {
  readonly version: string;
  readonly text: string;
  readonly accounts: readonly StoredAccount[];
}

/** An error of the file system, or of a call to it. */
function isSystemError(error: unknown): error is { readonly code: string; readonly path?: string } {
  return error instanceof Error && 'syscall' in error && 'code' in error && typeof error.code === 'string';
}

const entangled = 'would be changed in more than was asked for: write out its aliases (*name) first';

const cannotWrite = 'make the change where the file comes from';

const failures: Readonly<Record<string, readonly [AccountsErrorCode, string]>> = {
  EROFS: ['store_read_only', `is on a read-only file system: ${cannotWrite}`],
  EACCES: ['store_read_only', `or its folder may not be written by this user: ${cannotWrite}`],
  EPERM: ['store_read_only', `belongs to another user: ${cannotWrite}, or as that user`],
  ENOSPC: ['disk_full', 'was not changed: no space is left on the device'],
  EDQUOT: ['disk_full', 'was not changed: the disk quota is used up'],
  ENOENT: ['store_unavailable', 'does not exist'],
};

/** @throws AccountsError `key_exists` if two keys would have the same id or the same hash */
function refuseDuplicates(accounts: readonly StoredAccount[]): void {
  const seen = new Set<string>();
  for (const account of accounts) {
    for (const { id, hash } of account.keys) {
      for (const name of [`id ${id}`, `hash ${hash}`]) {
        if (seen.has(name)) {
          throw new AccountsError('key_exists', `a key of account ${account.id} is already in the store: ${id}`);
        }
        seen.add(name);
      }
    }
  }
}

import type { KeyObject } from 'node:crypto';
import { realpathSync } from 'node:fs';
import { dirname } from 'node:path';
import { isDeepStrictEqual } from 'node:util';
import { Files, displayName } from '../../yaml/files.ts';
import { formatFileProblem, type FileProblem } from '../../yaml/file-problem.ts';
import type { Env } from '../../yaml/values.ts';
import { WrongValue } from '../../input/value-types.ts';
import { YamlFile } from '../../yaml/yaml-file.ts';
import { AccountsError } from '../accounts-error.ts';
import { isSelected } from '../conditions.ts';
import { readAccounts } from './read.ts';
import { changedText } from './edit.ts';
import { fileError, isSystemError } from './failures.ts';
import { lockFile } from './lock.ts';
import { membersOf } from './members.ts';
import { Receipts } from './receipts.ts';
import { replaceFile, versionOf, type Companion } from './replace.ts';
import { Trail } from './trail.ts';
import { lastUnexpectedEnvelope } from './unexpected-envelopes.ts';
import type { EnvironmentName } from '../api-key.ts';
import type {
  AuditEvent,
  Changed,
  Decide,
  Decision,
  EventFilter,
  IdempotencyKey,
  RecordedEvent,
  Selection,
  Store,
  StoredAccount,
  StoredKey,
  Unreadable,
} from '../store.ts';
import { Vault } from '../vault.ts';

/** How long to wait for another writer, in milliseconds. */
const patience = 10_000;
/** The most attempts at a change that conflicts with another program's. */
const attempts = 3;

export interface FileStoreOptions {
  /** The path of the accounts' file. If it is a symbolic link, its target is rewritten. */
  readonly file: string;
  /** For references in the file. */
  readonly env: Env;
  /** If they unwrap none of the file's wrapped texts, the file is not changed. */
  readonly masterKeys: readonly KeyObject[];
}

/**
 * The accounts' file as a store. Each operation reads the whole file, so that it is never out of date; a text that it knows is not
 * parsed again.
 */
export class FileStore implements Store {
  readonly recordsUse = false;
  readonly #file: string;
  readonly #env: Env;
  readonly #vault: Vault;
  /** The text that was read or written last, and its accounts. Undefined if they depend on other files. */
  #known: Content | undefined;

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

  async change<T>(ids: readonly string[], decide: Decide<T>, idempotencyKey?: IdempotencyKey): Promise<Changed<T>> {
    return this.#locked((path): Changed<T> => {
      const receipts = new Receipts(path);
      const receipt = idempotencyKey && receipts.find(idempotencyKey);
      if (receipt !== undefined) return { outcome: 'repeated', receipt };
      const wanted = new Set(ids);
      const result = this.#rewrite(path, ({ accounts }) => {
        const existing = accounts.filter(({ id }) => wanted.has(id));
        const decision = decide(new Map(existing.map((account) => [account.id, account])));
        const isKept = idempotencyKey !== undefined && decision.receipt !== undefined;
        return { ...decision, receipts: isKept ? receipts.with(idempotencyKey, decision.receipt) : undefined };
      });
      return { outcome: 'changed', result };
    });
  }

  async changeAll(rewrite: (account: StoredAccount) => StoredAccount, event: AuditEvent): Promise<number> {
    return this.#locked((path) =>
      this.#rewrite(path, (read) => {
        const different = read.accounts
          .map((account) => [account, rewrite(account)] as const)
          .filter(([before, after]) => !isDeepStrictEqual(before, after));
        const accounts = different.map(([, after]) => after);
        const result = accounts.length;
        const events = [{ ...event, details: { ...event.details, accounts: result } }];
        return { accounts, events, receipts: undefined, result };
      }),
    );
  }

  async *events(filter: EventFilter, unreadable?: Unreadable): AsyncIterable<RecordedEvent> {
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

  /** @param work is synchronous: the lock is released when it returns */
  async #locked<T>(work: (path: string) => T): Promise<T> {
    const path = this.#target();
    let release: (() => void) | undefined;
    try {
      release = await lockFile(path, patience);
      return work(path);
    } catch (error) {
      throw this.#failure(error);
    } finally {
      release?.();
    }
  }

  #read(path: string): Read {
    try {
      // Before the text is read, so that a change in between is noticed when the text is replaced.
      const version = versionOf(path);
      const files = new Files();
      const text = files.read(path);
      if (text === this.#known?.text) return { version, ...this.#known };
      // The store needs no credentials: one that is unwrapped shows that it has the right master key.
      const { accounts, problems } = this.#parse(path, files, text, this.#vault);
      const [first] = problems;
      if (first === undefined) {
        const readsOthers = files.seen.size > 1;
        this.#known = readsOthers ? undefined : { text, accounts };
        return { version, text, accounts };
      }
      const others = problems.length === 1 ? '' : ` (and ${problems.length - 1} more: run "check")`;
      throw new AccountsError('store_invalid', formatFileProblem(first) + others);
    } catch (error) {
      throw this.#failure(error);
    }
  }

  /** Reads a text as the file's. @param vault undefined: no text is unwrapped */
  #parse(path: string, files: Files, text: string, vault?: Vault): Parsed {
    const file = new YamlFile(path, files, dirname(this.#file), text);
    const accounts = readAccounts(file, this.#env, vault, 'one');
    return { accounts, problems: file.problems };
  }

  /** Applies `decide` and writes the result; retries if another program changed the file. */
  #rewrite<T>(path: string, decide: (read: Read) => Rewrite<T>): T {
    for (let attempt = 1; attempt <= attempts; attempt++) {
      const read = this.#read(path);
      const rewrite = decide(read);
      if (this.#write(path, read, rewrite)) return rewrite.result;
    }
    throw new AccountsError('store_changed', `${displayName(path)} was changed by another program: try again`);
  }

  /** Returns false, with nothing changed, if another program changed the file. */
  #write(path: string, read: Read, { accounts: changed, events, receipts }: Rewrite<unknown>): boolean {
    if (changed.length === 0 && receipts === undefined && events.length === 0) return true;
    const ids = new Set(changed.map(({ id }) => id));
    refuseDuplicates(
      read.accounts.filter(({ id }) => !ids.has(id)),
      changed,
    );
    const { text, part, accounts } =
      changed.length === 0
        ? { text: read.text, part: 'accounts: []', accounts: [] }
        : changedText(read.text, read.accounts, changed);
    let rewritten: readonly StoredAccount[] = [];
    const check = (candidate: string): void => {
      // Nothing is unwrapped: the texts may be wrapped with another master key from now on.
      const { accounts: parsed, problems } = this.#parse(candidate, new Files(), part);
      rewritten = parsed;
      const isRight = isDeepStrictEqual(rewritten.map(membersOf), accounts.map(membersOf));
      if (problems.length === 0 && isRight) return;
      throw new AccountsError('store_invalid', `${displayName(path)} ${problems[0]?.message ?? entangled}`);
    };
    const rollBack = new Trail(path).append(events);
    let written: boolean;
    try {
      written = replaceFile(path, text, read.version, check, receipts);
    } catch (error) {
      // If only the final sync failed, the change is in place and its event stays.
      if (versionOf(path) === read.version) rollBack();
      throw error;
    }
    if (!written) rollBack();
    else if (this.#known !== undefined) this.#known = { text, accounts: replaced(read.accounts, rewritten) };
    return written;
  }

  #failure(error: unknown): unknown {
    return fileError(displayName(this.#file), error);
  }
}

/** A decision, and the receipts to be written with it. */
interface Rewrite<T> extends Decision<T> {
  readonly receipts: Companion | undefined;
}

/** A valid text and its accounts. */
interface Content {
  readonly text: string;
  readonly accounts: readonly StoredAccount[];
}

/** A version of the file that was read and found valid. */
interface Read extends Content {
  readonly version: string;
}

interface Parsed {
  readonly accounts: readonly StoredAccount[];
  readonly problems: readonly FileProblem[];
}

const entangled = 'would be changed in more than was asked for: write out its aliases (*name) first';

/** Accounts with the new versions of some in their places, and with new ones at the end. */
function replaced(accounts: readonly StoredAccount[], changed: readonly StoredAccount[]): readonly StoredAccount[] {
  return [...new Map([...accounts, ...changed].map((account) => [account.id, account])).values()];
}

/** @throws AccountsError `key_exists` if a changed account has a key with the id or the hash of another key */
function refuseDuplicates(others: readonly StoredAccount[], changed: readonly StoredAccount[]): void {
  const [ids, hashes] = [new Set<string>(), new Set<string>()];
  const add = ({ id, hash }: StoredKey): void => void (ids.add(id), hashes.add(hash));
  for (const { keys } of others) keys.forEach(add);
  for (const account of changed) {
    for (const key of account.keys) {
      if (ids.has(key.id) || hashes.has(key.hash)) {
        throw new AccountsError('key_exists', `a key of account ${account.id} is already in the store: ${key.id}`);
      }
      add(key);
    }
  }
}

import { realpathSync } from 'node:fs';
import { isDeepStrictEqual } from 'node:util';
import type { Line } from '../../audit/lines.ts';
import { displayName, permissionDenied } from '../../yaml/files.ts';
import type { Env } from '../../yaml/values.ts';
import { WrongValue } from '../../input/value-types.ts';
import { AccountsError } from '../accounts-error.ts';
import { isSelected } from '../conditions.ts';
import { selectEvents } from '../event-filter.ts';
import type { TrailOptions } from '../events.ts';
import { countKeys, maxKeysInFile } from './read.ts';
import { Contents, type Content } from './contents.ts';
import { fileError, isSystemError } from './failures.ts';
import { lockFile } from './lock.ts';
import { refuseDuplicates, refuseInTheClear } from './conflicts.ts';
import { Receipts } from './receipts.ts';
import { replaceFile, readVersion, type Companion } from './replace.ts';
import { Trail } from './trail.ts';
import type {
  AppendedEvent,
  AuditEvent,
  ChangeResult,
  Decide,
  Decision,
  EventFilter,
  Hints,
  IdempotencyKey,
  RecordedEvent,
  RewriteAccount,
  RewriteResult,
  Selection,
  Store,
  StoredAccount,
  Unreadable,
} from '../store.ts';

/** How long to wait for another writer, in milliseconds. */
const lockTimeout = 10_000;
/** Maximum number of attempts at a change that conflicts with a change by another program. */
const attempts = 3;

export interface FileStoreOptions extends TrailOptions {
  /** The path of the accounts file. If it is a symbolic link, its target is rewritten. */
  readonly file: string;
  /** Environment variables for references in the file. */
  readonly env: Env;
}

/**
 * A store that keeps the accounts in a file. Each operation reads the whole file, so that the store is never out of date. Text that has
 * not changed is not parsed again.
 */
export class FileStore implements Store {
  readonly recordsUse = false;
  /** This number is large, because each change rewrites the whole file. */
  readonly changedAtOnce = 5_000;
  readonly #file: string;
  readonly #trailOptions: TrailOptions;
  readonly #contents: Contents;

  constructor({ file, env, ...trail }: FileStoreOptions) {
    this.#file = file;
    this.#contents = new Contents(file, env);
    this.#trailOptions = trail;
  }

  async read(id: string): Promise<StoredAccount | undefined> {
    return this.#read(this.#target()).accounts.find((account) => account.id === id);
  }

  async readKeys(id: string, limit: number, from: string | undefined): Promise<StoredAccount | undefined> {
    return withKeysFrom(await this.read(id), limit, from);
  }

  async findByKey(hash: string): Promise<StoredAccount | undefined> {
    return this.#read(this.#target()).accounts.find(({ keys }) => keys.some((key) => key.hash === hash));
  }

  async *list(after = '', _unreadable?: Unreadable, selection?: Selection): AsyncIterable<StoredAccount> {
    const { accounts } = this.#read(this.#target());
    const selected = accounts.filter((account) => account.id > after && isSelected(account, selection));
    // Ids are ASCII, so the order of their UTF-16 code units is the order of their bytes.
    yield* selected.toSorted((a, b) => (a.id < b.id ? -1 : 1));
  }

  async change<T>(
    ids: readonly string[],
    decide: Decide<T>,
    idempotencyKey?: IdempotencyKey,
    { urgent = false, ofAccount = false }: Hints = {},
  ): Promise<ChangeResult<T>> {
    const { result, appended } = await this.#rewrite(urgent, (read, path): Rewrite<Outcome<T>> => {
      const receipts = new Receipts(path);
      const receipt = idempotencyKey && receipts.find(idempotencyKey);
      if (receipt !== undefined)
        return { accounts: [], events: [], receipts: undefined, result: { outcome: 'repeated', receipt } };
      const wanted = new Set(ids);
      const existing = read.accounts.filter(({ id }) => wanted.has(id));
      const { result, ...decision } = decide(new Map(existing.map((account) => [account.id, account])));
      const isFull = (): boolean => countKeys(read.accounts) >= maxKeysInFile;
      if (ofAccount && countKeys(decision.accounts) > countKeys(existing) && isFull())
        throw new AccountsError(
          'too_many_keys',
          `the accounts file has ${maxKeysInFile} keys, the maximum for tokens of accounts: ask an operator`,
        );
      const kept =
        idempotencyKey === undefined || decision.receipt === undefined
          ? undefined
          : receipts.with(idempotencyKey, decision.receipt);
      return { ...decision, receipts: kept, result: { outcome: 'changed', result } };
    });
    return result.outcome === 'repeated' ? result : { ...result, appended };
  }

  async *changeAll(rewrite: RewriteAccount, event: AuditEvent): AsyncIterable<RewriteResult> {
    const { result: accounts, appended } = await this.#rewrite(false, (read) => {
      const different = read.accounts
        .map((account) => [account, rewrite(account)] as const)
        .filter(([before, after]) => !isDeepStrictEqual(before, after));
      const accounts = different.map(([, after]) => after);
      const result = accounts.length;
      const events = [{ ...event, details: { ...event.details, accounts: result } }];
      return { accounts, events, receipts: undefined, result };
    });
    yield { accounts, appended };
  }

  events(filter: EventFilter, unreadable?: Unreadable): AsyncIterable<RecordedEvent> {
    return selectEvents(this.#lines(filter), filter, unreadable);
  }

  trail(after = 0): AsyncIterable<Line> {
    return this.#lines({ after });
  }

  async close(): Promise<void> {}

  async *#lines(filter: EventFilter): AsyncIterable<Line> {
    try {
      yield* new Trail(this.#target()).lines(filter);
    } catch (error) {
      throw this.#failure(error);
    }
  }

  /** The path of the file itself, because replacing a symbolic link to it would leave the file unchanged. */
  #target(): string {
    try {
      return realpathSync(this.#file);
    } catch (error) {
      // If the user may not search the folder, the file cannot even be read, so it must not be reported as read-only.
      const isHidden = isSystemError(error) && error.code === 'EACCES';
      throw this.#failure(isHidden ? new WrongValue(`cannot read the file: ${permissionDenied()}`) : error);
    }
  }

  #read(path: string): Read {
    try {
      // The version is read before the text, so that a change made between the two is detected when the text is replaced.
      const version = readVersion(path);
      return { version, ...this.#contents.read(path) };
    } catch (error) {
      throw this.#failure(error);
    }
  }

  /**
   * Applies `decide` and writes the result. The lock is taken only for writing, so that no change waits for another one that is still
   * reading or deciding, or that is refused. If another program has changed the file in the meantime, the next attempt is made with the
   * lock still held.
   */
  async #rewrite<T>(urgent: boolean, decide: (read: Read, path: string) => Rewrite<T>): Promise<Written<T>> {
    let lock: { readonly path: string; readonly release: () => void } | undefined;
    try {
      for (let attempt = 1; attempt <= attempts; attempt++) {
        const path = this.#target();
        const read = this.#read(path);
        const rewrite = decide(read, path);
        const { result } = rewrite;
        const write = this.#prepare(path, read, rewrite);
        if (write === undefined) return { result, appended: [] };
        if (lock?.path !== path) {
          lock?.release();
          lock = undefined;
          lock = { path, release: await lockFile(path, lockTimeout, urgent) };
        }
        const appended = write();
        if (appended !== undefined) return { result, appended };
      }
      throw new AccountsError('store_changed', `${displayName(this.#file)} was changed by another program: try again`);
    } catch (error) {
      throw this.#failure(error);
    } finally {
      lock?.release();
    }
  }

  /**
   * Makes and checks the new text. Returns undefined if nothing changes, otherwise a function that writes the text, to be called under the
   * lock. That function returns the events, or undefined if the change must be tried again, because another program has changed or replaced
   * the file.
   */
  #prepare(
    path: string,
    read: Read,
    { accounts: changed, removed = [], events, receipts, check }: Rewrite<unknown>,
  ): (() => readonly AppendedEvent[] | undefined) | undefined {
    const trail = new Trail(path, this.#trailOptions);
    if (changed.length === 0 && removed.length === 0 && receipts === undefined) {
      return events.length === 0 ? undefined : () => trail.append(events);
    }
    const ids = new Set(changed.map(({ id }) => id));
    refuseDuplicates(
      read.accounts.filter(({ id }) => !ids.has(id)),
      changed,
    );
    refuseInTheClear(read.accounts, changed);
    const content =
      changed.length === 0 && removed.length === 0 ? read : this.#contents.edited(path, read, changed, removed);
    return () => {
      if (this.#target() !== path || readVersion(path) !== read.version) return undefined;
      check?.();
      const appended = trail.append(events);
      let written: boolean;
      try {
        written = replaceFile(path, content.text, read.version, receipts);
      } catch (error) {
        // If the file has a new version, the change was made, and only the final sync has failed.
        if (readVersion(path) === read.version) trail.appendFailure(appended);
        throw error;
      }
      if (written) this.#contents.know(content);
      if (!written) trail.appendFailure(appended);
      // If the symbolic link points to another file by now, the change must be made in that file as well.
      return written && this.#target() === path ? appended : undefined;
    };
  }

  #failure(error: unknown): unknown {
    return fileError(displayName(this.#file), error);
  }
}

/** A decision, and the receipts to write together with it. */
interface Rewrite<T> extends Decision<T> {
  readonly receipts: Companion | undefined;
}

/** The outcome of `change` before it is written. */
type Outcome<T> =
  { readonly outcome: 'changed'; readonly result: T } | { readonly outcome: 'repeated'; readonly receipt: string };

/** A result, and the events that were added to the trail. */
interface Written<T> {
  readonly result: T;
  readonly appended: readonly AppendedEvent[];
}

/** A version of the file that was read and found valid. */
interface Read extends Content {
  readonly version: string;
}

/**
 * The account with up to `limit` of its keys, starting with the key whose id is `from`, or with the first key if `from` is undefined. The
 * result has no keys if no key has this id.
 */
function withKeysFrom(account: StoredAccount | undefined, limit: number, from: string | undefined): typeof account {
  const { keys = [] } = account ?? {};
  const first = from === undefined ? 0 : keys.findIndex((key) => key.id === from);
  return account && { ...account, keys: first === -1 ? [] : keys.slice(first, first + limit) };
}

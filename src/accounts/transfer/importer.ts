import { AccountsError } from '../accounts-error.ts';
import { toMembers } from '../file/members.ts';
import { refuseEqual, rewrap } from '../changes.ts';
import type { OperationsOptions } from '../operations.ts';
import { maxKeysRead, type AppendedEvent, type AuditEvent, type StoredAccount } from '../store.ts';
import { Vault } from '../vault.ts';

/** The outcome for an account. `unchanged` if the store already has an equal account. */
type ImportOutcome = 'added' | 'unchanged' | AccountsError;

const inTheClear = new Vault([]);

type ImporterOptions = Pick<OperationsOptions, 'store' | 'clock'> & { readonly vault: Vault };

/**
 * Adds accounts to a store. An account that already exists and differs is refused. An import never overwrites an account, so an interrupted
 * import can be run again. The store's trail gets an event for each account; the caller logs one line for all of them.
 */
export class Importer {
  readonly #options: ImporterOptions;
  readonly #from: Vault;
  readonly #actor: string;
  /** The ids and hashes of the keys that `check` has seen. */
  readonly #keys = new Set<string>();
  /** The last event of all batches; undefined if nothing was added. */
  last: AppendedEvent | undefined;

  /** @param from unwraps the credentials of the accounts to import */
  constructor(options: ImporterOptions, from: Vault, actor: string) {
    this.#options = options;
    this.#from = from;
    this.#actor = actor;
  }

  /** The number of accounts to be added together. */
  get batchSize(): number {
    return this.#options.store.changedAtOnce;
  }

  /** Adds accounts in one change; resolves with their outcomes, in the same order. @throws AccountsError if the store fails */
  async add(accounts: readonly StoredAccount[]): Promise<readonly ImportOutcome[]> {
    const { store, clock } = this.#options;
    const ids = accounts.map(({ id }) => id);
    try {
      const long = await this.#readLong(accounts);
      const changed = await store.change(ids, (existing) => {
        const { added, outcomes } = this.#decide(accounts, new Map([...existing, ...long]));
        const events = added.map(({ id }) => this.#event(id, clock()));
        return { accounts: added, events, result: outcomes };
      });
      if (changed.outcome === 'repeated') throw new Error('a receipt without an idempotency key');
      this.last = changed.appended.at(-1) ?? this.last;
      return changed.result;
    } catch (error) {
      if (!(error instanceof AccountsError)) throw error;
      if (error.account !== undefined) return this.#addOthers(accounts, error.account, error);
      if (error.code !== 'key_exists') throw error;
      // A key in the batch belongs to another account. The store does not say which key, so each half of the batch is tried separately.
      if (accounts.length === 1) return [error];
      const middle = Math.ceil(accounts.length / 2);
      const first = await this.add(accounts.slice(0, middle));
      return [...first, ...(await this.add(accounts.slice(middle)))];
    }
  }

  /**
   * Returns the outcomes that `add` would return, without adding anything. Does not detect a key that belongs to another account in the
   * store; only `add` does.
   */
  async check(accounts: readonly StoredAccount[]): Promise<readonly ImportOutcome[]> {
    const ids = accounts.map(({ id }) => id);
    const long = await this.#readLong(accounts);
    const changed = await this.#options.store.change(ids, (existing) => {
      return { accounts: [], events: [], result: this.#decide(accounts, new Map([...existing, ...long])).outcomes };
    });
    if (changed.outcome === 'repeated') throw new Error('a receipt without an idempotency key');
    return accounts.map((account, i) => {
      const outcome = changed.result[i] ?? 'unchanged';
      return outcome === 'added' ? (this.#repeatedKey(account) ?? outcome) : outcome;
    });
  }

  /**
   * For each account with more keys than a change reads: the stored version, with at most one more key than the given account has, which is
   * enough to compare the two.
   */
  async #readLong(accounts: readonly StoredAccount[]): Promise<ReadonlyMap<string, StoredAccount>> {
    const long = new Map<string, StoredAccount>();
    for (const { id, keys } of accounts) {
      const stored = keys.length > maxKeysRead && (await this.#options.store.readKeys(id, keys.length + 1, undefined));
      if (stored) long.set(id, stored);
    }
    return long;
  }

  /** Returns an error if a key of the account already occurred in the input, in this account or in another one. */
  #repeatedKey({ id, keys }: StoredAccount): AccountsError | undefined {
    for (const key of keys) {
      if (this.#keys.has(key.id) || this.#keys.has(key.hash)) {
        return new AccountsError('key_exists', `a key of account ${id} is already in the input: ${key.id}`);
      }
      this.#keys.add(key.id).add(key.hash);
    }
    return undefined;
  }

  #decide(
    accounts: readonly StoredAccount[],
    existing: ReadonlyMap<string, StoredAccount>,
  ): { readonly added: readonly StoredAccount[]; readonly outcomes: readonly ImportOutcome[] } {
    const known = new Map(existing);
    const added: StoredAccount[] = [];
    const outcomes = accounts.map((account): ImportOutcome => {
      const outcome = this.#compare(account, known.get(account.id));
      if (outcome === 'unchanged' || outcome instanceof AccountsError) return outcome;
      known.set(account.id, outcome);
      added.push(outcome);
      return 'added';
    });
    return { added, outcomes };
  }

  /** Adds the other accounts of a batch in which one account has caused an error. */
  async #addOthers(
    accounts: readonly StoredAccount[],
    id: string,
    error: AccountsError,
  ): Promise<readonly ImportOutcome[]> {
    const others = await this.add(accounts.filter((account) => account.id !== id));
    const rest = others.values();
    return accounts.map((account) => (account.id === id ? error : (rest.next().value ?? error)));
  }

  /** Returns the account to store, `unchanged` if it is stored already, or the reason to refuse it. */
  #compare(
    account: StoredAccount,
    existing: StoredAccount | undefined,
  ): StoredAccount | Exclude<ImportOutcome, 'added'> {
    try {
      if (existing === undefined) {
        refuseEqual(account, this.#from);
        return rewrap(account, this.#from, this.#options.vault);
      }
      if (plain(account, this.#from) === plain(existing, this.#options.vault)) return 'unchanged';
      return new AccountsError('account_differs', `account ${account.id} already exists and differs`);
    } catch (error) {
      if (error instanceof AccountsError) return error;
      throw error;
    }
  }

  #event(account: string, at: number): AuditEvent {
    return { at, actor: this.#actor, action: 'account_imported', account, details: {} };
  }
}

/** The whole account as text with its credentials in the clear, for comparison. */
function plain(account: StoredAccount, vault: Vault): string {
  return JSON.stringify(toMembers(rewrap(account, vault, inTheClear)));
}

import { AccountsError } from './accounts-error.ts';
import { environmentNames, type EnvironmentName } from './api-key.ts';
import { requireAccount } from './changes.ts';
import { isSelected } from './conditions.ts';
import { requireKey } from './key-changes.ts';
import {
  compareUrgency,
  listDue,
  MostUrgent,
  locate,
  writePlace,
  type DueFilter,
  type DuePlace,
  type DueView,
} from './due.ts';
import { accountsPage, Problems, trailPage, type Page } from './pages.ts';
import type { EventFilter, Hints, Selection, Store, StoredAccount, StoredKey, Unreadable } from './store.ts';
import { viewAccount, viewEncryption, viewEvent, viewKey } from './views.ts';
import type { AccountView, AuditEventView, EncryptionView, KeyView, ShownKeyView, Viewing } from './views.ts';
import type { EpochMs } from '../times.ts';

/** Which accounts are queried. */
interface Scope {
  /** The query starts after the account with this id. */
  readonly after?: string | undefined;
  /** The id of the only account that may be queried. */
  readonly only?: string | undefined;
  /** As in `Store.list`. */
  readonly unreadable?: Unreadable | undefined;
}

/** Which accounts are listed. */
interface ListQuery extends Scope, Omit<Selection, 'now'> {}

/** The queries for accounts. A refused query throws an `AccountsError`. */
export class Queries {
  protected readonly store: Store;
  readonly #clock: () => EpochMs;

  constructor(store: Store, clock: () => EpochMs) {
    this.store = store;
    this.#clock = clock;
  }

  /** The accounts, sorted by id. */
  async *list(query: ListQuery = {}): AsyncIterable<AccountView> {
    const viewing = this.viewing();
    for await (const account of this.#select(query, viewing)) yield viewAccount(account, viewing);
  }

  /** Valid keys and credentials that are due for rotation or expire soon, most urgent first. */
  async due(query: Scope & DueFilter = {}): Promise<readonly DueView[]> {
    const due: { readonly place: DuePlace; readonly view: DueView }[] = [];
    for await (const view of this.#due(query)) due.push({ place: locate(view), view });
    return due.toSorted((a, b) => compareUrgency(a.place, b.place)).map(({ view }) => view);
  }

  /** The encryption settings with a running grace period, sorted by account id. */
  async *graces(query: Scope = {}): AsyncIterable<EncryptionView> {
    const viewing = this.viewing();
    for await (const account of this.#select({ ...query, anyOf: ['in_grace'] }, viewing)) {
      yield* environmentNames
        .map((environment) => viewEncryption(account, environment, viewing))
        .filter(({ previous }) => previous !== null);
    }
  }

  /**
   * The key with this hash.
   *
   * @param hash lower-case hex SHA-256
   * @param only the id of the only account that may be queried
   */
  async findKey(hash: string, only?: string): Promise<KeyView> {
    const account = await this.store.findByKey(hash);
    const key = account?.keys.find((each) => each.hash === hash);
    if (account === undefined || key === undefined || (only !== undefined && account.id !== only)) {
      throw new AccountsError('key_unknown', 'no account has this key');
    }
    return viewKey(account.id, key, this.viewing());
  }

  /** The key with this id, and who revoked it if the audit trail contains that event. */
  async showKey(id: string, keyId: string): Promise<ShownKeyView> {
    const key = requireKey(requireAccount(await this.store.read(id, { key: keyId }), id), keyId);
    return { ...viewKey(id, key, this.viewing()), revoked_by: await this.#revokedBy(id, key) };
  }

  async #revokedBy(account: string, { id, revokedAt }: StoredKey): Promise<string | null> {
    if (revokedAt === undefined) return null;
    // Events that cannot be read are skipped, because a problem in the trail must not prevent the key from being shown.
    for await (const { action, actor, details } of this.store.events({ account, since: revokedAt }, () => {})) {
      if (action === 'key_revoked' && details['key'] === id) return actor;
    }
    return null;
  }

  /** A page of `list`. */
  async listPage(size: number, query: ListQuery): Promise<Page<AccountView, string>> {
    return accountsPage(size, (unreadable) => this.list({ ...query, unreadable }), 'id');
  }

  /** A page of `due`, after `place`. All accounts are read again for each page, so that memory stays bounded. */
  async duePage(
    size: number,
    { place, ...query }: Scope & DueFilter & { readonly place?: DuePlace },
  ): Promise<Page<DueView, string>> {
    const due = new MostUrgent(size + 1, place);
    const problems = new Problems();
    for await (const view of this.#due({ ...query, unreadable: problems.add })) due.add(view);
    const items = due.list.slice(0, size);
    const last = items.at(-1);
    const next = last !== undefined && due.list.length > size ? writePlace(locate(last)) : null;
    return { items, next, unreadable: problems.list };
  }

  async *#due({ environment, kind, ...scope }: Scope & DueFilter): AsyncIterable<DueView> {
    const viewing = this.viewing();
    for await (const account of this.#select({ ...scope, anyOf: ['due', 'expiring'] }, viewing)) {
      yield* listDue(account, viewing, { environment, kind });
    }
  }

  /** A page of `graces`. */
  async gracesPage(size: number, query: Scope): Promise<Page<EncryptionView, string>> {
    return accountsPage(size, (unreadable) => this.graces({ ...query, unreadable }), 'account');
  }

  /** A page of `events`. */
  async eventsPage(size: number, filter: EventFilter): Promise<Page<AuditEventView, number>> {
    return trailPage(size, (unreadable) => this.store.events(filter, unreadable));
  }

  /** The account as it is stored, before or after a change; undefined if there is none with this id. */
  async stored(id: string, hints?: Hints): Promise<StoredAccount | undefined> {
    return this.store.read(id, hints);
  }

  async show(id: string): Promise<AccountView> {
    const account = requireAccount(await this.store.read(id), id);
    return viewAccount(account, this.viewing());
  }

  /** All keys of an account, oldest first. */
  async keys(id: string): Promise<readonly KeyView[]> {
    const account = requireAccount(await this.store.read(id), id);
    const viewing = this.viewing();
    return account.keys.map((key) => viewKey(id, key, viewing));
  }

  /** A page of `keys`. @param after the page starts after the key with this id */
  async keysPage(id: string, size: number, after: string | undefined): Promise<Page<KeyView, string>> {
    const viewing = this.viewing();
    // Two more keys are read: the key before the page, which must exist, and the key after it, which shows whether there is another page.
    const start = after === undefined ? 0 : 1;
    const account = requireAccount(await this.store.readKeys(id, start + size + 1, after), id);
    if (after !== undefined) requireKey(account, after);
    const items = account.keys.slice(start, start + size).map((key) => viewKey(id, key, viewing));
    const next = start + size < account.keys.length ? (items.at(-1)?.id ?? null) : null;
    return { items, next, unreadable: [] };
  }

  async showEncryption(id: string, environment: EnvironmentName): Promise<EncryptionView> {
    const { encryption } = await this.show(id);
    return encryption[environment];
  }

  /** The audit trail, as in `Store.events`. */
  async *events(filter: EventFilter, unreadable?: Unreadable): AsyncIterable<AuditEventView> {
    for await (const event of this.store.events(filter, unreadable)) yield viewEvent(event);
  }

  async *#select(
    { after = '', only, unreadable, ...selection }: ListQuery,
    { now }: Viewing,
  ): AsyncIterable<StoredAccount> {
    const wanted = { ...selection, now };
    if (only === undefined) {
      yield* this.store.list(after, unreadable, wanted);
    } else if (only > after) {
      const account = await this.store.read(only);
      if (account !== undefined && isSelected(account, wanted)) yield account;
    }
  }

  /** The context of a view. Its time is rounded down to whole seconds, which are easier to read. */
  protected viewing(): Viewing {
    const now = this.#clock();
    return { now: now - (now % 1_000), recordsUse: this.store.recordsUse };
  }
}

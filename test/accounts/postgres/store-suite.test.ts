import type { Line } from '../../../src/audit/lines.ts';
import { environmentNames, type EnvironmentName } from '../../../src/accounts/api-key.ts';
import type {
  AuditEvent,
  ChangeResult,
  Decide,
  EventFilter,
  IdempotencyKey,
  RecordedEvent,
  RewriteAccount,
  RewriteResult,
  Store,
  StoredAccount,
  StoredCredentials,
  StoredEncryption,
} from '../../../src/accounts/store.ts';
import { describeWithPostgres, usePostgres } from '../../support/postgres.ts';
import { describeStore } from '../store-suite.ts';
import { openStore } from './fixtures.ts';

const mark = 'sealed:v1:';

/**
 * Adds the prefix of wrapped texts to all written credentials, because the database accepts no others, and removes it from those it reads.
 */
class MarkingStore implements Store {
  readonly recordsUse = true;
  readonly changedAtOnce = 2;
  readonly #store: Store;

  constructor(store: Store) {
    this.#store = store;
  }

  async read(id: string): Promise<StoredAccount | undefined> {
    const account = await this.#store.read(id);
    return account && unmarked(account);
  }

  async readKeys(...query: Parameters<Store['readKeys']>): Promise<StoredAccount | undefined> {
    const account = await this.#store.readKeys(...query);
    return account && unmarked(account);
  }

  async findByKey(hash: string): Promise<StoredAccount | undefined> {
    const account = await this.#store.findByKey(hash);
    return account && unmarked(account);
  }

  async *list(...query: Parameters<Store['list']>): AsyncIterable<StoredAccount> {
    for await (const account of this.#store.list(...query)) yield unmarked(account);
  }

  change<T>(ids: readonly string[], decide: Decide<T>, once?: IdempotencyKey): Promise<ChangeResult<T>> {
    const decideMarked: Decide<T> = (existing) => {
      const decision = decide(new Map([...existing].map(([id, account]) => [id, unmarked(account)])));
      return { ...decision, accounts: decision.accounts.map(marked) };
    };
    return this.#store.change(ids, decideMarked, once);
  }

  changeAll(rewrite: RewriteAccount, event: AuditEvent): AsyncIterable<RewriteResult> {
    return this.#store.changeAll((account) => marked(rewrite(unmarked(account))), event);
  }

  events(filter: EventFilter): AsyncIterable<RecordedEvent> {
    return this.#store.events(filter);
  }

  trail(after?: number): AsyncIterable<Line> {
    return this.#store.trail(after);
  }

  close(): Promise<void> {
    return this.#store.close();
  }
}

const marked = withTexts((text) => mark + text);
const unmarked = withTexts((text) => text.slice(mark.length));

function withTexts(change: (text: string) => string): (account: StoredAccount) => StoredAccount {
  const credentialsOf = (credentials: StoredCredentials): StoredCredentials => {
    return { ...credentials, key: change(credentials.key), iv: change(credentials.iv) };
  };
  return (account) => {
    const encryption: Partial<Record<EnvironmentName, StoredEncryption>> = {};
    for (const environment of environmentNames) {
      const stored = account.encryption[environment];
      if (stored === undefined) continue;
      const previous = stored.previous && {
        ...stored.previous,
        credentials: stored.previous.credentials && credentialsOf(stored.previous.credentials),
      };
      encryption[environment] = stored.enabled
        ? { ...stored, credentials: credentialsOf(stored.credentials), previous }
        : { ...stored, credentials: stored.credentials && credentialsOf(stored.credentials), previous };
    }
    return { ...account, encryption };
  };
}

describeWithPostgres('the store in PostgreSQL, like any store', () => {
  const postgres = usePostgres();

  describeStore('PostgreSQL', async () => {
    const url = await postgres.createDatabase();
    return { open: () => new MarkingStore(openStore(url)) };
  });
});

import { createSecretKey, randomBytes } from 'node:crypto';
import type { Pool } from 'pg';
import { sha256Hex, prefixOf } from '../src/accounts/api-key.ts';
import { changePool } from '../src/accounts/postgres/clients.ts';
import { PostgresDirectory } from '../src/accounts/postgres/directory.ts';
import { migrate } from '../src/accounts/postgres/migrate.ts';
import { PostgresStore } from '../src/accounts/postgres/store.ts';
import type { StoredAccount } from '../src/accounts/store.ts';
import { Vault } from '../src/accounts/vault.ts';
import { merchantOf } from './merchants.ts';

/** Accounts added in one call, as an import does. */
const batch = 1_000;

/** The number of keys looked up for one figure, and the number of figures. */
const lookedUp = 100;
const figures = 5;

/** A database to which merchants' accounts are added step by step. */
export class AccountsDatabase {
  readonly url: string;
  /** The URL, as in a configuration. */
  readonly masterKey: string;
  readonly #vault: Vault;
  readonly #store: PostgresStore;
  readonly #pool: Pool;
  #size = 0;

  private constructor(url: string, pool: Pool) {
    this.url = url;
    const key = randomBytes(32);
    this.masterKey = key.toString('base64');
    this.#vault = new Vault([createSecretKey(key)]);
    this.#store = new PostgresStore(url);
    this.#pool = pool;
  }

  /**
   * @param url of an empty database, which is not emptied afterwards
   * @throws if it is not empty
   */
  static async open(url: string): Promise<AccountsDatabase> {
    await migrate(url);
    const database = new AccountsDatabase(url, await changePool(url, 1));
    if ((await database.count()) === 0) return database;
    await database.close();
    throw new Error(`there are accounts in ${new URL(url).pathname.slice(1)}: an empty database is needed`);
  }

  async count(): Promise<number> {
    const { rows } = await this.#pool.query<{ count: string }>('SELECT count(*) FROM envelope_sidecar.accounts');
    return Number(rows[0]?.count);
  }

  /** Adds accounts up to this number. */
  async fillTo(size: number): Promise<void> {
    while (this.#size < size) {
      const from = this.#size;
      const accounts = Array.from({ length: Math.min(batch, size - from) }, (_, i) => this.#account(from + i));
      const events = accounts.map(({ id: account }) => {
        return { at: Date.now(), actor: 'user:bench', action: 'account_imported', account, details: {} } as const;
      });
      const ids = accounts.map(({ id }) => id);
      await this.#store.change(ids, () => ({ accounts, events, result: undefined }));
      this.#size += accounts.length;
    }
    await this.#pool.query('ANALYZE');
  }

  /**
   * Looks up keys that are not cached, one after the other. Returns several figures, each in milliseconds per look-up.
   */
  async lookUps(): Promise<number[]> {
    const ignore = (): void => {};
    const directory = new PostgresDirectory({
      url: this.url,
      vault: this.#vault,
      cache: lookedUp * (figures + 1),
      staleFor: 60_000,
      uses: { key: ignore, previous: ignore, unexpected: ignore },
      monotonic: () => performance.now(),
      monitor: {
        lookup: ignore,
        query: () => ignore,
        connected: ignore,
        disconnected: ignore,
        changed: ignore,
        failed: ignore,
      },
    });
    await directory.open();
    // The first look-ups warm up the database.
    const times: number[] = [];
    for (let i = 0; i <= figures; i += 1) times.push(await this.#lookUpSome(directory));
    await directory.close();
    return times.slice(1);
  }

  async close(): Promise<void> {
    await this.#store.close();
    await this.#pool.end();
  }

  async #lookUpSome(directory: PostgresDirectory): Promise<number> {
    let time = 0;
    for (let i = 0; i < lookedUp; i += 1) {
      const { apiKey } = merchantOf(Math.floor(Math.random() * this.#size), 'encrypting');
      // Waits for the pause that follows a query.
      await new Promise((resolve) => void setTimeout(resolve, 6));
      const begin = performance.now();
      const found = await directory.find(sha256Hex(apiKey));
      time += performance.now() - begin;
      if (found === undefined) throw new Error('a key was not found');
    }
    return time / lookedUp;
  }

  #account(i: number): StoredAccount {
    const { id, apiKey, encryption } = merchantOf(i, 'encrypting');
    const place = { account: id, environment: 'test' } as const;
    const createdAt = Date.now();
    const never = { expiresAt: undefined, revokedAt: undefined, lastUsedAt: undefined };
    const credentials = {
      key: this.#vault.wrap(encryption.key, { ...place, member: 'key' }),
      iv: this.#vault.wrap(encryption.iv, { ...place, member: 'iv' }),
      format: 'text',
      createdAt,
    } as const;
    return {
      id,
      name: `Merchant ${id}`,
      active: true,
      keys: [{ id: `${id}-key`, prefix: prefixOf(apiKey), hash: sha256Hex(apiKey), createdAt, ...never }],
      encryption: { test: { enabled: true, encoding: 'hex', credentials, previous: undefined } },
    };
  }
}

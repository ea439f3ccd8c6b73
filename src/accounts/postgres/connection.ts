import { setTimeout as delay } from 'node:timers/promises';
import type { Client, ClientConfig, QueryConfig, QueryResultRow } from 'pg';
import { lookUpClient } from './clients.ts';
import { AccountsError } from '../accounts-error.ts';
import { isConnectionLost } from './failures.ts';
import { expectNotifications } from './notification-test.ts';

/** The channel on which the database notifies sidecars of changes; see migrations/. */
const channel = 'envelope_sidecar_accounts';

/**
 * The delays between attempts to connect, in milliseconds. After a connection is lost, the first attempt is made at once. If it fails, each
 * delay is twice as long as the one before.
 */
const firstPause = 100;
const maxPause = 5_000;

/**
 * How long the database may take to add a listener, in milliseconds: the first limit, and the highest. The limit doubles with each attempt.
 * To add a listener, the database reads its whole queue of notifications, which any role may fill, and does not stop when the client gives
 * up. Attempts that are given up too early would therefore pile up in the database.
 */
const firstPatience = 2_000;
const maxPatience = 60_000;

/** How long a look-up waits for a connection that is being opened, in milliseconds. */
const lookUpPatience = 2_000;

/** The events of a connection. */
interface Events {
  connected(): void;
  /** The connection was lost, or an attempt to connect has failed. */
  lost(error: unknown): void;
  /**
   * Accounts have changed. If this is missing, the connection does not receive notifications of changes.
   *
   * @param accounts their ids, separated by spaces; `*` stands for any account
   */
  changed?(accounts: string): void;
}

/** One connection, reopened whenever it is lost. Results and notifications arrive in the order in which queries and changes took place. */
export class Connection {
  readonly #url: string;
  readonly #events: Events;
  #client: Client | undefined;
  /** The connection that is being prepared. */
  #opening: Client | undefined;
  #attempt: Promise<void> | undefined;
  #pause = 0;
  #listenPatience = firstPatience;
  #retry: NodeJS.Timeout | undefined;
  #closed = false;

  constructor(url: string, events: Events) {
    this.#url = url;
    this.#events = events;
  }

  get isOpen(): boolean {
    return this.#client !== undefined;
  }

  /** Connects if there is no connection; resolves when the attempt has succeeded or failed. */
  async open(): Promise<void> {
    if (this.#client !== undefined || this.#closed) return;
    clearTimeout(this.#retry);
    this.#attempt ??= this.#connect().finally(() => (this.#attempt = undefined));
    await this.#attempt;
  }

  /** Replaces the connection, if there is one, with a new one. */
  renew(): void {
    if (this.#client !== undefined) this.#lost(this.#client, new Error('the connection is replaced'));
  }

  /** If an attempt to connect is in progress, waits for it for a limited time. Does not wait for later attempts. */
  async ready(): Promise<void> {
    if (this.#attempt !== undefined)
      await Promise.race([this.#attempt, delay(lookUpPatience, undefined, { ref: false })]);
  }

  /** Runs one query. Must not be called during another query or without a connection. */
  async query<R extends QueryResultRow>(config: QueryConfig): Promise<R[]> {
    const client = this.#client;
    if (client === undefined) throw new Error('not connected to the database');
    try {
      const { rows } = await client.query<R>(config);
      this.#pause = 0;
      return rows;
    } catch (error) {
      if (isConnectionLost(error)) this.#lost(client, error);
      throw error;
    }
  }

  async close(): Promise<void> {
    this.#closed = true;
    clearTimeout(this.#retry);
    // To add a listener may take a minute.
    void this.#opening?.end().catch(() => {});
    await this.#attempt;
    const client = this.#client;
    this.#client = undefined;
    await client?.end();
  }

  async #connect(): Promise<void> {
    let client: Client | undefined;
    try {
      // This reads the certificates that the URL names, which may fail.
      client = await this.#newClient();
      await client.connect();
      // If a client is ended while it connects, `connect` never settles.
      this.#opening = client;
      if (this.#closed) throw new Error('the connection is no longer needed');
      if (this.#events.changed !== undefined) await this.#listen(client);
      await prepare(client);
      this.#client = client;
    } catch (error) {
      void client?.end().catch(() => {});
      this.#events.lost(error);
      this.#again();
      return;
    } finally {
      this.#opening = undefined;
    }
    this.#events.connected();
  }

  async #listen(client: Client): Promise<void> {
    const listen: QueryConfig & Pick<ClientConfig, 'query_timeout'> = {
      text: `LISTEN ${channel}`,
      query_timeout: this.#listenPatience,
    };
    this.#listenPatience = Math.min(2 * this.#listenPatience, maxPatience);
    await client.query(listen);
    await expectNotifications(client, this.#url);
    this.#listenPatience = firstPatience;
  }

  async #newClient(): Promise<Client> {
    const client = await lookUpClient(this.#url);
    client.on('error', (error) => this.#lost(client, error));
    client.on('end', () => this.#lost(client, new Error('the database closed the connection')));
    client.on('notification', (news) => {
      if (news.channel === channel) this.#events.changed?.(news.payload ?? '');
    });
    return client;
  }

  #lost(client: Client, error: unknown): void {
    if (client !== this.#client) return;
    this.#client = undefined;
    void client.end().catch(() => {});
    this.#events.lost(error);
    if (this.#pause === 0) void this.open();
    else this.#again();
  }

  #again(): void {
    if (this.#closed) return;
    this.#pause = Math.min(Math.max(firstPause, this.#pause * 2), maxPause);
    this.#retry = setTimeout(() => void this.open(), this.#pause);
  }
}

/** Prepares a connection for queries. @throws AccountsError if it leads to a standby, which may be any time behind */
async function prepare(client: Client): Promise<void> {
  // Look-ups must use indexes even if the statistics are wrong, as they are just after an import.
  const { rows } = await client.query<{ standby: boolean }>(
    `SELECT pg_is_in_recovery() AS standby, set_config('enable_seqscan', 'off', false)`,
  );
  if (rows[0]?.standby !== false) throw new AccountsError('store_read_only', 'the database is read-only at the moment');
}

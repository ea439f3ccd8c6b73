import { LRUCache } from 'lru-cache';
import type { Directory, Found, KeyHolder } from '../directory.ts';
import { openAccount } from '../open-account.ts';
import type { Vault } from '../vault.ts';
import { Batches } from './batches.ts';
import { Connection } from './connection.ts';
import type { LookupOutcome, Monitor } from './monitor.ts';
import { accountOf, encryptionJson, keyJson, keyOf, type AccountRow, type KeyJson } from './rows.ts';

/** How often the database is asked for a sign of life. Milliseconds. */
const heartbeat = 1_000;

export interface PostgresDirectoryOptions {
  readonly url: string;
  readonly vault: Vault;
  /** API keys held at most; as many again that do not exist. */
  readonly cache: number;
  /** How long known keys go on working while the database cannot be asked. Milliseconds. */
  readonly staleFor: number;
  /** Epoch milliseconds. */
  readonly clock: () => number;
  readonly monitor: Monitor;
}

/**
 * A time in which every change was heard of: from when a connection was made, or everything was declared old, to when
 * that happens again. What was read in it holds to its end.
 */
interface Span {
  /** When the database was last heard in it. */
  heardAt: number;
}

/** What is known of a key, and since when. `unavailable`: the database has it, but it cannot be used. */
interface Entry {
  readonly found: KeyHolder | 'unavailable';
  readonly span: Span;
}

/** Looks API keys up in PostgreSQL, and keeps those in use at hand. Decision 0006 tells why it works as it does. */
export class PostgresDirectory implements Directory {
  readonly #vault: Vault;
  readonly #staleFor: number;
  readonly #clock: () => number;
  readonly #monitor: Monitor;
  readonly #connection: Connection;
  readonly #batches = new Batches<Entry>((hashes) => this.#query(hashes));
  readonly #known: LRUCache<string, Entry>;
  /** Keys that do not exist have room of their own: however many are guessed, no known one has to go. */
  readonly #unknown: LRUCache<string, Span>;
  /** The hashes in `#known`, by account. */
  readonly #hashes = new Map<string, Set<string>>();
  /** Undefined while there is no connection. */
  #span: Span | undefined;
  #heardAt: number;
  #heartbeat: NodeJS.Timeout | undefined;

  constructor({ url, vault, cache, staleFor, clock, monitor }: PostgresDirectoryOptions) {
    this.#vault = vault;
    this.#staleFor = staleFor;
    this.#clock = clock;
    this.#monitor = monitor;
    this.#heardAt = clock();
    this.#known = new LRUCache({ max: cache, dispose: ({ found }, hash) => this.#disposed(found, hash) });
    this.#unknown = new LRUCache({ max: cache });
    this.#connection = new Connection(url, {
      connected: () => this.#connected(),
      lost: (error) => this.#lost(error),
      changed: (accounts) => this.#changed(accounts),
    });
  }

}

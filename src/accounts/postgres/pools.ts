import type { Pool } from 'pg';
import type { Hints } from '../store.ts';
import { changePool, shortLockTimeout } from './clients.ts';

/**
 * Maximum number of connections of one process for each purpose. Work waits only for other work with the same purpose, so that searches and
 * long imports never delay the revocation of a key.
 */
const poolSizes = {
  /** Changes that take something away. In an emergency, several operators revoke keys at the same time. */
  urgent: 6,
  /** Urgent changes after a lock of another transaction has blocked them. */
  blocked: 2,
  /** Other changes to one account, queries for one account, and events of the operators' API. */
  single: 2,
  /** The same three purposes, for work that tokens of accounts ask for. There may be any number of such tokens. */
  urgentOfAccounts: 2,
  blockedOfAccounts: 1,
  singleOfAccounts: 2,
  /** Everything that concerns many accounts or the trail. */
  bulk: 2,
  /** Look-ups of accounts for bodies that are to be sealed, of which there may be hundreds per second. */
  seals: 1,
};
export type Purpose = keyof typeof poolSizes;

/** The purpose of a change to one account, or a query for it. */
export function purposeOf({ urgent = false, ofAccount = false }: Hints): Purpose {
  const purpose = urgent ? 'urgent' : 'single';
  return ofAccount ? `${purpose}OfAccounts` : purpose;
}

/** The purpose of a change after a lock has blocked it; undefined if the purpose stays the same. */
export function whenBlocked(purpose: Purpose): Purpose | undefined {
  if (purpose === 'urgent') return 'blocked';
  return purpose === 'urgentOfAccounts' ? 'blockedOfAccounts' : undefined;
}

/** The pools of connections for changes and queries. Connections are opened on demand. */
export class Pools {
  readonly #url: string;
  readonly #pools: Partial<Record<Purpose, Promise<Pool>>> = {};

  constructor(url: string) {
    this.#url = url;
  }

  of(purpose: Purpose): Promise<Pool> {
    return (this.#pools[purpose] ??= changePool(this.#url, poolSizes[purpose], shortLockTimeout));
  }

  async end(): Promise<void> {
    await Promise.all(Object.values(this.#pools).map(async (pool) => (await pool).end()));
  }
}

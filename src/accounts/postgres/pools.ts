import type { Pool } from 'pg';
import type { Hints } from '../store.ts';
import { changePool, shortLockTimeout } from './clients.ts';

/**
 * Maximum number of connections of one process for each purpose. Work waits only for other work of the same purpose, so that
 * viewers who search and a long import never delay the revocation of a key.
 */
const poolSizes = {
  /** Changes that take something away. */
  urgent: 2,
  /** The same, if tokens of the accounts ask for them. */
  urgentOfAccounts: 2,
  /** Both of them, once they have met a lock that another transaction holds: their attempts hold up only each other. */
  blocked: 2,
  /** Other changes of one account, queries for one account, and events of the operators' API. */
  single: 2,
  /** Everything that concerns many accounts or the trail. */
  bulk: 2,
  /** The accounts of bodies to seal, of which there may be hundreds a second. */
  seals: 1,
};
export type Purpose = keyof typeof poolSizes;

/** The purpose of what is done for one account. */
export function purposeOf({ urgent = false, ofAccount = false }: Hints): Purpose {
  if (!urgent) return 'single';
  return ofAccount ? 'urgentOfAccounts' : 'urgent';
}

/** The purpose of a change that has met a lock. */
export function whenBlocked(purpose: Purpose): Purpose {
  return purpose === 'urgent' || purpose === 'urgentOfAccounts' ? 'blocked' : purpose;
}

/** Connections for changes, which are opened on demand. */
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

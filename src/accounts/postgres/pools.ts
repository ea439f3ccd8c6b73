import type { Pool } from 'pg';
import type { Hints } from '../store.ts';
import { changePool, shortLockTimeout } from './clients.ts';

/**
 * Maximum number of connections of one process for each purpose. Work waits only for other work of the same purpose, so that viewers who
 * search and a long import never delay the revocation of a key.
 */
const poolSizes = {
  /** Changes that take something away. */
  urgent: 2,
  /** Such changes once they have met a lock that another transaction holds. */
  blocked: 2,
  /** Other changes of one account, queries for one account, and events of the operators' API. */
  single: 2,
  /** The same three, if tokens of accounts ask for them, of which there may be any number. */
  urgentOfAccounts: 2,
  blockedOfAccounts: 1,
  singleOfAccounts: 2,
  /** Everything that concerns many accounts or the trail. */
  bulk: 2,
  /** Look-ups of accounts whose core asks the sidecar to seal bodies, of which there may be hundreds a second. */
  seals: 1,
};
export type Purpose = keyof typeof poolSizes;

/** The purpose of what is done for one account. */
export function purposeOf({ urgent = false, ofAccount = false }: Hints): Purpose {
  const purpose = urgent ? 'urgent' : 'single';
  return ofAccount ? `${purpose}OfAccounts` : purpose;
}

/** The purpose of a change that has met a lock; undefined if it stays the same. */
export function whenBlocked(purpose: Purpose): Purpose | undefined {
  if (purpose === 'urgent') return 'blocked';
  return purpose === 'urgentOfAccounts' ? 'blockedOfAccounts' : undefined;
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

import { setTimeout as delay } from 'node:timers/promises';
import { AccountsError } from '../accounts/accounts-error.ts';
import { sha256Hex } from '../accounts/api-key.ts';
import { inspect, unwrapSample, type Inspection } from '../accounts/postgres/inspect.ts';
import { testNotifications } from '../accounts/postgres/notification-test.ts';
import { Vault } from '../accounts/vault.ts';
import type { StoredAccount } from '../accounts/store.ts';
import type { StoreSettings } from './config.ts';

/** The number of accounts whose credentials are unwrapped. */
const sampleSize = 1_000;

/** Milliseconds. Nothing else is reloaded meanwhile, such as a key that is revoked in the file in force. */
const patience = 5_000;

/** Why a store cannot replace the one in force. */
export interface Refusal {
  readonly reason: string;
  /** Whether to try it again without a change of the files. */
  readonly mayEnd: boolean;
}

/** Differs for stores of which one may be refused and the other not. */
export function digestOf(store: StoreSettings): string {
  const place = store.type === 'file' ? store.file : store.url;
  const keys = store.masterKeys.map(({ kcv, environment }) => [kcv, environment]);
  return sha256Hex(JSON.stringify([store.type, place, keys]));
}

/**
 * Why the store that new settings name cannot replace the one in force; undefined if it can. Merchants must not be moved to a store without
 * accounts, to a database that cannot be read or tells of no changes, lose the master key of credentials that work now, or, in an outage, the
 * cache that a store with other settings begins anew.
 *
 * @param next   another one than `running`
 * @param inFile the number of accounts in the new file, if the accounts come from one
 */
export async function tryStore(
  next: StoreSettings,
  running: StoreSettings,
  inFile: number,
): Promise<Refusal | undefined> {
  if (next.type === 'file') {
    const isSame = running.type === 'file' && running.file === next.file;
    return isSame || inFile > 0 ? undefined : isEmpty('file');
  }
  const isSame = running.type === 'postgres' && running.url === next.url;
  const keepsKeys = running.masterKeys.every(({ kcv, environment }) =>
    next.masterKeys.some((key) => key.kcv === kcv && key.environment === environment),
  );
  const end = new AbortController();
  try {
    const overdue = delay(patience, undefined, { signal: end.signal }).then(() => {
      throw new AccountsError('store_unavailable', `the database does not respond within ${patience / 1_000} seconds`);
    });
    const inspection = await Promise.race([inspectForUse(next.url), overdue]);
    if (isSame && keepsKeys) return undefined;
    if (inspection.isEmpty) return isEmpty('database');
    const reason = credentialsFailure(inspection, next, running);
    return reason === undefined ? undefined : { reason, mayEnd: true };
  } catch (error) {
    if (error instanceof AccountsError) return { reason: error.message, mayEnd: true };
    throw error;
  } finally {
    end.abort();
  }
}

/** Nobody's key would work. The first accounts may be part of a copy in progress: whoever makes it tells when it is complete. */
function isEmpty(store: string): Refusal {
  return { reason: `the ${store} has no accounts: reload when it has`, mayEnd: false };
}

async function inspectForUse(url: string): Promise<Inspection> {
  const inspection = await inspect(url, sampleSize);
  await testNotifications(url);
  return inspection;
}

function credentialsFailure(inspection: Inspection, next: StoreSettings, running: StoreSettings): string | undefined {
  const after = new Vault(next.masterKeys);
  const { noneUnwraps, failures } = unwrapSample(inspection, after);
  // What works in a file is not known here.
  if (noneUnwraps || failures.length === 0 || running.type === 'file') return failures[0];
  const before = new Vault(running.masterKeys);
  for (const account of inspection.sample) {
    const failure = failureOf(account, after);
    if (failure !== undefined && failureOf(account, before) === undefined) return `${failure}; it works now`;
  }
  return undefined;
}

/** Why the credentials of an account cannot be unwrapped; undefined if they can. */
function failureOf(account: StoredAccount, vault: Vault): string | undefined {
  return unwrapSample({ sample: [account], unreadable: [] }, vault).failures[0];
}

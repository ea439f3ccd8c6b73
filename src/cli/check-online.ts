import { AccountsError } from '../accounts/accounts-error.ts';
import { findReadOnly } from '../accounts/file/read-only.ts';
import { inspect, unwrapSample, type Inspection } from '../accounts/postgres/inspect.ts';
import { testNotifications } from '../accounts/postgres/notification-test.ts';
import { describeMissing } from '../accounts/postgres/rights.ts';
import { takeSample, type CredentialsSample } from '../accounts/accounts.ts';
import { Vault } from '../accounts/vault.ts';
import { listCertificates } from '../config/certificates.ts';
import type { Config, Environment } from '../config/config.ts';
import type { loadKms } from '../config/load.ts';
import { probe } from '../upstream/connect.ts';
import type { CliIo } from './io.ts';
import { counted, minute } from './table.ts';
import type { EpochMs } from '../times.ts';

/** One check and its outcome. */
export interface Check {
  /** `kms`, `store`, `credentials`, `upstream <environment>` or `certificate <member>`. */
  readonly check: string;
  readonly ok: boolean;
  readonly detail: string;
}

/** Maximum number of accounts in a database whose credentials are tested. */
const sampleSize = 1_000;

const day = 86_400_000;
/** Certificates must be valid for at least this many days. */
const certificateDays = 14;

/** Checks that the store, its credentials, the upstreams and the certificates of a valid configuration can be used. */
export async function onlineChecks(config: Config, { clock }: Pick<CliIo, 'clock'>): Promise<Check[]> {
  const now = clock();
  const upstreams = config.environments.map((environment) => upstreamChecks(environment, config.timeouts.connect, now));
  return [...(await storeChecks(config)), ...(await Promise.all(upstreams)).flat(), ...certificateChecks(config, now)];
}

/** Checks that the KMS is available. If there is no KMS, or if its settings have problems, there is nothing to check. */
export async function kmsChecks(loaded: ReturnType<typeof loadKms>, keyring: CliIo['keyring']): Promise<Check[]> {
  const kms = loaded.ok ? loaded.value : undefined;
  if (kms === undefined) return [];
  try {
    const { healthy, keyId } = await keyring(kms).status();
    return [
      { check: 'kms', ok: healthy, detail: `${kms.socket}: ${healthy ? `wraps with key ${keyId}` : 'not healthy'}` },
    ];
  } catch (error) {
    if (!(error instanceof AccountsError)) throw error;
    return [{ check: 'kms', ok: false, detail: error.message }];
  }
}

async function storeChecks({ store, accounts, operators }: Config): Promise<Check[]> {
  if (store.type === 'file') {
    // The credentials in an accounts file were unwrapped when the configuration was read.
    const sample = takeSample(accounts);
    const readOnly = operators && findReadOnly(store.file);
    const cannot = readOnly && `; the operators' API cannot change them: ${readOnly} is read-only for this user`;
    const detail = `${store.file}: ${counted(accounts.length, 'account')}${cannot ?? ''}`;
    return [
      { check: 'store', ok: readOnly === undefined, detail },
      opened(sample, counted(sample.tried, 'account'), 'all open'),
    ];
  }
  try {
    const inspection = await inspect(store.url, sampleSize, operators !== undefined);
    await testNotifications(store.url);
    const sample = unwrapSample(inspection, new Vault(store.masterKeys));
    const tried = counted(sample.tried, 'account');
    const of = sample.tried === sampleSize ? `a sample of ${tried}` : tried;
    return [migrated(inspection), opened(sample, of, 'all open with the master key')];
  } catch (error) {
    if (!(error instanceof AccountsError)) throw error;
    return [
      { check: 'store', ok: false, detail: error.message },
      { check: 'credentials', ok: false, detail: 'not tested' },
    ];
  }
}

function migrated({ missingRights, isUnlimited, obstacle }: Inspection): Check {
  if (missingRights.length > 0) {
    return { check: 'store', ok: false, detail: describeMissing(missingRights) };
  }
  if (obstacle !== undefined)
    return { check: 'store', ok: false, detail: `the database is reachable, but ${obstacle}` };
  const limit = isUnlimited ? '; its user has no CONNECTION LIMIT' : '';
  return { check: 'store', ok: true, detail: `the database is reachable and migrated${limit}` };
}

function opened({ failures }: Pick<CredentialsSample, 'failures'>, of: string, good: string): Check {
  if (failures.length === 0) return { check: 'credentials', ok: true, detail: `${of}: ${good}` };
  return { check: 'credentials', ok: false, detail: `${failures.length} of ${of} failed: ${failures[0]}` };
}

async function upstreamChecks({ name, upstream }: Environment, timeout: number, now: EpochMs): Promise<Check[]> {
  const result = await probe(upstream, timeout);
  const where = upstream.socketPath ?? upstream.origin;
  const check = `upstream ${name}`;
  if (!result.ok) return [{ check, ok: false, detail: `${where}: ${result.reason}` }];
  const connected: Check = { check, ok: true, detail: `${where} accepts connections` };
  if (result.certificateEnds === undefined) return [connected];
  return [connected, validity(`certificate of upstream ${name}`, result.certificateEnds, now)];
}

function certificateChecks(config: Config, now: EpochMs): Check[] {
  return listCertificates(config).map(({ certificate, expiresAt }) =>
    validity(`certificate ${certificate}`, expiresAt, now),
  );
}

function validity(check: string, ends: number, now: EpochMs): Check {
  const time = minute(new Date(ends).toISOString());
  const ok = ends - now >= certificateDays * day;
  const detail = ends <= now ? `expired on ${time}` : `valid until ${time}`;
  return { check, ok, detail: ok || ends <= now ? detail : `${detail}, less than ${certificateDays} days from now` };
}

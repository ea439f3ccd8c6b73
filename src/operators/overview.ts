import type { z } from 'zod';
import { rfc3339 } from '../input/value-types.ts';
import type { DirectoryState } from '../accounts/key-directory.ts';
import type { AccountStats } from '../accounts/account-stats.ts';
import { listCertificates } from '../config/certificates.ts';
import type { Settings } from '../config/config.ts';
import type { FileState, RunningState } from '../config/file-states.ts';
import { sum } from '../telemetry/key-uses.ts';
import type { RecentTraffic } from '../telemetry/recent-traffic.ts';
import type { views } from './views.ts';
import type { EpochMs } from '../times.ts';

/** The current state of this sidecar. */
export interface SidecarState extends RunningState {
  /** The current settings. Members that need a restart have their values from startup. */
  readonly settings: Settings;
  /** Counts the accounts and keys in a file. Returns undefined until the accounts in a database have been counted. */
  readonly accountStats: () => AccountStats | undefined;
}

/** The overview that the console's first page shows. */
export function viewOverview(
  state: SidecarState,
  recent: RecentTraffic,
  now: EpochMs,
): z.output<typeof views.Overview> {
  const { version, ready, settings, fileStates, needsRestart, database, limits } = state;
  const accountStats = state.accountStats();
  const accountsFile = fileStates.of('accounts');
  return {
    version,
    ready,
    configuration: { ...fileView(fileStates.of('sidecar')), needs_restart: [...needsRestart] },
    accounts_file: accountsFile === undefined ? null : fileView(accountsFile),
    database: database === undefined ? null : databaseView(database, now),
    master_keys: settings.store.masterKeys.length,
    certificates: listCertificates(settings).map(({ certificate, expiresAt }) => ({
      certificate,
      expires_at: rfc3339(expiresAt),
    })),
    limits: {
      connections: { limit: limits.limits.connections, used: limits.used.connections },
      in_flight: { limit: limits.limits.inFlight, used: limits.used.inFlight },
      buffered: { limit: limits.limits.buffered, used: limits.used.buffered },
    },
    counts: accountStats === undefined ? null : countsView(accountStats),
    since: rfc3339(recent.since),
  };
}

function databaseView({ connected, known, usableFor }: DirectoryState, now: EpochMs) {
  return {
    connected,
    keys_cached: known,
    cached_until: usableFor === undefined ? null : rfc3339(now + usableFor),
  };
}

function fileView(file: FileState | undefined) {
  const problems = [...(file?.problems ?? [])];
  return { in_force: problems.length === 0, loaded_at: file === undefined ? null : rfc3339(file.loadedAt), problems };
}

function countsView({ accounts, apiKeys, expiring, credentials }: AccountStats) {
  const all = sum([...accounts.values()]);
  return {
    accounts: all,
    accounts_encrypting: all - (accounts.get('none') ?? 0),
    keys_due: sum(apiKeys.map(({ rotation, count }) => (rotation === 'due' ? count : 0))),
    keys_expiring: sum(expiring.map(({ count }) => count)),
    credentials_due: sum(credentials.map(({ rotation, count }) => (rotation === 'due' ? count : 0))),
  };
}

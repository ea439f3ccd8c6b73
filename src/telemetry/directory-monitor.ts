import { Counter, Gauge, Histogram, type Registry } from 'prom-client';
import type { DirectoryState } from '../accounts/key-directory.ts';
import { lookupOutcomes, type Monitor } from '../accounts/postgres/monitor.ts';
import { logChange } from './change-log.ts';
import type { Logger } from './logger.ts';
import type { MonotonicMs } from '../times.ts';

/**
 * Metrics and log lines for accounts that are looked up in a database.
 *
 * @param state called at each scrape; returns undefined while the accounts are not in a database
 */
export function directoryMonitor(
  registry: Registry,
  log: Logger,
  state: () => DirectoryState | undefined,
  clock: () => MonotonicMs,
): Monitor {
  const registers = [registry];
  const lookups = new Counter({
    name: 'envelope_sidecar_accounts_lookups_total',
    help: 'Look-ups of API keys, by outcome: from the cache (cached, cached_unknown, stale), from the database (found, unknown), or from neither (unavailable).',
    labelNames: ['outcome'],
    registers,
  });
  for (const outcome of lookupOutcomes) lookups.inc({ outcome }, 0);
  const querySeconds = new Histogram({
    name: 'envelope_sidecar_accounts_query_duration_seconds',
    help: 'Queries for API keys that were not in the cache, several keys in each.',
    buckets: [0.00025, 0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5],
    registers,
  });
  void new Gauge({
    name: 'envelope_sidecar_accounts_cached',
    help: 'API keys in the cache: known ones, and unknown ones that were looked up.',
    labelNames: ['kind'],
    registers,
    collect() {
      const { known, unknown } = state() ?? { known: 0, unknown: 0 };
      this.set({ kind: 'known' }, known);
      this.set({ kind: 'unknown' }, unknown);
    },
  });
  void new Gauge({
    name: 'envelope_sidecar_accounts_connected',
    help: 'Whether the sidecar is connected to the database of the accounts, and receives its notifications: 1 or 0.',
    registers,
    collect() {
      this.set(state()?.connected === true ? 1 : 0);
    },
  });
  void new Gauge({
    name: 'envelope_sidecar_accounts_age_seconds',
    help: 'Time since the accounts database last responded; cached keys may be this old.',
    registers,
    collect() {
      const heardAt = state()?.heardAt;
      this.set(heardAt === undefined ? Number.NaN : Math.max(0, clock() - heardAt) / 1_000);
    },
  });
  const lostChanges = new Gauge({
    name: 'envelope_sidecar_accounts_lost_changes',
    help: 'A lower bound for the number of changes that the database has lost since the process started, because an older copy took its place.',
    registers,
  });
  return {
    lookup: (outcome) => lookups.inc({ outcome }),
    query: () => querySeconds.startTimer(),
    connected: () => log.info('connected to the database of the accounts'),
    disconnected: (err) =>
      log.error(
        { err },
        'no connection to the database of the accounts: if keys cannot be looked up, cached ones keep working for a limited time',
      ),
    changed: (differences) => differences.forEach((difference) => logChange(log, difference)),
    lost: (changes) => {
      lostChanges.inc(changes);
      log.error(
        { changes },
        'the database of the accounts is older than before: keys that were revoked may work again',
      );
    },
    failed: (err) => log.error({ err }, 'accounts cannot be read from their database'),
  };
}

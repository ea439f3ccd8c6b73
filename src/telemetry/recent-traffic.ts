import { Gauge, type Registry } from 'prom-client';
import { environmentNames, type EnvironmentName } from '../accounts/api-key.ts';
import { openReasons } from '../envelope/codec.ts';
import type { RefusalCode } from '../errors.ts';
import type { AccessLine } from './access-log.ts';
import { AccountCounts, type AccountCount } from './account-counts.ts';
import { GraceUses } from './grace-uses.ts';
import { KeyUses } from './key-uses.ts';
import type { Logger } from './logger.ts';
import { RefusalLog } from './refusal-log.ts';
import { TrafficHistory } from './traffic-history.ts';
import type { EpochMs } from '../times.ts';

/** The counts of one account in one environment. */
interface EnvironmentCount extends AccountCount {
  readonly environment: EnvironmentName;
}

/** An account with refusals. */
interface Failing extends Omit<EnvironmentCount, 'unexpected' | 'codes'> {
  /** The account's most frequent code, or the only code to which the result is restricted. */
  readonly code: RefusalCode | undefined;
}

/** How many accounts `failures` returns. */
const maxNamed = 20;

/** The refusals of bodies that are not envelopes or that cannot be opened. */
const envelopeCodes: ReadonlySet<RefusalCode> = new Set([
  'envelope_required',
  'envelope_malformed',
  'decryption_failed',
]);

/**
 * Whether an envelope could not be opened, as counted by `envelopes_total{operation="open",outcome="failed"}`. Bodies without an envelope,
 * and bodies for which the client names credentials that the account does not have, are not opened at all.
 */
function didNotOpen({ code, reason }: AccessLine): boolean {
  const isOfEnvelope = code === 'decryption_failed' || code === 'too_many_attempts';
  return isOfEnvelope && openReasons.some((each) => each === reason);
}

/** The recent traffic of this process by account, in bounded memory. Metrics cannot show it, because no metric has accounts as a label. */
export class RecentTraffic {
  /** The API keys that still need a grace period. */
  readonly graceUses = new GraceUses();
  readonly refusals = new RefusalLog();
  readonly keyUses = new KeyUses();
  readonly history = new TrafficHistory();
  /** When this process began to record. */
  readonly since: EpochMs;
  readonly #clock: () => EpochMs;
  readonly #accounts: Readonly<Record<EnvironmentName, AccountCounts>> = {
    test: new AccountCounts(),
    live: new AccountCounts(),
  };

  constructor(clock: () => EpochMs) {
    this.#clock = clock;
    this.since = clock();
  }

  /**
   * Records a completed request.
   *
   * @param opened     whether the request's envelope was opened
   * @param unexpected whether the request's body begins like an envelope although the account does not encrypt
   */
  add(line: AccessLine, opened: boolean, unexpected: boolean, now: EpochMs): void {
    const { code, environment, account, api_key: apiKey } = line;
    const unopened = didNotOpen(line);
    const unread = !unopened && code !== undefined && envelopeCodes.has(code);
    this.history.add(line, now);
    if (account === undefined || apiKey === undefined || environment === undefined) return;
    // A request with a key for the other environment counts neither as a use of the key nor as an attempt with an expired or revoked key.
    if (code !== 'environment_mismatch') this.keyUses.add(apiKey, code === 'invalid_api_key', now);
    const outcome = unopened ? 'unopened' : opened ? 'opened' : unexpected ? 'unexpected' : undefined;
    const envelope = unread ? 'unread' : outcome;
    this.#accounts[environment].add(account, code, envelope, now);
    if (code === undefined) return;
    const { request_id: requestId, route, reason } = line;
    this.refusals.add({ time: now, environment, account, apiKey, requestId, route, code, reason });
  }

  /**
   * The 20 accounts with the most refusals in the last ten minutes, most refusals first. An account is counted separately in each
   * environment.
   *
   * @param wanted restricts the result to accounts of one environment, or to refusals with one code
   */
  failures(
    wanted: { readonly environment?: EnvironmentName | undefined; readonly code?: RefusalCode | undefined } = {},
  ) {
    return this.#counts()
      .filter(({ environment }) => wanted.environment === undefined || environment === wanted.environment)
      .map(({ unexpected: _unexpected, codes, ...count }): Failing => {
        const [[most] = []] = [...codes].toSorted(([, a], [, b]) => b - a);
        if (wanted.code === undefined) return Object.assign(count, { code: most });
        return Object.assign(count, { code: wanted.code, refusals: codes.get(wanted.code) ?? 0 });
      })
      .filter(({ refusals }) => refusals > 0)
      .toSorted((a, b) => b.refusals - a.refusals || (a.account < b.account ? -1 : 1))
      .slice(0, maxNamed);
  }

  #counts(): readonly EnvironmentCount[] {
    const now = this.#clock();
    return environmentNames.flatMap((environment) =>
      this.#accounts[environment].all(now).map((count) => Object.assign({ environment }, count)),
    );
  }

  /**
   * Of the accounts that sent envelopes in the last ten minutes, the fraction for which no envelope could be opened. It is between 0 and 1,
   * and 0 if no account sent envelopes.
   */
  failingRatio(environment: EnvironmentName): number {
    const counts = this.#accounts[environment].all(this.#clock());
    const sending = counts.filter((count) => count.opened > 0 || failsAlways(count));
    return sending.length === 0 ? 0 : sending.filter(failsAlways).length / sending.length;
  }

  /** The number of envelopes in the last ten minutes from an account that does not encrypt. */
  unexpectedEnvelopes(account: string, environment: EnvironmentName): number {
    return this.#accounts[environment].unexpected(account, this.#clock());
  }

  /**
   * Logs the accounts, if any, that sent envelopes although they do not encrypt. Also logs the accounts with the most refusals, at `warn`
   * if all envelopes of one of them fail.
   */
  report(log: Logger): void {
    const accounts = this.#counts()
      .filter(({ unexpected }) => unexpected > 0)
      .toSorted((a, b) => b.unexpected - a.unexpected)
      .slice(0, maxNamed)
      .map(({ account, environment, unexpected }) => ({ account, environment, envelopes: unexpected }));
    if (accounts.length > 0)
      log.warn({ accounts }, 'envelopes arrived from accounts without encryption in the last ten minutes');
    const failures = this.failures();
    if (failures.length === 0) return;
    log[failures.some(failsAlways) ? 'warn' : 'info'](
      { failures },
      'accounts with the most refusals in the last ten minutes',
    );
  }
}

function failsAlways(count: Pick<AccountCount, 'opened' | 'unopened' | 'unread'>): boolean {
  return count.opened === 0 && count.unopened + count.unread > 0;
}

/** Registers a metric for an alert on merchants whose requests always fail, even if they send few requests. */
export function recentTrafficMetrics(registry: Registry, recent: RecentTraffic): void {
  void new Gauge({
    name: 'envelope_sidecar_accounts_failing_ratio',
    help: 'Of the accounts that sent envelopes in the last ten minutes, the share from which no envelope could be opened.',
    labelNames: ['environment'],
    registers: [registry],
    collect() {
      for (const environment of environmentNames) this.set({ environment }, recent.failingRatio(environment));
    },
  });
}

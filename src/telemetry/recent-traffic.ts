import { Gauge, type Registry } from 'prom-client';
import { environmentNames, type EnvironmentName } from '../accounts/api-key.ts';
import type { RefusalCode } from '../errors.ts';
import type { AccessLine } from './access-log.ts';
import { AccountCounts, type AccountCount } from './account-counts.ts';
import { GraceUses } from './grace-uses.ts';
import { LastHour, type Minute } from './last-hour.ts';
import type { Logger } from './logger.ts';
import { RefusalLog, type RefusedRequest } from './refusal-log.ts';

/** An account with refusals, and its counts of the last ten minutes. */
export interface AccountFailures extends AccountCount {
  readonly environment: EnvironmentName;
}

/** How many accounts `failures` names. */
const mostNamed = 20;

/** The refusals of bodies that are not an envelope or do not open. */
const unopenedCodes: ReadonlySet<RefusalCode> = new Set([
  'envelope_required',
  'envelope_malformed',
  'decryption_failed',
]);

/**
 * Recent traffic of this process by account, in bounded memory. Metrics do not have it, because accounts are never
 * labels.
 */
export class RecentTraffic {
  /** Which API keys still need a grace. */
  readonly graceUses = new GraceUses();
  readonly #clock: () => number;
  readonly #refused = new RefusalLog();
  readonly #lastHour = new LastHour();
  readonly #accounts: Readonly<Record<EnvironmentName, AccountCounts>> = {
    test: new AccountCounts(),
    live: new AccountCounts(),
  };

  /** @param clock epoch milliseconds */
  constructor(clock: () => number) {
    this.#clock = clock;
  }

  /**
   * Records a completed request.
   *
   * @param opened     whether its envelope was opened
   * @param unexpected whether its body begins like an envelope although the account does not encrypt
   * @param now        epoch milliseconds
   */
  add(line: AccessLine, opened: boolean, unexpected: boolean, now: number): void {
    const { code, environment, account, api_key: apiKey } = line;
    const unopened = code !== undefined && unopenedCodes.has(code);
    this.#lastHour.add(code, unopened, now);
    if (account === undefined || apiKey === undefined || environment === undefined) return;
    const envelope = unopened ? 'unopened' : opened ? 'opened' : unexpected ? 'unexpected' : undefined;
    this.#accounts[environment].add(account, code !== undefined, envelope, now);
    if (code === undefined) return;
    const { request_id: requestId, route, reason } = line;
    this.#refused.add({ time: now, environment, account, apiKey, requestId, route, code, reason });
  }

  /** Recent refusals of known accounts, newest first: at most 50 of each and 1,000 in all. @param account only of this one */
  activity(account?: string): readonly RefusedRequest[] {
    return this.#refused.recent(account);
  }

  /** The 20 accounts with the most refusals in the last ten minutes, by environment, most first. */
  failures(): readonly AccountFailures[] {
    const now = this.#clock();
    return environmentNames
      .flatMap((environment) =>
        this.#accounts[environment].all(now).map((each) => Object.assign({ environment }, each)),
      )
      .filter(({ refusals }) => refusals > 0)
      .toSorted((a, b) => b.refusals - a.refusals || (a.account < b.account ? -1 : 1))
      .slice(0, mostNamed);
  }

  #unexpected(): readonly { readonly account: string; readonly envelopes: number }[] {
    return environmentNames
      .flatMap((environment) =>
        [...this.#accounts[environment].unexpected(this.#clock())].map(([account, envelopes]) => {
          return { account, environment, envelopes };
        }),
      )
      .toSorted((a, b) => b.envelopes - a.envelopes)
      .slice(0, mostNamed);
  }

  /** Requests and refusals of the last sixty minutes, oldest first, of known accounts and others. */
  lastHour(): readonly Minute[] {
    return this.#lastHour.byMinute(this.#clock());
  }

  /**
   * The fraction of the accounts with envelopes in the last ten minutes for which none opened, from 0 to 1; 0 without
   * such accounts.
   */
  failingRatio(environment: EnvironmentName): number {
    const sending = this.#accounts[environment].all(this.#clock()).filter(sentEnvelopes);
    return sending.length === 0 ? 0 : sending.filter(failsAlways).length / sending.length;
  }

  /** The number of envelopes in the last ten minutes of an account that does not encrypt. */
  unexpectedEnvelopes(account: string, environment: EnvironmentName): number {
    return this.#accounts[environment].unexpected(this.#clock()).get(account) ?? 0;
  }

  /**
   * Writes to the log, if there are any: the accounts that sent envelopes although they do not encrypt, and those with the
   * most refusals, at `warn` if all envelopes of one fail.
   */
  report(log: Logger): void {
    const unexpected = this.#unexpected();
    if (unexpected.length > 0) {
      log.warn({ accounts: unexpected }, 'accounts that do not encrypt sent envelopes in ten minutes');
    }
    const failures = this.failures();
    if (failures.length === 0) return;
    log[failures.some(failsAlways) ? 'warn' : 'info']({ failures }, 'accounts with the most refusals in ten minutes');
  }
}

function sentEnvelopes({ opened, unopened }: AccountCount): boolean {
  return opened + unopened > 0;
}

function failsAlways({ opened, unopened }: AccountCount): boolean {
  return opened === 0 && unopened > 0;
}

/** For an alert on merchants whose requests always fail, even if they are few. */
export function recentTrafficMetrics(registry: Registry, recent: RecentTraffic): void {
  void new Gauge({
    name: 'envelope_sidecar_accounts_failing_ratio',
    help: 'Of the accounts that sent envelopes in the last ten minutes, the part of which no envelope opened.',
    labelNames: ['environment'],
    registers: [registry],
    collect() {
      for (const environment of environmentNames) this.set({ environment }, recent.failingRatio(environment));
    },
  });
}

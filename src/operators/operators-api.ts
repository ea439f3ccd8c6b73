import type { Server } from 'node:http';
import type { TlsOptions } from 'node:tls';
import { untilServed } from '../accounts/until-served.ts';
import type { OpenAccounts } from '../accounts/open-accounts.ts';
import type { Config, OperatorsListener } from '../config/config.ts';
import type { Logger } from '../telemetry/logger.ts';
import type { CountOperation } from '../telemetry/sidecar-metrics.ts';
import type { RecentTraffic } from '../telemetry/recent-traffic.ts';
import { createOperatorsListener, type OperatorsState } from './listener.ts';
import type { SidecarState } from './overview.ts';
import { problemsPageOf } from './problems.ts';

export interface OperatorsApiDependencies {
  readonly log: Logger;
  readonly count: CountOperation;
  readonly recent: RecentTraffic;
  readonly sidecar: () => SidecarState;
  /** Called for each request, because a new configuration may replace them. */
  readonly accounts: () => OpenAccounts;
  /** Epoch milliseconds. */
  readonly clock: () => number;
}

/** How long the response to a change waits until this sidecar has applied it. Milliseconds. */
const servedPatience = 2_000;

/** Without tokens every request is refused. */
const closed = { tokens: [], hosts: [], console: false };

/** The operators' API on the accounts of a configuration, which may be replaced while it runs. */
export class OperatorsApi {
  readonly #dependencies: OperatorsApiDependencies;
  #access: Pick<OperatorsListener, 'tokens' | 'hosts' | 'console'>;
  #problemsPage: string;

  constructor(config: Config, dependencies: OperatorsApiDependencies) {
    this.#dependencies = dependencies;
    this.#access = config.operators ?? closed;
    this.#problemsPage = problemsPageOf(config.documentation);
  }

  /** @param tls undefined: plain HTTP */
  listener(tls: TlsOptions | undefined): Promise<Server> {
    const { log, count, clock, recent, sidecar, accounts } = this.#dependencies;
    const state = (): OperatorsState => ({
      operations: accounts().operations,
      isServed: (account) => this.#isServed(account),
      recent,
      sidecar,
      problemsPage: this.#problemsPage,
      ...this.#access,
    });
    return createOperatorsListener({ state, log, count, clock, tls });
  }

  /** Applies a new configuration. */
  configure(config: Config): void {
    this.#access = config.operators ?? closed;
    this.#problemsPage = problemsPageOf(config.documentation);
  }

  #isServed(account: string): Promise<boolean> {
    const { accounts } = this.#dependencies;
    const { operations, vault } = accounts();
    return untilServed(account, { operations, vault, directory: () => accounts().directory }, servedPatience);
  }
}

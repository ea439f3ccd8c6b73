import type { Server } from 'node:http';
import type { TlsOptions } from 'node:tls';
import { untilInForce } from '../accounts/in-force.ts';
import type { OpenAccounts } from '../accounts/open-accounts.ts';
import { Operations } from '../accounts/operations.ts';
import type { Config, OperatorsListener } from '../config/config.ts';
import { auditTo } from '../telemetry/audit.ts';
import type { Logger } from '../telemetry/logger.ts';
import type { CountOperation } from '../telemetry/operators-metrics.ts';
import type { RecentTraffic } from '../telemetry/recent-traffic.ts';
import { createOperatorsListener, type OperatorsState } from './operators.ts';
import type { SidecarState } from './overview.ts';
import { problemsPageOf } from './problems.ts';

export interface OperatorsApiDependencies {
  readonly log: Logger;
  readonly count: CountOperation;
  readonly recent: RecentTraffic;
  readonly sidecar: () => SidecarState;
  /** Asked each time: a new configuration may replace them. */
  readonly accounts: () => OpenAccounts;
  /** Epoch milliseconds. */
  readonly clock: () => number;
}

/** How long the response to a change waits until this sidecar works by it. Milliseconds. */
const inForcePatience = 2_000;

/** Without tokens every request is refused. */
const closed = { tokens: [], hosts: [], console: false };

/** The operators' API on the accounts of a configuration, which may be replaced while it runs. */
export class OperatorsApi {
  readonly #dependencies: OperatorsApiDependencies;
  #access: Pick<OperatorsListener, 'tokens' | 'hosts' | 'console'>;
  #problemsPage: string;
  #operations: { readonly on: OpenAccounts; readonly all: Operations };

  constructor(config: Config, dependencies: OperatorsApiDependencies) {
    this.#dependencies = dependencies;
    this.#access = config.operators ?? closed;
    this.#problemsPage = problemsPageOf(config.documentation);
    this.#operations = this.#operationsOn(dependencies.accounts());
  }

  /** @param tls undefined: plain HTTP */
  listener(tls: TlsOptions | undefined): Promise<Server> {
    const { log, count, clock, recent, sidecar } = this.#dependencies;
    const state = (): OperatorsState => ({
      operations: this.#operations.all,
      isInForce: (account) => this.#isInForce(account),
      recent,
      sidecar,
      problemsPage: this.#problemsPage,
      ...this.#access,
    });
    return createOperatorsListener({ state, log, count, clock, tls });
  }

  /** Takes over a new configuration. */
  configure(config: Config): void {
    this.#access = config.operators ?? closed;
    this.#problemsPage = problemsPageOf(config.documentation);
    const accounts = this.#dependencies.accounts();
    if (this.#operations.on !== accounts) this.#operations = this.#operationsOn(accounts);
  }

  #isInForce(account: string): Promise<boolean> {
    const { accounts } = this.#dependencies;
    const { store, vault } = accounts();
    return untilInForce(account, { store, vault, directory: () => accounts().directory }, inForcePatience);
  }

  #operationsOn(accounts: OpenAccounts): { readonly on: OpenAccounts; readonly all: Operations } {
    const { log, clock } = this.#dependencies;
    const { store, vault } = accounts;
    return { on: accounts, all: new Operations({ store, vault, clock, audit: auditTo(log) }) };
  }
}

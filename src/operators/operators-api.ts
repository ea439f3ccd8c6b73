import type { Server } from 'node:http';
import type { TlsOptions } from 'node:tls';
import { untilServed } from '../accounts/until-served.ts';
import type { Accounts } from '../accounts/accounts.ts';
import type { Config } from '../config/config.ts';
import type { Parts } from './endpoint.ts';
import { createOperatorsListener, type OperatorsDependencies, type OperatorsState } from './listener.ts';
import { problemsPageOf } from './problems.ts';

interface OperatorsApiDependencies
  extends Pick<OperatorsDependencies, 'log' | 'count' | 'clock'>, Pick<Parts, 'recent' | 'sidecar'> {
  /** Called for each request, because a new configuration may replace them. */
  readonly accounts: () => Accounts;
}

/** How long the response to a change waits until this sidecar has applied it. Milliseconds. */
const servedPatience = 2_000;

/** The operators' API on the accounts of a configuration, which may be replaced while it runs. */
export class OperatorsApi {
  readonly #dependencies: OperatorsApiDependencies;
  #settings: Omit<OperatorsState, keyof Parts>;

  constructor(config: Config, dependencies: OperatorsApiDependencies) {
    this.#dependencies = dependencies;
    this.#settings = settingsOf(config);
  }

  /** @param tls undefined: plain HTTP */
  listener(tls: TlsOptions | undefined): Promise<Server> {
    const { log, count, clock, recent, sidecar, accounts } = this.#dependencies;
    const state = (): OperatorsState => ({
      operations: accounts().operations,
      isServed: (account) => this.#isServed(account),
      recent,
      sidecar,
      ...this.#settings,
    });
    return createOperatorsListener({ state, log, count, clock, tls });
  }

  configure(config: Config): void {
    this.#settings = settingsOf(config);
  }

  #isServed(account: string): Promise<boolean> {
    const { accounts } = this.#dependencies;
    const { operations, vault } = accounts();
    return untilServed(account, { operations, vault, directory: () => accounts().directory }, servedPatience);
  }
}

/** Without tokens every request is refused. */
function settingsOf({ operators, documentation }: Config): Omit<OperatorsState, keyof Parts> {
  const { tokens = [], hosts = [], console = false } = operators ?? {};
  return { tokens, hosts, console, problemsPage: problemsPageOf(documentation) };
}

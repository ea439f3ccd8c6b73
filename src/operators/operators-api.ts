import type { Server } from 'node:http';
import type { TlsOptions } from 'node:tls';
import { isDeepStrictEqual } from 'node:util';
import type { VersionedDirectory } from '../accounts/directory.ts';
import { untilInForce } from '../accounts/in-force.ts';
import { Operations } from '../accounts/operations.ts';
import type { Store } from '../accounts/store.ts';
import type { Vault } from '../accounts/vault.ts';
import type { Config, OperatorsListener, StoreSettings } from '../config/config.ts';
import { openStore } from '../config/open-store.ts';
import { auditTo } from '../telemetry/audit.ts';
import type { Logger } from '../telemetry/logger.ts';
import type { CountOperation } from '../telemetry/operators-metrics.ts';
import type { RecentTraffic } from '../telemetry/recent-traffic.ts';
import type { Env } from '../yaml/values.ts';
import { createOperatorsListener, type OperatorsState } from './operators.ts';
import type { SidecarState } from './overview.ts';
import { problemsPageOf } from './problems.ts';

export interface OperatorsApiDependencies {
  readonly log: Logger;
  readonly count: CountOperation;
  readonly recent: RecentTraffic;
  readonly sidecar: () => Promise<SidecarState>;
  /** Where this sidecar looks keys up at the moment. */
  readonly directory: () => VersionedDirectory;
  /** Epoch milliseconds. */
  readonly clock: () => number;
  readonly env: Env;
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
  #settings: StoreSettings;
  #store: Store;
  #vault: Vault;
  #operations: Operations;

  constructor(config: Config, dependencies: OperatorsApiDependencies) {
    this.#dependencies = dependencies;
    this.#access = config.operators ?? closed;
    this.#problemsPage = problemsPageOf(config.documentation);
    this.#settings = config.store;
    [this.#store, this.#vault, this.#operations] = this.#open();
  }

  /** @param tls undefined: plain HTTP */
  listener(tls: TlsOptions | undefined): Promise<Server> {
    const { log, count, clock, recent, sidecar } = this.#dependencies;
    const state = (): OperatorsState => ({
      operations: this.#operations,
      isInForce: (account) => this.#isInForce(account),
      recent,
      sidecar,
      problemsPage: this.#problemsPage,
      ...this.#access,
    });
    return createOperatorsListener({ state, log, count, clock, tls });
  }

  /** Takes over a new configuration. A store whose settings are the same stays open, with its connections. */
  configure(config: Config): void {
    this.#access = config.operators ?? closed;
    this.#problemsPage = problemsPageOf(config.documentation);
    if (isDeepStrictEqual(this.#settings, config.store)) return;
    const before = this.#store;
    this.#settings = config.store;
    [this.#store, this.#vault, this.#operations] = this.#open();
    void before.close();
  }

  close(): Promise<void> {
    return this.#store.close();
  }

  #isInForce(account: string): Promise<boolean> {
    const { directory } = this.#dependencies;
    return untilInForce(account, { store: this.#store, vault: this.#vault, directory }, inForcePatience);
  }

  #open(): [Store, Vault, Operations] {
    const { log, clock, env } = this.#dependencies;
    const { store, vault } = openStore(this.#settings, env, { besideTraffic: true });
    return [store, vault, new Operations({ store, vault, clock, audit: auditTo(log) })];
  }
}

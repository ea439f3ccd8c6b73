import type { Server } from 'node:http';
import type { TlsOptions } from 'node:tls';
import type { AddressInfo } from 'node:net';
import { isDeepStrictEqual } from 'node:util';
import { Registry } from 'prom-client';
import type { KeyDirectory } from './accounts/key-directory.ts';
import { sampleOf, type Accounts } from './accounts/accounts.ts';
import type { Monitor } from './accounts/postgres/monitor.ts';
import { createAdminListener } from './admin/listener.ts';
import { Drain } from './admin/drain.ts';
import { Readiness } from './admin/readiness.ts';
import { certificatesOf } from './config/certificates.ts';
import type { Config, Settings, StoreSettings } from './config/config.ts';
import { FileStates } from './config/file-states.ts';
import type { LoadedFiles } from './config/loaded.ts';
import { inForceOf, needsRestart } from './config/needs-restart.ts';
import { openStores } from './config/open-stores.ts';
import { Gateway } from './gateway/gateway.ts';
import { createListener, tlsOptionsOf } from './gateway/listener.ts';
import { Rules } from './gateway/rules.ts';
import { TlsRenewal } from './gateway/tls-renewal.ts';
import { Acceptors, listen } from './http.ts';
import type { SidecarState } from './operators/overview.ts';
import { auditTo, logChanges } from './telemetry/change-log.ts';
import { directoryMonitor } from './telemetry/directory-monitor.ts';
import type { Logger } from './telemetry/logger.ts';
import { ReloadMetrics } from './telemetry/reload-metrics.ts';
import {
  accountMetrics,
  certificateMetrics,
  inFlightMetric,
  limitMetrics,
  operatorsMetrics,
  processMetrics,
  sealedCredentialsMetric,
  type LimitUse,
} from './telemetry/sidecar-metrics.ts';
import { TrafficRecorder } from './telemetry/traffic-recorder.ts';
import { Upstreams, type Upstream } from './upstream/upstream.ts';
import { waitUntil } from './promises.ts';
import type { Env } from './yaml/values.ts';

/** The dependencies that the process passes to the sidecar. */
interface AppDependencies {
  readonly log: Logger;
  /** Epoch milliseconds. */
  readonly clock: () => number;
  readonly version: string;
  /** Environment variables, which the accounts' file may reference. */
  readonly env: Env;
  /** The token that `POST /drain` must carry; without one every such request is refused. */
  readonly drainToken?: string;
  readonly registry?: Registry;
}

/** The composition root: connects the parts, applies new configurations to them, and closes them in order. */
export class App {
  readonly #dependencies: AppDependencies;
  readonly #log: Logger;
  readonly #gateway: Gateway;
  readonly #recorder: TrafficRecorder;
  readonly #merchants: Acceptors;
  readonly #merchantsTls: TlsRenewal | undefined;
  readonly #adminListener: Server;
  readonly #upstreams = new Upstreams();
  readonly #registry: Registry;
  #monitor: Monitor | undefined;
  #operatorsListener: Server | undefined;
  #operatorsTls: TlsRenewal | undefined;
  /** The configuration the process started with. */
  readonly #started: Settings;
  readonly #fileStates: FileStates;
  #config: Config;
  #accounts: Accounts;
  readonly #readiness: Readiness;
  readonly #drain: Drain;

  constructor(config: Config, dependencies: AppDependencies) {
    const { log, clock, version, drainToken, registry = new Registry() } = dependencies;
    // Without the accounts, because their credentials must not stay in memory after a reload.
    const { accounts: _accounts, ...settings } = config;
    this.#started = settings;
    this.#config = config;
    this.#dependencies = dependencies;
    this.#log = log;
    this.#registry = registry;
    this.#recorder = new TrafficRecorder(registry, log, clock, version);
    processMetrics(registry, version);
    this.#fileStates = new FileStates(config, { log, metrics: new ReloadMetrics(registry), clock });
    this.#accounts = this.#openStores();
    this.#gateway = new Gateway(this.#rules(), log, this.#recorder, clock);
    this.#merchants = new Acceptors(createListener(config, this.#gateway), config.limits.connections);
    this.#merchantsTls = TlsRenewal.of(this.#merchants.server, config.listen.tls);
    accountMetrics(registry, () => this.#accounts.tally());
    certificateMetrics(registry, () => certificatesOf(this.#config));
    limitMetrics(registry, () => this.#limits());
    inFlightMetric(registry, () => this.#gateway.activeReplies.size);
    this.#readiness = new Readiness(sealedCredentialsMetric(registry), log);
    this.#drain = new Drain({
      log,
      readiness: this.#readiness,
      listener: this.#merchants,
      connections: this.#gateway.connections,
      activeReplies: this.#gateway.activeReplies,
      abortAll: () => this.#gateway.stop(),
      monotonic,
    });
    const isReady = (): boolean => this.#readiness.isReady;
    this.#adminListener = createAdminListener({ registry, drainToken, isReady, drain: () => this.drain() });
  }

  /**
   * Opens the listeners, admin first, then reports ready.
   *
   * @throws the listener's error if an address cannot be bound; no listener stays open
   */
  async start(): Promise<void> {
    const { admin, operators } = this.#config;
    await open('admin', listen(this.#adminListener, admin), this.#log);
    try {
      await this.#recorder.configure(this.#config);
      if (operators !== undefined) {
        this.#operatorsListener = await this.#createOperatorsApi(operators.tls && tlsOptionsOf(operators.tls));
        this.#operatorsTls = TlsRenewal.of(this.#operatorsListener, operators.tls);
        await open('operators', listen(this.#operatorsListener, operators), this.#log);
      }
      await this.#openAccounts();
      await open('merchants', this.#merchants.open(this.#config.listen), this.#log);
    } catch (error) {
      this.#adminListener.close();
      this.#operatorsListener?.close();
      await this.#accounts.close();
      throw error;
    }
    this.#logExpiredCertificates();
    this.#readiness.begin();
  }

  /** The bound addresses: port 0 in the configuration stands for any free port. */
  get addresses(): Readonly<Record<'merchants' | 'admin', AddressInfo> & { operators: AddressInfo | undefined }> {
    return {
      operators: this.#operatorsListener?.address() as AddressInfo | undefined,
      merchants: this.#merchants.server.address() as AddressInfo,
      admin: this.#adminListener.address() as AddressInfo,
    };
  }

  /** The store that the running configuration uses. */
  get store(): StoreSettings {
    return this.#config.store;
  }

  /** Applies valid files. An invalid file is reported, and its previous content stays in force. */
  reload(loaded: LoadedFiles): void {
    this.#fileStates.take(loaded, this.#config, (config) => this.apply(config));
  }

  /** Replaces the configuration as a whole. Requests in flight keep the configuration that they began with. */
  apply(config: Config): void {
    const upstreamsBefore = this.#upstreams.all();
    const before = this.#accounts;
    const { store: storeBefore, accounts: accountsBefore } = this.#config;
    this.#config = config;
    if (isDeepStrictEqual(storeBefore, config.store)) before.take(config.accounts);
    else this.#accounts = this.#openStores();
    this.#gateway.configure(this.#rules());
    this.#log.level = config.log.level;
    void this.#recorder.configure(config);
    // Moving accounts between a file and a database does not change them.
    if (config.store.type === storeBefore.type) void logChanges(this.#log, accountsBefore, config.accounts);
    const { timeouts, limits, listen, operators } = config;
    this.#merchants.server.headersTimeout = timeouts.header;
    this.#merchants.server.keepAliveTimeout = timeouts.idle;
    this.#merchants.server.maxHeadersCount = limits.headers + 1;
    if (listen.tls !== undefined) this.#merchantsTls?.renew(listen.tls);
    if (operators?.tls !== undefined) this.#operatorsTls?.renew(operators.tls);
    this.#logExpiredCertificates();
    for (const member of needsRestart(this.#started, config)) {
      this.#log.warn({ member }, 'changed, but cannot change while running: restart to apply');
    }
    for (const old of upstreamsBefore) if (!this.#upstreams.all().includes(old)) void this.#closeWhenUnused(old, old);
    if (this.#accounts !== before) {
      void this.#openAccounts();
      void this.#closeWhenUnused(before.directory, before);
    } else if (config.store.type === 'file') {
      this.#readiness.report(sampleOf(config.accounts));
    }
  }

  /** Ends readiness; resolves when no request is in flight or `timeouts.drain` is over. `stop` closes the listeners. */
  drain(): Promise<void> {
    return this.#drain.begin(this.#config.timeouts.drain);
  }

  /** Drains, then closes every part after the parts that use it. */
  async stop(): Promise<void> {
    await this.#drain.finish(this.#config.timeouts.drain);
    for (const other of [this.#operatorsListener, this.#adminListener]) {
      other?.close();
      other?.closeAllConnections();
    }
    for (const upstream of this.#upstreams.all()) upstream.close();
    await this.#accounts.close();
    await this.#recorder.stop();
    this.#log.info('stopped');
  }

  /** Logs expired certificates. They are still used, because the previous ones may have expired, too. */
  #logExpiredCertificates(): void {
    for (const { certificate, expiresAt } of certificatesOf(this.#config)) {
      if (expiresAt <= this.#dependencies.clock())
        this.#log.error({ member: certificate }, 'the certificate has expired');
    }
  }

  async #openAccounts(): Promise<void> {
    const { database } = this.#accounts;
    if (database === undefined) {
      this.#readiness.report(sampleOf(this.#config.accounts));
      return;
    }
    await database.open();
    const tried = this.#readiness.tryMasterKey(() => database.sampleCredentials());
    // If the database is unreachable, the start does not wait for it.
    if (database.state.connected) await tried;
  }

  #limits(): LimitUse {
    return { limits: this.#config.limits, used: this.#gateway.used };
  }

  #state(): SidecarState {
    return {
      version: this.#dependencies.version,
      ready: this.#readiness.isReady,
      settings: inForceOf(this.#started, this.#config),
      fileStates: this.#fileStates,
      needsRestart: needsRestart(this.#started, this.#config),
      database: this.#accounts.database?.state,
      limits: this.#limits(),
      tally: this.#accounts.tally(),
    };
  }

  async #createOperatorsApi(tls: TlsOptions | undefined): Promise<Server> {
    // Loaded on demand, to save memory in a sidecar without the API.
    const { createOperatorsApi } = await import('./operators/operators-api.ts');
    return createOperatorsApi({
      config: () => this.#config,
      tls,
      log: this.#log,
      count: operatorsMetrics(this.#registry),
      recent: this.#recorder.recent,
      sidecar: () => this.#state(),
      accounts: () => this.#accounts,
      clock: this.#dependencies.clock,
    });
  }

  /** The rules of the configuration. An upstream with unchanged settings keeps its connections. */
  #rules(): Rules {
    return new Rules(this.#config, this.#accounts.directory, this.#upstreams.configure(this.#config));
  }

  #openStores(): Accounts {
    const { env, clock } = this.#dependencies;
    return openStores(this.#config, {
      env,
      clock,
      monotonic,
      audit: auditTo(this.#log),
      unrecorded: (err) => this.#log.warn({ err }, 'unexpected envelopes cannot be recorded next to the accounts file'),
      monitor: () =>
        (this.#monitor ??= directoryMonitor(
          this.#registry,
          this.#log,
          () => this.#accounts.database?.state,
          monotonic,
        )),
    });
  }

  /** Closes a replaced part after the last request that uses it. */
  async #closeWhenUnused(part: Upstream | KeyDirectory, closable: { close(): unknown }): Promise<void> {
    await waitUntil(() => !this.#gateway.uses(part), Infinity);
    await closable.close();
  }
}

async function open(listener: string, listening: Promise<AddressInfo>, log: Logger): Promise<void> {
  const { address, port } = await listening;
  log.info({ listener, address, port }, 'listening');
}

/** Milliseconds on a clock that is never adjusted. */
const monotonic = (): number => performance.now();

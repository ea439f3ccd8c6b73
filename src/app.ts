import type { Server } from 'node:http';
import type { TlsOptions } from 'node:tls';
import type { AddressInfo } from 'node:net';
import { isDeepStrictEqual } from 'node:util';
import { Registry } from 'prom-client';
import type { KeyDirectory } from './accounts/key-directory.ts';
import { takeSample, type Accounts } from './accounts/accounts.ts';
import type { Monitor } from './accounts/postgres/monitor.ts';
import { createAdminListener } from './admin/listener.ts';
import { Drain } from './admin/drain.ts';
import { Readiness } from './admin/readiness.ts';
import { listCertificates } from './config/certificates.ts';
import type { Config, Settings } from './config/config.ts';
import { FileStates } from './config/file-states.ts';
import type { FileDigests, ReloadedFiles } from './config/loaded.ts';
import { keepFixed, needsRestart } from './config/needs-restart.ts';
import { openStores } from './config/open-stores.ts';
import { listen } from './http.ts';
import type { OperatorsApi } from './operators/listener.ts';
import type { SidecarState } from './operators/overview.ts';
import { TlsRenewal } from './operators/tls-renewal.ts';
import { GatewaySnapshot } from './proxy/admit/snapshot.ts';
import { queueOfUpstreamReads } from './proxy/capacity/queues.ts';
import { MerchantsListener } from './proxy/merchants-listener.ts';
import { Proxy } from './proxy/proxy.ts';
import { logChanges } from './telemetry/change-log.ts';
import { ClockWatch } from './telemetry/clock-watch.ts';
import { directoryMonitor } from './telemetry/directory-monitor.ts';
import { HandshakeFailures } from './telemetry/handshakes.ts';
import { logExpired, logListening, type Logger } from './telemetry/logger.ts';
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
import { watchTrail } from './telemetry/trail-watch.ts';
import { Upstreams, type Upstream } from './upstream/upstream.ts';
import { waitUntil } from './promises.ts';
import { listenerOptions } from './tls.ts';
import type { Env } from './yaml/values.ts';
import type { EpochMs } from './times.ts';

/** The dependencies that the process passes to the sidecar. */
export interface AppDependencies {
  readonly log: Logger;
  readonly clock: () => EpochMs;
  readonly version: string;
  /** Environment variables, which the accounts file may reference. */
  readonly env: Env;
  /** The token that commands on the admin listener must carry; if undefined, every such command is refused. */
  readonly drainToken?: string;
  /** Loads the configuration again; resolves once it has been applied or its problems have been reported. */
  readonly reload?: () => Promise<void>;
  readonly registry?: Registry;
  /** The digests of the files that the configuration was loaded from. */
  readonly digests: FileDigests;
}

/** The composition root: connects the parts, applies new configurations to them, and closes them in order. */
export class App {
  readonly #dependencies: AppDependencies;
  readonly #log: Logger;
  readonly #proxy: Proxy;
  readonly #recorder: TrafficRecorder;
  readonly #merchants: MerchantsListener;
  readonly #handshakes: HandshakeFailures;
  readonly #adminListener: Server;
  readonly #upstreams: Upstreams;
  readonly #registry: Registry;
  readonly #clockWatch: ClockWatch;
  readonly #trailWatch: ReturnType<typeof watchTrail>;
  #monitor: Monitor | undefined;
  #operators: OperatorsApi | undefined;
  #operatorsTls: TlsRenewal | undefined;
  /** The configuration the process started with. */
  readonly #started: Settings;
  readonly #fileStates: FileStates;
  #config: Config;
  #served: { readonly settings: Settings; readonly snapshot: GatewaySnapshot } | undefined;
  #accounts: Accounts;
  readonly #readiness: Readiness;
  readonly #drain: Drain;

  constructor(config: Config, dependencies: AppDependencies) {
    const { log, clock, version, drainToken, reload, registry = new Registry(), digests } = dependencies;
    // The accounts are left out, because their credentials must not stay in memory after a reload.
    const { accounts: _accounts, ...settings } = config;
    this.#started = settings;
    this.#config = config;
    this.#dependencies = dependencies;
    this.#log = log;
    this.#registry = registry;
    this.#recorder = new TrafficRecorder(registry, log, clock, version);
    this.#upstreams = new Upstreams(
      (environment, isNew) => this.#recorder.unasked(environment, isNew),
      queueOfUpstreamReads,
    );
    processMetrics(registry, version);
    this.#clockWatch = new ClockWatch(registry, log, clock, monotonic);
    this.#trailWatch = watchTrail(registry, log, (seen) => this.#accounts.trailState(seen));
    this.#fileStates = new FileStates(config, { log, metrics: new ReloadMetrics(registry), clock, digests });
    this.#accounts = this.#openStores();
    this.#proxy = new Proxy(this.#snapshot(), this.#accounts.directory, log, this.#recorder, clock);
    this.#handshakes = new HandshakeFailures(registry, log);
    const failed = this.#handshakes.of('merchants');
    this.#merchants = new MerchantsListener(config, clock, (connection) => this.#proxy.accept(connection), failed);
    accountMetrics(registry, () => this.#accounts.stats());
    certificateMetrics(registry, () => listCertificates(this.#config));
    limitMetrics(registry, () => this.#limits());
    inFlightMetric(registry, () => this.#proxy.active.size);
    this.#readiness = new Readiness(sealedCredentialsMetric(registry), log);
    const [readiness, listener, proxy] = [this.#readiness, this.#merchants, this.#proxy];
    this.#drain = new Drain({ log, readiness, listener, proxy, monotonic });
    const state = (): SidecarState => this.#state();
    this.#adminListener = createAdminListener({ registry, drainToken, state, drain: () => this.drain(), reload });
  }

  /**
   * Opens the listeners, the admin listener first, then reports ready.
   *
   * @throws the listener's error if an address cannot be bound; all listeners are then closed again
   */
  async start(): Promise<void> {
    const { admin, operators } = this.#config;
    await logListening(this.#log, 'admin', listen(this.#adminListener, admin));
    try {
      await this.#recorder.configure(this.#config);
      if (operators !== undefined) {
        this.#operators = await this.#createOperatorsApi(operators.tls && listenerOptions(operators.tls));
        const { listener } = this.#operators;
        this.#operatorsTls = TlsRenewal.of(listener, operators.tls);
        await logListening(this.#log, 'operators', listen(listener, operators));
      }
      await this.#openAccounts();
      await logListening(this.#log, 'merchants', this.#merchants.listen(this.#config.listen));
    } catch (error) {
      for (const listener of [this.#merchants, this.#adminListener, this.#operators?.listener]) listener?.close();
      await this.#accounts.close();
      throw error;
    }
    logExpired(this.#log, listCertificates(this.#config), this.#dependencies.clock());
    this.#readiness.begin();
  }

  /** The bound addresses, with the actual port if the configuration says port 0 (any free port). */
  get addresses(): Readonly<Record<'merchants' | 'admin', AddressInfo> & { operators: AddressInfo | undefined }> {
    return {
      operators: this.#operators?.listener.address() as AddressInfo | undefined,
      merchants: this.#merchants.server.address() as AddressInfo,
      admin: this.#adminListener.address() as AddressInfo,
    };
  }

  /** The current configuration. */
  get settings(): Settings {
    return this.#config;
  }

  /** Applies valid files. Reports an invalid file and keeps using its previous content. */
  reload(loaded: ReloadedFiles): void {
    const { sidecar } = this.#fileStates.take(loaded, this.#config, (config) => this.apply(config));
    if (sidecar !== undefined) this.#operators?.configurationChanged(sidecar);
  }

  /** Replaces the configuration as a whole. Requests in flight keep the configuration with which they began. */
  apply(config: Config): void {
    const upstreamsBefore = this.#upstreams.all();
    const before = this.#accounts;
    const { store: storeBefore, accounts: accountsBefore } = this.#config;
    this.#config = config;
    if (isDeepStrictEqual(storeBefore, config.store)) before.take(config.accounts);
    else this.#accounts = this.#openStores();
    this.#proxy.configure(this.#snapshot(), this.#accounts.directory);
    this.#log.level = config.log.level;
    this.#recorder.configure(config).catch((err: unknown) => this.#log.error({ err }, 'traces cannot be configured'));
    // If the accounts have moved between a file and a database, there is nothing to log, because moving does not change them.
    if (config.store.type === storeBefore.type) void logChanges(this.#log, accountsBefore, config.accounts);
    const { operators } = config;
    this.#merchants.apply(config);
    if (operators?.tls !== undefined) this.#operatorsTls?.renew(operators.tls);
    this.#operators?.configure();
    logExpired(this.#log, listCertificates(this.#config), this.#dependencies.clock());
    for (const member of needsRestart(this.#started, config)) {
      this.#log.warn({ member }, 'changed, but cannot change while running: restart to apply');
    }
    for (const old of upstreamsBefore) if (!this.#upstreams.all().includes(old)) void this.#closeWhenUnused(old, old);
    if (this.#accounts !== before) {
      void this.#openAccounts();
      void this.#closeWhenUnused(before.directory, before);
    } else if (config.store.type === 'file') {
      this.#readiness.report(takeSample(config.accounts));
    }
  }

  /** Ends readiness. Resolves when no request is in flight or `timeouts.drain` has passed. Only `stop` closes the listeners. */
  drain(): Promise<void> {
    return this.#drain.begin(this.#config.timeouts.drain);
  }

  /** Drains, then closes each part after the parts that use it. @param onServed called when no request is left that a revocation could end */
  async stop(onServed: () => void = () => {}): Promise<void> {
    await this.#drain.finish(this.#config.timeouts.drain);
    await this.#operators?.close();
    onServed();
    this.#adminListener.close();
    this.#adminListener.closeAllConnections();
    for (const upstream of this.#upstreams.all()) upstream.close();
    await this.#accounts.close();
    await this.#recorder.stop();
    this.#clockWatch.stop();
    this.#trailWatch.stop();
    this.#log.info('stopped');
  }

  async #openAccounts(): Promise<void> {
    const { database } = this.#accounts;
    if (database === undefined) return this.#readiness.report(takeSample(this.#config.accounts));
    await database.open();
    // While the database was being opened, a reload may have named another store.
    if (this.#accounts.database !== database) return;
    const tried = this.#readiness.tryStore(() => database.sampleCredentials());
    // Startup does not wait for a database that is unreachable.
    if (database.state.connected) await tried;
  }

  #limits(): LimitUse {
    return { limits: this.#config.limits, used: this.#proxy.used };
  }

  #state(): SidecarState {
    return {
      version: this.#dependencies.version,
      ready: this.#readiness.isReady,
      settings: keepFixed(this.#started, this.#config),
      fileStates: this.#fileStates,
      needsRestart: needsRestart(this.#started, this.#config),
      database: this.#accounts.database?.state,
      limits: this.#limits(),
      accountStats: () => this.#accounts.stats(),
    };
  }

  async #createOperatorsApi(tls: TlsOptions | undefined): Promise<OperatorsApi> {
    // The module is loaded only if the operators' API is enabled, because it takes up memory.
    const { createOperatorsApi } = await import('./operators/operators-api.ts');
    return createOperatorsApi({
      config: () => this.#config,
      tls,
      log: this.#log,
      metrics: operatorsMetrics(this.#registry),
      onHandshakeFailure: this.#handshakes.of('operators'),
      recent: this.#recorder.recent,
      sidecar: () => this.#state(),
      accounts: () => this.#accounts,
      clock: this.#dependencies.clock,
    });
  }

  /** The snapshot for new requests. Replaced only if settings change, because each request in progress keeps its snapshot in memory. */
  #snapshot(): GatewaySnapshot {
    const { accounts: _accounts, ...settings } = this.#config;
    if (this.#served !== undefined && isDeepStrictEqual(settings, this.#served.settings)) return this.#served.snapshot;
    // An upstream with unchanged settings keeps its connections.
    const snapshot = new GatewaySnapshot(this.#config, this.#upstreams.configure(this.#config), this.#served?.snapshot);
    this.#served = { settings, snapshot };
    return snapshot;
  }

  #openStores(): Accounts {
    const { env, clock, log } = this.#dependencies;
    const registry = this.#registry;
    return openStores(this.#config, {
      env,
      clock,
      monotonic,
      audit: this.#trailWatch.begin(),
      monitor: () =>
        (this.#monitor ??= directoryMonitor(registry, log, () => this.#accounts.database?.state, monotonic)),
    });
  }

  /** Closes a replaced part once no request from a merchant or an operator uses it any more. */
  async #closeWhenUnused(part: Upstream | KeyDirectory, all: { close(): unknown; isBusy?: boolean }): Promise<void> {
    await waitUntil(() => !this.#proxy.uses(part) && !all.isBusy, Infinity);
    await all.close();
  }
}

/** Milliseconds on a clock that is never adjusted. */
const monotonic = (): number => performance.now();

import type { KeyDirectory } from '../accounts/key-directory.ts';
import type { ConnectionHandler } from '../http1/connection-handler.ts';
import type { ServerConnection } from '../http1/connection.ts';
import type { LinkedList } from '../linked-list.ts';
import { Closings } from '../telemetry/closings.ts';
import type { Logger } from '../telemetry/logger.ts';
import type { LimitUse } from '../telemetry/sidecar-metrics.ts';
import type { TrafficRecorder } from '../telemetry/traffic-recorder.ts';
import { Upstream } from '../upstream/upstream.ts';
import { Admission } from './admit/admit.ts';
import { peerAddress } from '../networks.ts';
import type { GatewaySnapshot } from './admit/snapshot.ts';
import { Budgets } from './capacity/budgets.ts';
import { ClientConnection, type ConnectionContext, type RequestServer } from './capacity/client-connection.ts';
import { Eviction } from './capacity/eviction.ts';
import { FormatMemories } from './body/format-memories.ts';
import { ExchangeRunner } from './exchange.ts';
import { observeWith } from './outcome.ts';
import { startRechecks } from './rechecks.ts';
import type { Responder } from './respond/responder.ts';
import type { EpochMs } from '../times.ts';

/** Serves merchants' traffic. Holds the configuration for new requests, and the requests in progress. */
export class Proxy {
  readonly #admission: Admission;
  readonly #budgets: Budgets;
  readonly #connections: ConnectionContext;
  readonly #runner: ExchangeRunner;
  readonly #stopRechecks: () => void;
  readonly #closings: Closings;
  #snapshot: GatewaySnapshot;
  #directory: KeyDirectory;

  /** @param clock the clock for the expiry of keys and the end of grace periods */
  constructor(
    snapshot: GatewaySnapshot,
    directory: KeyDirectory,
    log: Logger,
    recorder: TrafficRecorder,
    clock: () => EpochMs,
  ) {
    this.#snapshot = snapshot;
    this.#directory = directory;
    const { limits } = snapshot;
    this.#budgets = new Budgets(limits, snapshot.servesBoth);
    this.#closings = new Closings(recorder.metrics, log);
    const server: RequestServer = {
      serve: (http, client) => {
        // The head counts as one of the account of the connection's earlier requests, because its own key is not known yet.
        const { turns } = client.claim;
        turns.time(client, () => this.#runner.serve(http, client, this.#snapshot));
      },
      onError: (error) => log.error({ err: error }, 'connection failed'),
    };
    this.#connections = { budgets: this.#budgets, closings: this.#closings, server, eviction: new Eviction() };
    this.#admission = new Admission(limits.inFlight, recorder, clock);
    const inForce = (): KeyDirectory => this.#directory;
    const observe = observeWith(
      log,
      recorder,
      clock,
      () => this.used,
      () => this.#directory.uses,
    );
    const memories = new FormatMemories(clock);
    this.#runner = new ExchangeRunner(this.#admission, inForce, this.#budgets, recorder.metrics, observe, memories);
    this.#stopRechecks = startRechecks(this.active, inForce, clock, log);
  }

  /** The requests in progress. */
  get active(): LinkedList<Responder> {
    return this.#runner.active;
  }

  /**
   * Serves a new connection. If the limit is reached, the connection that has been idle longest without ever carrying a valid key is closed
   * to make room. Returns undefined if there is no such connection, or if the client has already reset the new one, because its address is no
   * longer known then.
   */
  accept(connection: ServerConnection): ConnectionHandler | undefined {
    const { remoteAddress } = connection.socket;
    if (remoteAddress === undefined) return undefined;
    const { anonymous, connections } = this.#budgets;
    if (connections.take(1, anonymous.none) !== undefined) {
      this.#connections.eviction.closeLongestIdle();
      if (connections.take(1, anonymous.none) !== undefined) {
        this.#closings.count('limit');
        return undefined;
      }
    }
    return new ClientConnection(connection, peerAddress(remoteAddress), this.#connections);
  }

  /**
   * Applies a new configuration to later requests. Requests in progress keep the configuration that they began with, but their keys are
   * looked up in the newest directory.
   */
  configure(snapshot: GatewaySnapshot, directory: KeyDirectory): void {
    this.#snapshot = snapshot;
    this.#directory = directory;
    this.#budgets.resize(snapshot.limits, snapshot.servesBoth);
    this.#admission.resize(snapshot.limits.inFlight);
  }

  /** From now on, every response closes its connection. */
  drain(): void {
    this.#runner.drain();
  }

  /** Aborts the requests in progress. */
  stop(): void {
    this.#stopRechecks();
    this.#budgets.stop();
    for (const responder of this.active) responder.abort('drain');
    this.#closings.flush();
  }

  /** How much of each limit is in use: open connections, requests in progress, and bytes in memory. */
  get used(): LimitUse['used'] {
    const { connections, inFlight, buffered } = this.#budgets;
    return { connections: connections.used, inFlight: inFlight.used, buffered: buffered.used };
  }

  /**
   * Whether a request in progress may still use an upstream or a directory. It may use an upstream if the request began under a
   * configuration that has this upstream, and a directory if the request's key is being looked up there.
   */
  uses(part: Upstream | KeyDirectory): boolean {
    return [...this.active].some(({ snapshot, asked }) =>
      part instanceof Upstream ? snapshot.has(part) : asked === part,
    );
  }
}

import { randomUUID } from 'node:crypto';
import type { KeyDirectory } from '../accounts/key-directory.ts';
import { Refusal } from '../errors.ts';
import type { ConnectionHandler } from '../http1/connection-handler.ts';
import type { ServerConnection } from '../http1/connection.ts';
import type { ServerExchange } from '../http1/exchange.ts';
import type { RequestFault } from '../http1/request-reader.ts';
import { LinkedList } from '../linked-list.ts';
import { Closings } from '../telemetry/closings.ts';
import type { Logger } from '../telemetry/logger.ts';
import type { LimitUse } from '../telemetry/sidecar-metrics.ts';
import type { TrafficRecorder } from '../telemetry/traffic-recorder.ts';
import type { Upstream } from '../upstream/upstream.ts';
import { Admission } from './admit/admit.ts';
import { ambiguousText } from './admit/ambiguity.ts';
import { peerAddress } from './admit/client-address.ts';
import { refused } from './admit/exchange.ts';
import type { GatewaySnapshot } from './admit/snapshot.ts';
import { LongBodies } from './body/long-bodies.ts';
import { EnvelopeOpener } from './body/open.ts';
import { Budgets } from './capacity/budgets.ts';
import { ClientConnections, type ClientConnection } from './connections.ts';
import { ExchangeRunner } from './exchange.ts';
import { Observer } from './outcome.ts';
import { Rechecks } from './rechecks.ts';
import { refusalCodes } from './respond/faults.ts';
import type { Responder } from './respond/responder.ts';

/** What all connections share. */
interface ConnectionParts {
  readonly runner: ExchangeRunner;
  readonly connections: ClientConnections;
  readonly snapshot: () => GatewaySnapshot;
  readonly log: Logger;
}

/** Merchants' traffic: the configuration that new requests get, and the requests in progress. */
export class Proxy {
  readonly #admission: Admission;
  readonly #budgets: Budgets;
  readonly #connections: ClientConnections;
  readonly #shared: ConnectionParts;
  /** The requests in progress. */
  readonly active = new LinkedList<Responder>();
  #snapshot: GatewaySnapshot;
  #draining = false;
  readonly #rechecks: Rechecks;
  readonly #closings: Closings;

  /** @param clock epoch milliseconds, for the expiry of keys and the end of graces */
  constructor(snapshot: GatewaySnapshot, log: Logger, recorder: TrafficRecorder, clock: () => number) {
    this.#snapshot = snapshot;
    const { limits } = snapshot;
    this.#budgets = new Budgets(limits, snapshot.servesBoth);
    this.#closings = new Closings(recorder.metrics, log);
    this.#connections = new ClientConnections(this.#budgets, this.#closings);
    this.#admission = new Admission(limits.inFlight, recorder.trace.bind(recorder), clock);
    const observer = new Observer(log, recorder, clock, () => this.used);
    const longBodies = new LongBodies();
    const runner = new ExchangeRunner({
      admission: this.#admission,
      budgets: this.#budgets,
      longBodies,
      opener: new EnvelopeOpener(recorder.metrics, longBodies),
      metrics: recorder.metrics,
      onBegin: (responder) => {
        this.active.add(responder);
        if (this.#draining) responder.http.keepAlive = false;
      },
      onOver: (responder) => {
        this.active.remove(responder);
        observer.observe(responder);
      },
    });
    this.#shared = { runner, connections: this.#connections, snapshot: () => this.#snapshot, log };
    this.#rechecks = new Rechecks(this.active, () => this.#snapshot.directory, clock, log);
  }

  /** Serves a new connection; undefined if it is one too many. */
  accept(connection: ServerConnection): ConnectionHandler | undefined {
    const client = this.#connections.open(connection, peerAddress(connection.socket.remoteAddress ?? ''));
    return client === undefined ? undefined : new ConnectionServer(client, this.#shared);
  }

  /** Applies a new configuration to later requests; those in progress keep the one they began with. */
  configure(snapshot: GatewaySnapshot): void {
    this.#snapshot = snapshot;
    this.#budgets.resize(snapshot.limits, snapshot.servesBoth);
    this.#admission.resize(snapshot.limits.inFlight);
  }

  /** From now on every response closes its connection. */
  drain(): void {
    this.#draining = true;
    // A response that has begun has told its client that the connection stays open: the next one closes it.
    for (const { http } of this.active) if (http.status === undefined) http.keepAlive = false;
  }

  /** Aborts the requests in progress. */
  stop(): void {
    this.#rechecks.stop();
    this.#budgets.stop();
    for (const responder of this.active) responder.abort('drain');
    this.#closings.flush();
  }

  /** The use of the limits: open connections, requests in progress, and bytes in memory. */
  get used(): LimitUse['used'] {
    const { connections, inFlight, buffered } = this.#budgets;
    return { connections: connections.used, inFlight: inFlight.used, buffered: buffered.used };
  }

  /** Whether a request in progress may still use this part, because it began under a configuration that has it. */
  uses(part: Upstream | KeyDirectory): boolean {
    return [...this.active].some(({ snapshot }) => snapshot.has(part));
  }
}

/** The requests of one connection. */
class ConnectionServer implements ConnectionHandler {
  readonly #client: ClientConnection;
  readonly #parts: ConnectionParts;

  constructor(client: ClientConnection, parts: ConnectionParts) {
    this.#client = client;
    this.#parts = parts;
  }

  onRequest(http: ServerExchange): void {
    if (http.head !== undefined) this.#parts.runner.serve(http, http.head, this.#client, this.#parts.snapshot());
  }

  onFault(fault: RequestFault, http: ServerExchange, text: string): void {
    this.#client.count(fault === 'timeout' ? 'timeout' : 'malformed');
    const snapshot = this.#parts.snapshot();
    const refusal = fault === 'ambiguous' ? ambiguousText(text, snapshot) : new Refusal(refusalCodes[fault]);
    const exchange = refused(refusal, randomUUID());
    this.#parts.runner.begin(http, exchange, this.#client, snapshot, performance.now()).refuse(refusal);
  }

  onHeld(change: number): boolean {
    return this.#parts.connections.hold(this.#client, change);
  }

  defer(read: () => void): void {
    setImmediate(read);
  }

  onError(error: unknown): void {
    this.#parts.log.error({ err: error }, 'connection failed');
  }

  onClose(): void {
    this.#client.leave();
  }
}

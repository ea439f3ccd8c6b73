import type { EnvironmentName } from '../accounts/api-key.ts';
import type { Settings, UpstreamTarget } from '../config/config.ts';
import { nextTurn } from '../http1/incoming.ts';
import { readLength } from '../http1/reading.ts';
import { Call, type ResponseHandler, type UpstreamCall, type UpstreamRequest } from './call.ts';
import { parseAddress, connect, type UpstreamAddress } from './connect.ts';
import { Connection, type ConnectionOwner, type OwnedQueues } from './connection.ts';
import { upgrade, type SwitchHandler, type UpgradeRequest } from './upgrade.ts';
import type { MonotonicMs } from '../times.ts';

/**
 * How long an idle connection is kept, in milliseconds. An upstream that does not announce a time may close the connection after 5 s, as
 * Node does. If the upstream announces a time (`Keep-Alive: timeout`), the connection is kept for one second less, up to the maximum.
 */
const defaultIdleTime = 4_000;
const maxIdleTime = 60_000;

/** If a connection has been idle for longer than this, in milliseconds, the upstream may have closed it without the sidecar noticing. */
const maxTrustedIdleTime = 500;

/**
 * A request gets a new connection if every idle connection has already carried the request's id. If this many connections are idle, one of
 * them is closed to make room for the new one.
 */
const maxPassedOver = 32;

/**
 * How many TLS handshakes per second may be made for such requests without a secret key. More handshakes would take time from other
 * requests.
 */
const maxHandshakes = 100;

/** How long connections are not reused after the upstream has sent bytes that nobody asked for, in milliseconds. */
const distrustTime = 60_000;

const nextTurns: OwnedQueues = { of: () => nextTurn };

/** Called when an upstream has sent bytes that nobody asked for. @param isNew whether the upstream was trusted until then */
type OnUnasked = (isNew: boolean) => void;

/** The payment core of one environment, reached over HTTP/1.1 keep-alive connections with one request at a time on each. */
export class Upstream implements ConnectionOwner {
  readonly reading: OwnedQueues;
  readonly #address: UpstreamAddress;
  readonly #connectTimeout: number;
  readonly #onUnasked: OnUnasked;
  readonly #idle: Connection[] = [];
  /** The number of connections that are about to become idle. */
  #resting = 0;
  /** The connections whose response has ended in this turn. */
  #batch: Connection[] = [];
  /** The requests that wait for one of the connections that are about to become idle. */
  #waiting: Call[] = [];
  /** Until when connections are not reused, by `performance.now()`. */
  #distrustedUntil = -Infinity;
  /** How many handshakes have been made since `#countedSince` for requests that repeat an id and have no secret key. */
  #handshakes = 0;
  #countedSince = -Infinity;
  /** The read buffer. All connections can share it, because bytes are parsed before the next read, and copied if they must be kept. */
  readonly #readBuffer = Buffer.allocUnsafeSlow(readLength);
  readonly #sweep: NodeJS.Timeout;
  #closed = false;

  /**
   * @param connectTimeout milliseconds for TCP and TLS together
   * @param reading see `ConnectionOwner`
   */
  constructor(target: UpstreamTarget, connectTimeout: number, onUnasked: OnUnasked, reading = nextTurns) {
    this.reading = reading;
    this.#onUnasked = onUnasked;
    this.#address = parseAddress(target);
    this.#connectTimeout = connectTimeout;
    this.#sweep = setInterval(() => this.#closeIdle(performance.now()), 1_000).unref();
  }

  /** Sends a request. After `abort`, the handler's methods are not called again. */
  send(request: UpstreamRequest, handler: ResponseHandler): UpstreamCall {
    const call = new Call(request, this.#address.authority, handler);
    this.#send(call);
    return call;
  }

  /** Sends a WebSocket handshake; see `upgrade`. */
  upgrade(request: UpgradeRequest, handler: ResponseHandler, onSwitch: SwitchHandler): UpstreamCall {
    const reading = this.reading.of(request.turnOwner ?? request);
    return upgrade(this.#address, this.#connectTimeout, { ...request, reading }, handler, onSwitch);
  }

  /** Closes idle connections at once and busy connections after their response. */
  close(): void {
    this.#closed = true;
    clearInterval(this.#sweep);
    this.#closeIdle(Infinity);
  }

  onIdle(connection: Connection, keepAlive: number | undefined): void {
    const time = keepAlive === undefined ? defaultIdleTime : Math.min(keepAlive * 1_000 - 1_000, maxIdleTime);
    connection.idleSince = performance.now();
    connection.idleUntil = connection.idleSince + time;
    this.#resting += 1;
    if (this.#batch.length === 0) setImmediate(this.#restBatch);
    this.#batch.push(connection);
  }

  /**
   * A connection is reused only after a poll for events, because that poll would deliver the bytes of a response that nobody asked for. The
   * first `setImmediate` may run before the poll; the second runs after it.
   */
  readonly #restBatch = (): void => {
    const batch = this.#batch;
    this.#batch = [];
    setImmediate(() => this.#onRested(batch));
  };

  #onRested(batch: readonly Connection[]): void {
    this.#resting -= batch.length;
    for (const connection of batch) this.#keep(connection);
    const waiting = this.#waiting;
    this.#waiting = [];
    for (const call of waiting) if (!call.closed) this.#send(call);
  }

  onUnasked(): void {
    const now = performance.now();
    this.#onUnasked(now >= this.#distrustedUntil);
    this.#distrustedUntil = now + distrustTime;
    for (const connection of this.#idle) connection.socket.destroy();
  }

  onClosed(connection: Connection): void {
    const index = this.#idle.indexOf(connection);
    if (index !== -1) this.#idle.splice(index, 1);
  }

  /**
   * Uses a new connection, because another idle connection may be dead too. A request that fails on the new connection is not sent again.
   */
  onRetryable(call: Call): void {
    this.#connect(call, true);
  }

  #send(call: Call): void {
    const now = performance.now();
    const connection = this.#takeIdle(call, now);
    if (connection === undefined) {
      if (this.#waiting.length < this.#resting) this.#waiting.push(call);
      else if (this.#idle.length > 0) this.#connectApart(call, now);
      else this.#connect(call, true);
    } else if (now - connection.idleSince < maxTrustedIdleTime) {
      connection.send(call);
    } else {
      // The upstream may have closed the connection. Wait for one turn of the event loop, so that the socket shows this before anything is
      // sent.
      setImmediate(() => {
        // Another connection may have been found to be unusable for further requests in the meantime.
        if (connection.idleSince < this.#distrustedUntil) connection.socket.destroy();
        if (call.closed) this.#keep(connection);
        else if (connection.socket.destroyed) this.#send(call);
        else connection.send(call);
      });
    }
  }

  /** Opens a connection for a request whose id every idle connection has already carried. */
  #connectApart(call: Call, now: MonotonicMs): void {
    if (now - this.#countedSince >= 1_000) {
      this.#countedSince = now;
      this.#handshakes = 0;
    }
    if (call.owner === '' && this.#address.protocol === 'https:' && ++this.#handshakes > maxHandshakes) {
      queueMicrotask(() => call.onFailure({ code: 'overloaded', cause: 'REPEATED_ID' }));
      return;
    }
    // Make room first. Otherwise, a client that repeats an id could cause more and more connections to be opened.
    if (this.#idle.length >= maxPassedOver) this.#idle.shift()?.socket.destroy();
    this.#connect(call, true);
  }

  #connect(call: Call, mayConnectAgain: boolean): void {
    const abort = connect(this.#address, this.#connectTimeout, this.#readBuffer, {
      onConnected: (socket) => {
        const connection = new Connection(socket, this);
        connection.send(call);
        return (bytes) => connection.receive(bytes);
      },
      onConnectFailed: (cause, resumed) => {
        if (call.closed) return;
        const timedOut = cause === 'ETIMEDOUT';
        // Nothing was sent, so one more attempt is safe.
        if ((!timedOut || resumed) && mayConnectAgain) this.#connect(call, false);
        else call.onFailure({ code: timedOut ? 'upstream_timeout' : 'upstream_unavailable', cause });
      },
    });
    // If the request is aborted, the attempt to connect ends too. Otherwise, clients that leave could cause more connections to be opened
    // than there are slots.
    call.connection = { pause: () => {}, resume: () => {}, abort };
  }

  #keep(connection: Connection): void {
    const { socket, idleSince } = connection;
    // If the connection's request has not been sent completely, the upstream would read the next request as the rest of that request. With
    // TLS, the end of the request may be reported only after the response.
    if (this.#closed || idleSince < this.#distrustedUntil || socket.writableLength > 0) socket.destroy();
    else if (!socket.destroyed) this.#idle.push(connection);
  }

  /** Takes the usable connection that became idle last, so that other connections stay idle and can be closed. */
  #takeIdle(call: Call, now: MonotonicMs): Connection | undefined {
    for (let i = this.#idle.length - 1; i >= 0; i -= 1) {
      const connection = this.#idle[i] as Connection;
      const isUsable = connection.idleUntil > now && !connection.socket.destroyed;
      if (isUsable && connection.isAmbiguousFor(call)) continue;
      if (i === this.#idle.length - 1) this.#idle.pop();
      else this.#idle.splice(i, 1);
      if (isUsable) return connection;
      connection.socket.destroy();
    }
    return undefined;
  }

  /** Closes connections that have been idle too long. */
  #closeIdle(now: MonotonicMs): void {
    for (const connection of this.#idle) if (connection.idleUntil <= now) connection.socket.destroy();
  }
}

/** The upstreams in use. An upstream with unchanged settings keeps its connections. */
export class Upstreams {
  readonly #onUnasked: (environment: EnvironmentName, isNew: boolean) => void;
  /**
   * Creates `reading` queues for `Upstream`. Each environment has its own, so that the connections of one environment do not keep those of
   * the other environment waiting.
   */
  readonly #createQueues: () => OwnedQueues;
  readonly #reading = new Map<EnvironmentName, OwnedQueues>();
  #inUse: ReadonlyMap<EnvironmentName, { readonly settings: string; readonly upstream: Upstream }> = new Map();

  constructor(
    onUnasked: (environment: EnvironmentName, isNew: boolean) => void,
    createQueues: () => OwnedQueues = () => nextTurns,
  ) {
    this.#onUnasked = onUnasked;
    this.#createQueues = createQueues;
  }

  /** Uses the upstreams of a configuration. The previous upstreams are not closed, because requests in flight may still use them. */
  configure({ environments, timeouts }: Settings): ReadonlyMap<EnvironmentName, Upstream> {
    this.#inUse = new Map(
      environments.map(({ name, upstream: target }) => {
        const settings = JSON.stringify([target, timeouts.connect]);
        const before = this.#inUse.get(name);
        if (before?.settings === settings) return [name, before];
        const onUnasked: OnUnasked = (isNew) => this.#onUnasked(name, isNew);
        const reading = this.#reading.get(name) ?? this.#createQueues();
        this.#reading.set(name, reading);
        return [name, { settings, upstream: new Upstream(target, timeouts.connect, onUnasked, reading) }];
      }),
    );
    return new Map([...this.#inUse].map(([name, { upstream }]) => [name, upstream]));
  }

  all(): readonly Upstream[] {
    return [...this.#inUse.values()].map(({ upstream }) => upstream);
  }
}

import type { UpstreamTarget } from '../config/config.ts';
import { addressOf, type UpstreamAddress } from './address.ts';
import { Call, type ResponseHandler, type UpstreamCall, type UpstreamRequest } from './call.ts';
import { connect } from './connect.ts';
import { Connection, type ConnectionOwner } from './connection.ts';
import { upgrade, type UpgradeHandler, type UpgradeRequest } from './upgrade.ts';

/**
 * Milliseconds of idleness after which a connection is given up: an upstream that does not say how long it keeps one may
 * close it after 5 s, as Node does. One that says so is believed, but for a second, up to the longest.
 */
const idleTime = 4_000;
const longestIdleTime = 60_000;

/** After this much idleness a closed connection may not have been noticed yet. Milliseconds. */
const doubtfulAfter = 500;

/** The payment core of one environment, over HTTP/1.1 on kept-alive connections, one request at a time on each. */
export class Upstream implements ConnectionOwner {
  readonly #address: UpstreamAddress;
  readonly #connectTimeout: number;
  readonly #idle: Connection[] = [];
  /** Where all connections read into: what is read is looked at, and copied if it is to stay, before the next read. */
  readonly #readBuffer = Buffer.allocUnsafeSlow(65_536);
  readonly #sweep: NodeJS.Timeout;
  #closed = false;

  /** @param connectTimeout milliseconds for TCP and TLS together */
  constructor(target: UpstreamTarget, connectTimeout: number) {
    this.#address = addressOf(target);
    this.#connectTimeout = connectTimeout;
    this.#sweep = setInterval(() => this.#closeIdle(performance.now()), 1_000).unref();
  }

  /** Sends the request; the handler hears of the response, of a failure, or (after `abort`) of nothing more. */
  send(request: UpstreamRequest, handler: ResponseHandler): UpstreamCall {
    const call = new Call(request, this.#address.authority, handler);
    this.#send(call);
    return call;
  }

  /** Hands a WebSocket handshake on; see `upgrade`. */
  upgrade(request: UpgradeRequest, handler: UpgradeHandler): () => void {
    return upgrade(this.#address, this.#connectTimeout, request, handler);
  }

  /** Ends idle connections at once and busy ones after their response. */
  close(): void {
    this.#closed = true;
    clearInterval(this.#sweep);
    this.#closeIdle(Infinity);
  }

  onIdle(connection: Connection): void {
    const { keepAlive } = connection;
    const patience = keepAlive === undefined ? idleTime : Math.min(keepAlive * 1_000 - 1_000, longestIdleTime);
    connection.idleSince = performance.now();
    connection.idleUntil = connection.idleSince + patience;
    this.#keep(connection);
  }

  onClosed(connection: Connection): void {
    const index = this.#idle.indexOf(connection);
    if (index !== -1) this.#idle.splice(index, 1);
  }

  /** On a new connection: another idle one may be as dead, and what fails on a new one is not sent again. */
  onRepeatable(call: Call): void {
    this.#connect(call, true);
  }

  #send(call: Call): void {
    const now = performance.now();
    const connection = this.#takeIdle(now);
    if (connection === undefined) {
      this.#connect(call, true);
    } else if (now - (connection.idleSince ?? 0) < doubtfulAfter) {
      connection.send(call);
    } else {
      // The upstream may have closed it just now: one turn of the event loop tells, and nothing has been sent yet.
      setImmediate(() => {
        if (call.over) this.#keep(connection);
        else if (connection.socket.destroyed) this.#send(call);
        else connection.send(call);
      });
    }
  }

  #connect(call: Call, mayConnectAgain: boolean): void {
    connect(this.#address, this.#connectTimeout, this.#readBuffer, {
      onConnected: (socket) => {
        const connection = new Connection(socket, this);
        if (call.over) this.onIdle(connection);
        else connection.send(call);
        return (bytes) => connection.receive(bytes);
      },
      onUnconnected: (cause) => {
        if (call.over) return;
        const timedOut = cause === 'ETIMEDOUT';
        // Nothing was sent: once more does no harm.
        if (!timedOut && mayConnectAgain) this.#connect(call, false);
        else call.fail(timedOut ? 'upstream_timeout' : 'upstream_unavailable', cause);
      },
    });
  }

  #keep(connection: Connection): void {
    if (this.#closed) connection.socket.destroy();
    else if (!connection.socket.destroyed) this.#idle.push(connection);
  }

  #takeIdle(now: number): Connection | undefined {
    for (;;) {
      const connection = this.#idle.pop();
      if (connection === undefined) return undefined;
      if (connection.idleUntil <= now) connection.socket.destroy();
      else if (!connection.socket.destroyed) return connection;
    }
  }

  /** Gives up what has been idle for long enough. */
  #closeIdle(now: number): void {
    for (const connection of this.#idle) if (connection.idleUntil <= now) connection.socket.destroy();
  }
}

import type { ClientDetail, Config } from '../config/config.ts';
import { lingerTime } from '../http.ts';
import type { ConnectionLimits } from '../http1/connection-handler.ts';
import { Listener, type AcceptConnection } from '../http1/listener.ts';
import { listenerOptions, renewedTls, secureContext, type ListenerTls, type OnHandshakeFailure } from '../tls.ts';
import { loggedPeer } from './admit/client-address.ts';
import { TickQueue } from '../tick-queue.ts';
import type { EpochMs } from '../times.ts';
import { NewestFirst } from '../wait-queue.ts';

/** The fewest and the most TLS handshakes that begin in a turn of the event loop. Each takes two milliseconds. */
const handshakesInTurn = { min: 2, max: 8 } as const;

/** How many milliseconds a turn must take for each handshake that begins, so that handshakes get a third of the time of long turns. */
const timePerHandshake = 4;

/** TLS handshakes that wait to begin. */
export class HandshakeQueue {
  readonly #waiting = new NewestFirst();
  /** When the next turn was scheduled, by `performance.now()`. */
  #scheduled: number | undefined;

  /** Begins a handshake in a later turn. @see WaitQueue.add */
  add(begin: () => void): () => void {
    this.#schedule();
    return this.#waiting.add(begin);
  }

  #schedule(): void {
    if (this.#scheduled !== undefined) return;
    this.#scheduled = performance.now();
    setImmediate(this.#run);
  }

  readonly #run = (): void => {
    const { min, max } = handshakesInTurn;
    // If other work makes turns long, more handshakes begin in each of them. Otherwise, clients that do not complete their handshakes could
    // keep all others waiting with few connections.
    const duration = performance.now() - (this.#scheduled ?? 0);
    this.#scheduled = undefined;
    const count = Math.min(max, Math.max(min, Math.floor(duration / timePerHandshake)));
    for (let i = 0; i < count && this.#waiting.length > 0; i += 1) this.#waiting.shift()?.();
    if (this.#waiting.length > 0) this.#schedule();
  };
}

/** How many clients that have sent only part of their first TLS record are read again in a turn of the event loop. */
const hellosInTurn = 64;

/** The listener for merchants, set up from the configuration. */
export class MerchantsListener extends Listener {
  #tls: ListenerTls | undefined;
  #detail: ClientDetail;

  /** @param failed called for each failed TLS handshake, with as much of the client's address as may be logged */
  constructor(config: Config, clock: () => EpochMs, accept: AcceptConnection, failed: OnHandshakeFailure) {
    const { tls } = config.listen;
    const onHandshakeFailure: OnHandshakeFailure = (fault, address) => failed(fault, loggedPeer(address, this.#detail));
    const limits = limitsFrom(config);
    const queues = { handshakes: new HandshakeQueue(), hellos: new TickQueue(hellosInTurn) };
    super({ limits, tls: tls && listenerOptions(tls), clock, ...queues, onHandshakeFailure }, accept);
    this.#tls = tls;
    this.#detail = config.log.client;
  }

  /**
   * Applies a new configuration to everything that begins from now on: the limits, the timeouts, the certificate, and the CA for clients.
   */
  apply(config: Config): void {
    // A head in progress has begun under the limit set at startup, so a change to `limits.header` needs a restart.
    this.configure({ ...limitsFrom(config), maxHeadSize: this.limits.maxHeadSize });
    this.#detail = config.log.client;
    const { tls } = config.listen;
    const before = this.#tls;
    if (tls === undefined || before === undefined) return;
    this.#tls = renewedTls(before, tls);
    if (this.#tls === before) return;
    this.setSecureContext(secureContext(this.#tls));
    // Close the connections that the previous CA has admitted or could still admit. Each closes after its response in progress or, if there
    // is none, at once.
    if (this.#tls.clientCa !== before.clientCa) this.retireConnections();
  }
}

function limitsFrom({ limits, timeouts }: Config): ConnectionLimits {
  return {
    maxHeadSize: limits.header,
    maxFields: limits.headers,
    headTimeout: timeouts.header,
    idleTimeout: timeouts.idle,
    lingerTimeout: lingerTime,
  };
}

import type { Registry } from 'prom-client';
import { handshakeFaults, type HandshakeFault, type OnHandshakeFailure } from '../tls.ts';
import type { Logger } from './logger.ts';
import { SeriesCounter } from './series.ts';

/** The listeners that may use TLS. */
type TlsListener = 'merchants' | 'operators';

/** How long failures with one listener and reason are added up for one log line, in milliseconds, so that a flood does not fill the log. */
const window = 60_000;

/** Failures since the last log line. */
interface PendingFailures {
  failures: number;
  address: string | undefined;
}

/**
 * Counts and logs TLS handshakes that fail. The first failure is logged at once. After that, each reason gets at most one line per minute.
 */
export class HandshakeFailures {
  readonly #log: Logger;
  readonly #counter;
  /** Failures by listener and reason. An entry exists only for a minute after a log line for its listener and reason. */
  readonly #open = new Map<string, PendingFailures>();

  constructor(registry: Registry, log: Logger) {
    this.#log = log;
    this.#counter = new SeriesCounter(registry, {
      name: 'envelope_sidecar_tls_handshake_failures_total',
      help: 'TLS handshakes that failed because of the client, by listener and reason.',
      labelNames: ['listener', 'reason'],
    });
  }

  /**
   * The callback for a listener that uses TLS. The listener's series exist from this call on, because `increase()` needs a value from
   * before the first failure.
   */
  of(listener: TlsListener): OnHandshakeFailure {
    for (const fault of handshakeFaults) this.#counter.at(listener, fault);
    return (reason, address) => this.#failed(listener, reason, address);
  }

  #failed(listener: TlsListener, reason: HandshakeFault, address: string | undefined): void {
    this.#counter.count(listener, reason);
    const unlogged = this.#open.get(`${listener} ${reason}`);
    if (unlogged === undefined) {
      this.#write(listener, reason, { failures: 1, address });
    } else {
      unlogged.failures += 1;
      unlogged.address = address;
    }
  }

  #write(listener: TlsListener, reason: HandshakeFault, { failures, address }: PendingFailures): void {
    this.#log.warn({ listener, reason, failures, address }, 'TLS handshakes failed');
    const series = `${listener} ${reason}`;
    const unlogged: PendingFailures = { failures: 0, address: undefined };
    this.#open.set(series, unlogged);
    setTimeout(() => {
      this.#open.delete(series);
      if (unlogged.failures > 0) this.#write(listener, reason, unlogged);
    }, window).unref();
  }
}

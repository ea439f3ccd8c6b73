import type { OperatorsToken } from '../config/config.ts';
import type { PlainOperations } from '../accounts/plain-operations.ts';
import type { Logger } from '../telemetry/logger.ts';

/** Refused requests are one event in this time, so that strangers cannot fill the trail. Milliseconds. */
const window = 60_000;

/** A request, for its event. */
interface Source {
  /** The client's address. */
  readonly origin: string | undefined;
  readonly requestId: string;
}

/** Adds sign-ins and refused requests to the audit trail. No request waits for it. */
export class AccessEvents {
  readonly #operations: () => Pick<PlainOperations, 'record'>;
  readonly #log: Logger;
  #refused = 0;
  #last: Source | undefined;

  constructor(operations: () => Pick<PlainOperations, 'record'>, log: Logger) {
    this.#operations = operations;
    this.#log = log;
  }

  signedIn({ name, role }: OperatorsToken, source: Source): void {
    this.#record('operator_signed_in', { role }, { actor: `token:${name}`, ...source });
  }

  /** Called for each request without a known token. */
  refused(source: Source): void {
    if (this.#last === undefined) setTimeout(() => this.#flush(), window).unref();
    this.#refused += 1;
    this.#last = source;
  }

  /** Adds the event of requests that were refused since the last one. */
  #flush(): void {
    if (this.#last === undefined) return;
    this.#record('operators_refused', { requests: this.#refused }, { actor: 'unknown', ...this.#last });
    this.#refused = 0;
    this.#last = undefined;
  }

  #record(...event: Parameters<PlainOperations['record']>): void {
    const [action] = event;
    this.#operations()
      .record(...event)
      .catch((err: unknown) => this.#log.warn({ err, action }, 'an event cannot be added to the audit trail'));
  }
}

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
  #timer: NodeJS.Timeout | undefined;

  constructor(operations: () => Pick<PlainOperations, 'record'>, log: Logger) {
    this.#operations = operations;
    this.#log = log;
  }

  signedIn({ name, role }: OperatorsToken, source: Source): void {
    void this.#record('operator_signed_in', { role }, { actor: `token:${name}`, ...source });
  }

  /** Called for each request without a known token. */
  refused(source: Source): void {
    this.#refused += 1;
    this.#last = source;
    this.#flushLater();
  }

  /** Adds the event of requests that were refused since the last one; if that fails, they are in the next one. */
  async flush(): Promise<void> {
    clearTimeout(this.#timer);
    this.#timer = undefined;
    if (this.#refused === 0 || this.#last === undefined) return;
    const requests = this.#refused;
    this.#refused = 0;
    if (await this.#record('operators_refused', { requests }, { actor: 'unknown', ...this.#last })) return;
    this.#refused += requests;
    this.#flushLater();
  }

  #flushLater(): void {
    this.#timer ??= setTimeout(() => void this.flush(), window).unref();
  }

  /** Whether the event was added. */
  async #record(...event: Parameters<PlainOperations['record']>): Promise<boolean> {
    const [action] = event;
    try {
      await this.#operations().record(...event);
      return true;
    } catch (err) {
      this.#log.warn({ err, action }, 'an event cannot be added to the audit trail');
      return false;
    }
  }
}

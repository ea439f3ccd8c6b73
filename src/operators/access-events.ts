import { hostname } from 'node:os';
import type { OperatorsToken } from '../config/config.ts';
import type { RemoteOperations } from '../accounts/operations-rpc.ts';
import type { Logger } from '../telemetry/logger.ts';

/**
 * All refused requests within this many milliseconds become one event, and so do all sign-ins with one token. Otherwise anyone could fill
 * the trail with refused requests, and a viewer could fill it with sign-ins.
 */
const window = 60_000;

/** The source of a request, as shown in its event. */
interface Source {
  /** The client's address. */
  readonly origin: string | undefined;
  readonly requestId: string;
}

/** Requests that have not been recorded in an event yet. */
interface Counted {
  requests: number;
  last: Source;
}

interface SignIns extends Counted {
  /** The token's name. */
  readonly name: string;
  readonly role: string;
}

/** Adds sign-ins, refused requests and changes to the configuration to the audit trail. Requests do not wait for this. */
export class AccessEvents {
  readonly #operations: () => Pick<RemoteOperations, 'record'>;
  readonly #log: Logger;
  /** Recent sign-ins, by the name and the role of their token. */
  readonly #signIns = new Map<string, SignIns>();
  readonly #refused: Counted = { requests: 0, last: { origin: undefined, requestId: '' } };
  /** The hashes of configurations that are not in the trail yet, oldest first. */
  readonly #configurations: string[] = [];
  #recorded: Promise<void> = Promise.resolve();
  #timer: NodeJS.Timeout | undefined;

  constructor(operations: () => Pick<RemoteOperations, 'record'>, log: Logger) {
    this.#operations = operations;
    this.#log = log;
  }

  /**
   * The first sign-in with a token becomes an event at once; all sign-ins with that token in the following minute become one more event.
   */
  signedIn({ name, role }: Pick<OperatorsToken, 'name' | 'role'>, source: Source): void {
    const token = `${name} ${role}`;
    const lately = this.#signIns.get(token);
    const signIns = lately ?? { name, role, requests: 0, last: source };
    signIns.requests += 1;
    signIns.last = source;
    this.#signIns.set(token, signIns);
    if (lately === undefined) void this.#recordSignIns(signIns);
    this.#flushLater();
  }

  /** Called for each request without a known token. */
  refused(source: Source): void {
    this.#refused.requests += 1;
    this.#refused.last = source;
    this.#flushLater();
  }

  /**
   * Called after each change to the sidecar's file. Every change becomes an event of its own, because anyone who can write that file is
   * trusted.
   */
  configurationChanged(hash: string): void {
    this.#configurations.push(hash);
    void this.#recordConfigurations();
  }

  /** Adds events for the requests that are not in an event yet. If an event cannot be added, its requests are counted in the next event. */
  async flush(): Promise<void> {
    clearTimeout(this.#timer);
    this.#timer = undefined;
    const recorded = [...this.#signIns].map(async ([token, signIns]) => {
      if (signIns.requests === 0) this.#signIns.delete(token);
      else await this.#recordSignIns(signIns);
    });
    if (this.#signIns.size > 0) this.#flushLater();
    await Promise.all([...recorded, this.#recordRefused(), this.#recordConfigurations()]);
  }

  async #recordRefused(): Promise<void> {
    const { requests, last } = this.#refused;
    if (requests === 0) return;
    this.#refused.requests = 0;
    if (await this.#record('operators_refused', { requests }, { actor: 'unknown', ...last })) return;
    this.#refused.requests += requests;
    this.#flushLater();
  }

  async #recordSignIns(signIns: SignIns): Promise<void> {
    const { name, role, requests, last } = signIns;
    signIns.requests = 0;
    const request = { actor: `token:${name}`, ...last };
    if (!(await this.#record('operator_signed_in', { role, sign_ins: requests }, request)))
      signIns.requests += requests;
  }

  /** Adds the events one after another, so that the last of them in the trail names the current configuration. */
  #recordConfigurations(): Promise<void> {
    this.#recorded = this.#recordConfigurationsAfter(this.#recorded);
    return this.#recorded;
  }

  async #recordConfigurationsAfter(recorded: Promise<void>): Promise<void> {
    await recorded;
    const request = { actor: 'sidecar', origin: hostname() };
    for (let [hash] = this.#configurations; hash !== undefined; [hash] = this.#configurations) {
      if (await this.#record('configuration_changed', { configuration_hash: hash }, request)) {
        this.#configurations.shift();
      } else {
        this.#flushLater();
        return;
      }
    }
  }

  #flushLater(): void {
    this.#timer ??= setTimeout(() => void this.flush(), window).unref();
  }

  /** Adds an event. Returns whether it was added. */
  async #record(...event: Parameters<RemoteOperations['record']>): Promise<boolean> {
    const [action] = event;
    try {
      await this.#operations().record(...event);
      return true;
    } catch (err) {
      this.#log.warn({ err, action }, 'an event could not be added to the audit trail');
      return false;
    }
  }
}

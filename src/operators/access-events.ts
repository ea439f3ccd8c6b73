import { hostname } from 'node:os';
import type { OperatorsToken } from '../config/config.ts';
import type { RemoteOperations } from '../accounts/operations-rpc.ts';
import type { Logger } from '../telemetry/logger.ts';

/**
 * All refused requests in this time make one event, and so do the sign-ins of a token, so that neither strangers nor a viewer can fill the
 * trail. Milliseconds.
 */
const window = 60_000;

/** A request, for its event. */
interface Source {
  /** The client's address. */
  readonly origin: string | undefined;
  readonly requestId: string;
}

/** Requests since the last event of their kind that was added. */
interface Counted {
  requests: number;
  last: Source;
}

interface SignIns extends Counted {
  /** The token's name. */
  readonly name: string;
  readonly role: string;
}

/** Adds sign-ins, refused requests and changes of the configuration to the audit trail. No request waits for this. */
export class AccessEvents {
  readonly #operations: () => Pick<RemoteOperations, 'record'>;
  readonly #log: Logger;
  /** By the name and the role of the token: those that have signed in lately. */
  readonly #signIns = new Map<string, SignIns>();
  readonly #refused: Counted = { requests: 0, last: { origin: undefined, requestId: '' } };
  /** The hashes of configurations that are not in the trail yet, in their order. */
  readonly #configurations: string[] = [];
  #recorded: Promise<void> = Promise.resolve();
  #timer: NodeJS.Timeout | undefined;

  constructor(operations: () => Pick<RemoteOperations, 'record'>, log: Logger) {
    this.#operations = operations;
    this.#log = log;
  }

  /** The first sign-in of a token becomes an event at once; those of the following minute become another. */
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

  /** Called after each change of the sidecar's file. Those who can write that file are trusted: each change is an event. */
  configurationChanged(hash: string): void {
    this.#configurations.push(hash);
    void this.#recordConfigurations();
  }

  /** Adds events for the requests since the last events. If an event cannot be added, its requests are in the next one. */
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

  /** One after the other, so that the last one in the trail is the one in force. */
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

  /** Whether the event was added. */
  async #record(...event: Parameters<RemoteOperations['record']>): Promise<boolean> {
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

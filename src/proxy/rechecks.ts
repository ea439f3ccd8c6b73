import { isValidKey } from '../accounts/api-key.ts';
import type { KeyDirectory } from '../accounts/key-directory.ts';
import type { Logger } from '../telemetry/logger.ts';
import type { LinkedList } from '../linked-list.ts';
import type { Responder } from './respond/responder.ts';

/** Milliseconds between two checks. */
const interval = 1_000;

/** The age in milliseconds from which a request is checked: most are over before. */
const minAge = 2_000;

/** Keys that are looked up at the same time. */
const atOnce = 16;

/**
 * Ends what may go on for hours and whose key or account is no longer valid: WebSockets, responses, and uploads. A request that
 * only awaits the head of its response is left alone: it ends by itself, and its client must learn its outcome.
 */
export class Rechecks {
  readonly #active: LinkedList<Responder>;
  readonly #directory: () => KeyDirectory;
  readonly #clock: () => number;
  readonly #log: Logger;
  readonly #timer: NodeJS.Timeout;
  #checking = false;

  /** @param clock epoch milliseconds */
  constructor(active: LinkedList<Responder>, directory: () => KeyDirectory, clock: () => number, log: Logger) {
    this.#active = active;
    this.#directory = directory;
    this.#clock = clock;
    this.#log = log;
    this.#timer = setInterval(() => void this.#check(), interval).unref();
  }

  stop(): void {
    clearInterval(this.#timer);
  }

  /** Looks each key up once. Never rejects. */
  async #check(): Promise<void> {
    if (this.#checking) return;
    this.#checking = true;
    try {
      const byKey = [...this.#lastingByKey()];
      for (let i = 0; i < byKey.length; i += atOnce) {
        await Promise.all(byKey.slice(i, i + atOnce).map(([hash, responders]) => this.#checkKey(hash, responders)));
      }
    } catch (error) {
      this.#log.error({ err: error }, 'keys of requests in progress cannot be checked');
    } finally {
      this.#checking = false;
    }
  }

  async #checkKey(hash: string, responders: readonly Responder[]): Promise<void> {
    const found = await this.#directory().find(hash);
    if (found === 'unavailable') return;
    if (found?.account.active === true && isValidKey(found.key, this.#clock())) return;
    for (const responder of responders) responder.abort('revoked');
  }

  /** The requests to check, by the hash of their key. */
  #lastingByKey(): ReadonlyMap<string, Responder[]> {
    const youngest = performance.now() - minAge;
    const byKey = new Map<string, Responder[]>();
    for (const responder of this.#active) {
      const { exchange, http, timing } = responder;
      // They are in the order in which they began.
      if (timing.startedAt > youngest) break;
      if (exchange.principal === undefined || http.over) continue;
      if (http.status === undefined && http.bodyComplete && !responder.upgraded) continue;
      const { hash } = exchange.principal.key;
      const responders = byKey.get(hash);
      if (responders === undefined) byKey.set(hash, [responder]);
      else responders.push(responder);
    }
    return byKey;
  }
}

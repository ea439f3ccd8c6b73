import { lookup as lookUp } from 'node:dns';
import type { LookupFunction } from 'node:net';

/**
 * After this many milliseconds, a look-up is late. The resolver's answer may have been lost, and the system asks again only after a few
 * seconds.
 */
const patience = 100;
/** Maximum number of look-ups in progress. */
const most = 2;

/**
 * The look-up of one connection: the function with which the connection looks up its host, and the function to call when the connection
 * closes, so that the connection is not kept in memory until there is a result.
 */
interface OwnLookup {
  readonly lookup: LookupFunction;
  readonly withdraw: () => void;
}

/**
 * Looks up one host, always with the same options. Connections that ask while a look-up is in progress share its result. A look-up cannot
 * be cancelled and takes one of the process's four threads. If each connection had a look-up of its own, the look-ups of abandoned requests
 * would keep other requests waiting. If a look-up is late, the next connection that asks begins another look-up.
 */
export class SharedLookup {
  #waiting = new Set<Parameters<LookupFunction>[2]>();
  #running = 0;
  /** The look-up in progress that is not late, if there is one. Another look-up begins only if all look-ups in progress are late. */
  #inTime: symbol | undefined;

  forOne(): OwnLookup {
    let own: Parameters<LookupFunction>[2] | undefined;
    return {
      lookup: (host, options, callback) => {
        own = callback;
        this.#waiting.add(callback);
        if (this.#inTime === undefined && this.#running < most) this.#begin(host, options);
      },
      withdraw: () => {
        if (own !== undefined) this.#waiting.delete(own);
      },
    };
  }

  #begin(host: string, options: Parameters<LookupFunction>[1]): void {
    const own = Symbol(host);
    const end = (): void => {
      if (this.#inTime === own) this.#inTime = undefined;
    };
    this.#inTime = own;
    this.#running += 1;
    const late = setTimeout(end, patience);
    lookUp(host, options, (error, ...result) => {
      clearTimeout(late);
      end();
      this.#running -= 1;
      // This look-up has failed, but the other one may still succeed.
      if (error !== null && this.#running > 0) return;
      const callbacks = this.#waiting;
      this.#waiting = new Set();
      for (const each of callbacks) each(error, ...result);
    });
  }
}

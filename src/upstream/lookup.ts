import { lookup as lookUp } from 'node:dns';
import type { LookupFunction } from 'node:net';

/** After this time a look-up is late: a resolver's answer may be lost, and it is asked again only after seconds. Milliseconds. */
const patience = 100;
/** Maximum number of look-ups in progress. */
const most = 2;

/** For one connection: how it looks its host up, and what is called when it closes, so that it is not kept until there is a result. */
interface OwnLookup {
  readonly lookup: LookupFunction;
  readonly withdraw: () => void;
}

/**
 * Looks up one host, always with the same options: those that ask meanwhile share the result. A look-up cannot be ended, and takes one
 * of the process's four threads: with one for each connection, those of requests that were given up would keep others waiting. If it is
 * late, the next that asks begins another one.
 */
export class SharedLookup {
  #waiting = new Set<Parameters<LookupFunction>[2]>();
  #running = 0;
  /** The one that is not late: others begin only beside late ones. */
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
      // The other one may still have an answer.
      if (error !== null && this.#running > 0) return;
      const callbacks = this.#waiting;
      this.#waiting = new Set();
      for (const each of callbacks) each(error, ...result);
    });
  }
}

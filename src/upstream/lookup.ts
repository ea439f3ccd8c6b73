import { lookup as lookUp } from 'node:dns';
import type { LookupFunction } from 'node:net';

/** After this time a look-up is late: a resolver's answer may be lost, and it is asked again only after seconds. Milliseconds. */
const patience = 100;
/** Maximum number of look-ups in progress. */
const most = 2;

/**
 * Looks up one host, always with the same options: those that ask meanwhile share the result. A look-up cannot be ended, and takes one
 * of the process's four threads: with one for each connection, those of requests that were given up would keep others waiting. If it is
 * late, the next that asks begins another one.
 */
export function shareLookups(): LookupFunction {
  let waiting: Parameters<LookupFunction>[2][] = [];
  let running = 0;
  /** The one that is not late: others begin only beside late ones. */
  let inTime: symbol | undefined;
  return (host, options, callback) => {
    waiting.push(callback);
    if (inTime !== undefined || running === most) return;
    const own = Symbol(host);
    const end = (): void => {
      if (inTime === own) inTime = undefined;
    };
    inTime = own;
    running += 1;
    const late = setTimeout(end, patience);
    lookUp(host, options, (error, ...result) => {
      clearTimeout(late);
      end();
      running -= 1;
      // The other one may still have an answer.
      if (error !== null && running > 0) return;
      const callbacks = waiting;
      waiting = [];
      for (const each of callbacks) each(error, ...result);
    });
  };
}

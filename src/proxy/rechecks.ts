import { isValidKey } from '../accounts/api-key.ts';
import { areRevoked } from './admit/sealing.ts';
import type { KeyDirectory } from '../accounts/key-directory.ts';
import type { Logger } from '../telemetry/logger.ts';
import type { LinkedList } from '../linked-list.ts';
import type { Responder } from './respond/responder.ts';
import type { EpochMs } from '../times.ts';

/** Milliseconds between two checks. */
const interval = 1_000;

/** The age in milliseconds from which a request is checked. Most requests are over before that. */
const minAge = 2_000;

/**
 * How many keys are looked up at a time: as many as fit in one database query. With fewer at a time, hundreds of keys would need many round
 * trips.
 */
const atOnce = 250;

/**
 * Ends WebSockets, responses and uploads, which may go on for hours, if their key, account or credentials are no longer valid, or no longer
 * known to be valid. A request that only awaits the head of its response is left alone, because it ends by itself, and its client must
 * learn its outcome.
 *
 * @param active the requests in progress, in the order in which they began
 * @returns a function that stops the checks
 */
export function startRechecks(
  active: LinkedList<Responder>,
  directory: () => KeyDirectory,
  clock: () => EpochMs,
  log: Logger,
): () => void {
  /** @param responders the requests whose key has this hash */
  const checkKey = async (hash: string, responders: readonly Responder[]): Promise<void> => {
    const asked = directory();
    const found = await asked.find(hash);
    // A reload may have closed the directory in the meantime. The next check asks the new one.
    if (directory() !== asked) return;
    // If a key is `unavailable`, the database has been unreachable for longer than `staleFor`, or has announced a change and then failed. New
    // requests are refused too.
    const isValid = found !== 'unavailable' && found?.account.active === true && isValidKey(found.key, clock());
    const after = isValid ? found.account.encryption : undefined;
    for (const responder of responders) {
      const { exchange } = responder;
      if (after === undefined || areRevoked(exchange, exchange.environment && after[exchange.environment.name]))
        responder.abort('revoked');
    }
  };
  let isChecking = false;
  const check = async (): Promise<void> => {
    if (isChecking) return;
    isChecking = true;
    try {
      // Each key is looked up once.
      const byKey = [...lastingByKey(active)];
      for (let i = 0; i < byKey.length; i += atOnce) {
        await Promise.all(byKey.slice(i, i + atOnce).map(([hash, responders]) => checkKey(hash, responders)));
      }
    } catch (error) {
      log.error({ err: error }, 'keys of requests in progress cannot be checked');
    } finally {
      isChecking = false;
    }
  };
  const timer = setInterval(() => void check(), interval).unref();
  return () => clearInterval(timer);
}

/** The requests to check, by the hash of their key. */
function lastingByKey(active: LinkedList<Responder>): Map<string, Responder[]> {
  const youngest = performance.now() - minAge;
  const byKey = new Map<string, Responder[]>();
  for (const responder of active) {
    const { exchange, http, timing } = responder;
    if (timing.startedAt > youngest) break;
    if (exchange.principal === undefined || http.closed) continue;
    if (http.status === undefined && http.bodyComplete && !responder.lasts) continue;
    const { hash } = exchange.principal.key;
    const responders = byKey.get(hash);
    if (responders === undefined) byKey.set(hash, [responder]);
    else responders.push(responder);
  }
  return byKey;
}

import { randomUUID } from 'node:crypto';
import {
  getEnvironment,
  isWellFormed,
  getKind,
  readPrefix,
  getState,
  type PresentedKey,
} from '../../accounts/api-key.ts';
import type { KeyDirectory, LookupResult, Principal } from '../../accounts/key-directory.ts';
import type { ReportableCode, Route } from '../../config/config.ts';
import { Refusal } from '../../errors.ts';
import { bearerToken } from '../../http.ts';
import type { RequestHead as HttpHead } from '../../http1/parse/request-reader.ts';
import { rfc3339 } from '../../input/value-types.ts';
import { ownText } from '../../own-text.ts';
import { continueWith } from '../../promises.ts';
import type { TrafficRecorder } from '../../telemetry/traffic-recorder.ts';
import { FailureLimiter } from '../capacity/attempts.ts';
import type { ClientConnection } from '../capacity/client-connection.ts';
import { LookUps, type Guesser } from '../capacity/look-ups.ts';
import type { Waiter } from '../../wait-queue.ts';
import { clientNetworks } from './client-address.ts';
import { ambiguousBecause, ambiguousHead } from './ambiguity.ts';
import { nothingKnown, refused, type Admitted, type Exchange } from './exchange.ts';
import { without } from './fields.ts';
import { asksForWebSocket, readHead, type RequestHead } from './head.ts';
import type { RouteMatch } from './router.ts';
import { areRevoked, encryptionAt, sealingByHead, sealingWith, type ActiveEncryption } from './sealing.ts';
import type { GatewaySnapshot } from './snapshot.ts';
import { cipherTestAt } from './target.ts';
import type { EpochMs, MonotonicMs } from '../../times.ts';
import { sha256Hex } from '../../cryptography.ts';

/** Maximum length of an `Authorization` header that a connection keeps. The longest key has 208 characters. */
const maxKept = 256;

/** The headers that contain the credentials in a request to a test endpoint. */
const testCredentials: ReadonlySet<string> = new Set(['key', 'iv']);

/** Decides whether a request is admitted. */
export class Admission {
  readonly #recorder: Pick<TrafficRecorder, 'trace'>;
  readonly #clock: () => EpochMs;
  /** Counts unknown API keys, by client. */
  readonly #failedKeys = new FailureLimiter();
  readonly #lookUps: LookUps;

  /** @param clock the clock for the expiry of keys and the end of grace periods */
  constructor(inFlight: number, recorder: Pick<TrafficRecorder, 'trace'>, clock: () => EpochMs) {
    this.#recorder = recorder;
    this.#clock = clock;
    this.#lookUps = new LookUps(inFlight);
  }

  resize(inFlight: number): void {
    this.#lookUps.resize(inFlight);
  }

  /** Decides everything that depends on the head alone. @param startedAt from `performance.now()`, here and below */
  route(http: HttpHead, { peer }: ClientConnection, snapshot: GatewaySnapshot, startedAt: MonotonicMs): Exchange {
    // A head that can be read in two ways is refused before any decision relies on either reading.
    const head = readHead(http);
    if (head === undefined) return refused(ambiguousHead(http, snapshot), randomUUID());
    const id = ownText(head.requestId || randomUUID());

    // The host selects the environment, on which keys, credentials and the upstream depend.
    const environment = snapshot.findEnvironment(head.host);
    if (environment === undefined) return refused(new Refusal('unknown_host'), id, head);

    // The two test endpoints take precedence over the routes. The route is looked up before the key, because the route decides who may read
    // a refusal, and whether the refusal is sealed.
    const match = snapshot.router.match(head.path, head.method);
    const { routes } = match;
    const testPath = cipherTestAt(head.path);
    const test = environment.cipherTest ? testPath : undefined;
    // Merchants send their credentials to these paths even in an environment without test endpoints, so the credentials are never
    // forwarded.
    if (testPath !== undefined) head.fields = without(testCredentials, head.fields);
    const exchange: Admitted = {
      ...nothingKnown,
      id,
      head,
      environment,
      route: test === undefined ? (routes[0]?.path ?? 'unlisted') : 'none',
      allowsCors: snapshot.report.has('key_not_permitted') || routes.some((route) => route.keys.includes('public')),
      test,
      enveloped: test === undefined && routes.some((route) => route.envelope),
      testElsewhere: testPath !== test,
      match,
      trace: this.#recorder.trace(head, () => snapshot.trusts(peer), startedAt),
      refusal: undefined,
    };
    // A WebSocket handshake must not have a body. Otherwise, one recipient could take the bytes after the head for the body, and another
    // for the first frame of the WebSocket.
    if (asksForWebSocket(head) && head.framing.type !== 'none' && routes.some((route) => route.upgrade)) {
      const why = 'a WebSocket handshake has no body: send neither Content-Length nor Transfer-Encoding';
      return { ...exchange, refusal: ambiguousBecause(() => why, environment) };
    }
    return exchange;
  }

  /** Finds the account that sent the request, and decides whether its key permits the request. */
  identify(
    exchange: Admitted,
    client: ClientConnection,
    snapshot: GatewaySnapshot,
    directory: KeyDirectory,
    startedAt: MonotonicMs,
    waiter: Waiter,
  ): Exchange | Promise<Exchange> {
    const { head, environment } = exchange;
    const needsNoKey = exchange.test === undefined ? isOpenPreflight(head, snapshot) : head.authorization === undefined;
    if (needsNoKey) return exchange;

    // The API key identifies the account. The key is checked before the route's permissions, because a client without a valid key has none.
    const key = readApiKey(head.authorization, client);
    if (key instanceof Refusal) return { ...exchange, refusal: key };
    // The key's prefix is checked before any look-up, so that a live key sent to the test environment is refused because of its
    // environment, whether or not the key exists.
    if (getEnvironment(key.prefix) !== environment.name) {
      const principal = this.#findOwner(key, directory);
      return { ...exchange, principal, refusal: new Refusal('environment_mismatch') };
    }
    const { attempts, window } = snapshot.limits.failedKeys;
    // The client's networks. Found only on demand, because cached keys do not need them.
    let known: readonly string[] | undefined;
    const find = () => {
      const networks = (known ??= clientNetworks(client.peer, head.forwarded.for, snapshot));
      const address = networks.at(-1) ?? '';
      return { networks, address, seconds: this.#failedKeys.limited(address, attempts, startedAt) };
    };
    const guesser = (): Guesser => {
      const { networks, seconds } = find();
      client.isSuspect = seconds !== undefined;
      return { networks, isThrottled: client.isSuspect };
    };
    return continueWith(this.#lookUps.find(directory, key.hash, guesser, waiter), (found) => {
      const now = this.#clock();
      const principal = authenticate(key, found, now);
      if (!(principal instanceof Refusal)) return permitted(exchange, principal, snapshot, now);
      if (principal.code !== 'invalid_api_key') return { ...exchange, refusal: principal };
      // After too many guesses, a client's wrong keys are refused as `too_many_attempts` for a while. A valid key from the same address is
      // never refused for this reason, because other clients may share the address.
      const { address, seconds } = find();
      if (seconds === undefined) this.#failedKeys.failed(address, window, startedAt);
      const refusal = seconds === undefined ? principal : new Refusal('too_many_attempts', { retryAfter: seconds });
      return { ...exchange, principal: knownPrincipal(found), refusal };
    });
  }

  /**
   * Checks a request again after its body has arrived, because its key, or the credentials that opened its envelope, may have been revoked
   * by then. If only a grace period has ended, the request may go on.
   *
   * @returns the refusal; undefined if the request may go on
   */
  lookAgain(exchange: Admitted, directory: KeyDirectory): Refusal | undefined | Promise<Refusal | undefined> {
    const { principal, environment } = exchange;
    if (principal === undefined) return undefined;
    return continueWith(directory.find(principal.key.hash), (found) => {
      const now = authenticate(principal.key, found, this.#clock());
      if (now instanceof Refusal) return now;
      if (!now.account.active) return new Refusal('account_inactive');
      return areRevoked(exchange, now.account.encryption[environment.name])
        ? new Refusal('decryption_failed', { reason: 'fingerprint' })
        : undefined;
    });
  }

  /**
   * Finds the owner of a key that belongs to the other environment, for the log; undefined if the key is not cached. The response neither
   * depends on the owner nor waits for the look-up. A key that is not cached is looked up for the next request with this key, if one of the
   * look-up slots of throttled clients is free.
   */
  #findOwner({ hash }: PresentedKey, directory: KeyDirectory): Principal | undefined {
    const found = this.#lookUps.findUnawaited(directory, hash);
    if (!(found instanceof Promise)) return knownPrincipal(found);
    found.catch(() => {});
    return undefined;
  }
}

/**
 * Reads the API key from `Authorization`, or returns the refusal if the header is missing or malformed.
 *
 * @param client caches the key, so that it is read and hashed again only when the header changes on the connection
 */
function readApiKey(
  authorization: string | undefined,
  client: Pick<ClientConnection, 'lastKey'>,
): PresentedKey | Refusal {
  if (authorization === undefined) return new Refusal('missing_api_key');
  if (client.lastKey?.authorization === authorization) return client.lastKey.key;
  const token = bearerToken(authorization);
  if (token === undefined || !isWellFormed(token)) return new Refusal('malformed_api_key');
  const key = { prefix: readPrefix(token), hash: sha256Hex(token) };
  // The connection outlives the head, and no limit counts the key that it caches, so a header with thousands of spaces is not cached.
  if (authorization.length <= maxKept) client.lastKey = { authorization: ownText(authorization), key };
  return key;
}

/**
 * Checks the result of a look-up.
 *
 * @returns the principal, or the refusal of the key. If the key is refused, the log may still name the owner in `found`.
 */
function authenticate(key: PresentedKey, found: LookupResult, now: EpochMs): Principal | Refusal {
  if (found === 'unavailable') return new Refusal('accounts_unavailable');
  // The stored prefix states the kind and the environment. It counts only if the presented key has the same prefix.
  if (found === undefined || found.key.prefix !== key.prefix)
    return new Refusal('invalid_api_key', { reason: 'unknown' });
  const state = getState(found.key, now);
  return state === 'valid' ? found : new Refusal('invalid_api_key', { reason: state });
}

/** The owner of a revoked or expired key, for the log. */
function knownPrincipal(found: LookupResult): Principal | undefined {
  return found === 'unavailable' ? undefined : found;
}

/** Decides whether the route permits this account and this kind of key. */
function permitted(exchange: Admitted, principal: Principal, snapshot: GatewaySnapshot, now: EpochMs): Exchange {
  const { head, environment, match, enveloped, test } = exchange;
  const encryption = encryptionAt(principal.account.encryption[getEnvironment(principal.key.prefix)], now);
  const sealing = enveloped && encryption !== undefined ? sealingByHead(head, encryption) : undefined;
  const identified: Admitted = { ...exchange, principal, tier: getKind(principal.key.prefix), encryption, sealing };
  if (enveloped && encryption !== undefined && sealing === undefined) {
    const hint = environment.name === 'test' ? fingerprintHint(encryption) : undefined;
    const refusal = new Refusal('decryption_failed', { hint, reason: 'fingerprint' });
    return { ...identified, sealing: sealingWith(undefined, encryption), refusal };
  }
  if (!principal.account.active) return { ...identified, refusal: new Refusal('account_inactive') };
  if (test !== undefined) return identified;
  const forbidden = forbiddenBy(match, principal);
  if (forbidden.length === 0) return identified;
  const enforced = forbidden.find((code) => !snapshot.report.has(code));
  if (enforced === undefined) return { ...identified, reported: forbidden };
  const details = enforced === 'method_not_allowed' ? { allow: allowedMethods(match.routes) } : {};
  const reported = forbidden.slice(0, forbidden.indexOf(enforced));
  return { ...identified, reported, refusal: new Refusal(enforced, details) };
}

function fingerprintHint({ createdAt }: ActiveEncryption): string {
  const since = createdAt === undefined ? '' : `, created at ${rfc3339(createdAt)}`;
  return `Envelope-Credentials has the fingerprint of credentials other than the account's${since}: compare the fingerprints`;
}

/** Why a principal may not use a route; empty if it may. */
function forbiddenBy(match: RouteMatch, { key }: Principal): readonly ReportableCode[] {
  // A secret key may use every route. A public key may use the routes that list it.
  const kind = getKind(key.prefix);
  const isPermitted = kind === 'secret' || (match.outcome === 'matched' && match.route.keys.includes(kind));
  if (isPermitted && match.outcome !== 'method_not_allowed') return [];
  const wrongMethod: readonly ReportableCode[] = match.outcome === 'method_not_allowed' ? ['method_not_allowed'] : [];
  return isPermitted ? wrongMethod : [...wrongMethod, 'key_not_permitted'];
}

/** The value of `Allow` for a path. */
function allowedMethods(routes: readonly Route[]): string {
  const methods = new Set(routes.flatMap((route) => route.methods));
  if (methods.has('GET')) methods.add('HEAD');
  return [...methods].join(', ');
}

/** Whether a request is a CORS preflight (Fetch §4.8) for a request that a public key may make. A browser sends no key with a preflight. */
function isOpenPreflight(head: RequestHead, { router, report }: GatewaySnapshot): boolean {
  if (head.method !== 'OPTIONS' || head.origin === undefined || head.requestedMethod === undefined) return false;
  if (head.framing.type !== 'none') return false;
  const match = router.match(head.path, head.requestedMethod);
  if (match.outcome === 'method_not_allowed' && !report.has('method_not_allowed')) return false;
  return report.has('key_not_permitted') || (match.outcome === 'matched' && match.route.keys.includes('public'));
}

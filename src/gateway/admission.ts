import type { IncomingMessage } from 'node:http';
import { environmentOf, sha256Hex, kindOf, prefixOf } from '../accounts/api-key.ts';
import type { LookupResult, KeyHolder } from '../accounts/key-directory.ts';
import type { Limits, ReportableCode, Route } from '../config/config.ts';
import type { TrafficRecorder } from '../telemetry/traffic-recorder.ts';
import { continueWith } from '../promises.ts';
import type { Admitted } from './admitted.ts';
import { authenticate, bearerKey, parseApiKey } from './authentication.ts';
import { cipherTestOf } from './cipher-test.ts';
import { clientOf, peerOf } from './client-address.ts';
import { FailureLimiter } from './limits.ts';
import { LookUps } from './look-ups.ts';
import { Refusal } from './refusal.ts';
import type { Reply } from './reply.ts';
import { asksForWebSocket, readRequestHead, type RequestHead } from './request-head.ts';
import type { Request } from './request.ts';
import type { RouteMatch } from './router.ts';
import type { Rules } from './rules.ts';
import { encryptionAt, sealingByHead } from './sealing.ts';

/** Decides whether a request is admitted. */
export class Admission {
  readonly #recorder: TrafficRecorder;
  readonly #clock: () => number;
  /** Unknown API keys, by client. */
  readonly #guesses = new FailureLimiter();
  readonly #lookUps: LookUps;

  /** @param clock epoch milliseconds, for the expiry of keys and the end of graces */
  constructor(limits: Limits, recorder: TrafficRecorder, clock: () => number) {
    this.#recorder = recorder;
    this.#clock = clock;
    this.#lookUps = new LookUps(limits.inFlight);
  }

  configure(limits: Limits): void {
    this.#lookUps.resize(limits.inFlight);
  }

  /** The ordered steps of admission, each with the reason for its position. */
  decide(request: Request, reply: Reply): Admitted | Refusal | Promise<Admitted | Refusal> {
    const { rules } = request;

    // 1. A head with two readings is refused before any decision relies on one of them.
    const head = readRequestHead(request.raw, rules.limits);
    request.begin(head instanceof Refusal ? undefined : head);
    if (head instanceof Refusal) return head;
    request.trace = this.#recorder.trace(head, () => rules.trusts(peerOf(request)), request.stats.startedAt);

    // 2. The host selects the environment; keys, credentials and the upstream depend on it.
    const environment = rules.environmentOf(head.host);
    if (environment === undefined) return new Refusal('unknown_host');
    request.environment = environment.name;

    // The route is looked up before anything else is refused: it decides who may read a refusal, and whether it is sealed.
    const match = rules.router.match(head.path, head.method);
    const { routes } = match;
    const publicEverywhere = rules.report.has('key_not_permitted');
    request.allowsCors = publicEverywhere || routes.some((route) => route.keys.includes('public'));
    // The bytes after the head would be a body to one reader and the first frame of the WebSocket to another.
    const hasBody = head.body.type !== 'none';
    if (head.method === 'GET' && hasBody && asksForWebSocket(head.upgrade) && routes.some((route) => route.upgrade)) {
      return new Refusal('ambiguous_request');
    }

    // 3. The two test endpoints take precedence over the routes and need no key. A key that is sent is checked.
    const test = environment.cipherTest ? cipherTestOf(head.path) : undefined;
    const enveloped = test === undefined && routes.some((route) => route.envelope);
    const admitted: Admitted = { reply, head, environment, test, enveloped };
    if (test === undefined) request.route = routes[0]?.path ?? 'unlisted';
    const needsNoKey = test === undefined ? isOpenPreflight(head, rules) : head.authorization === undefined;
    if (needsNoKey) return admitted;

    // 4. The API key identifies the account. Before the route's permission, because an unknown client has none.
    const key = parseApiKey(head.authorization, environment.name);
    if (key instanceof Refusal) return key;
    const isSuspect = (): boolean => this.#retryAfter(request) !== undefined;
    return continueWith(this.#lookUps.find(rules.directory, sha256Hex(key), isSuspect), (found) => {
      const holder = this.#identify(request, key, found);
      if (holder instanceof Refusal) return holder;
      const { encryption } = request;
      if (enveloped && encryption !== undefined) reply.sealing = sealingByHead(head, encryption);
      if (!holder.account.active) return new Refusal('account_inactive');
      if (test !== undefined) return admitted;

      // 5. The route's permission for this kind of key.
      for (const code of forbiddenBy(match, holder)) {
        if (request.report(code)) continue;
        return new Refusal(code, code === 'method_not_allowed' ? { allow: allowedMethods(routes) } : {});
      }
      return admitted;
    });
  }

  /** Whether a request that has not begun carries a valid secret key that is found without waiting. */
  isMerchants({ headers }: IncomingMessage, { directory }: Rules): boolean {
    const key = bearerKey(headers.authorization ?? '');
    if (key === undefined || kindOf(prefixOf(key)) !== 'secret') return false;
    const hash = sha256Hex(key);
    const found = directory.holds(hash) ? directory.find(hash) : undefined;
    return !(found instanceof Promise) && !(authenticate(key, found, this.#clock()) instanceof Refusal);
  }

  #identify(request: Request, key: string, found: LookupResult): KeyHolder | Refusal {
    const now = this.#clock();
    const holder = authenticate(key, found, now);
    if (holder instanceof Refusal) return holder.code === 'invalid_api_key' ? this.#guessed(request) : holder;
    const encryption = holder.account.encryption[environmentOf(holder.key.prefix)];
    request.identify(holder, encryptionAt(encryption, now));
    return holder;
  }

  /**
   * Counts an unknown key as a guess. A client with too many guesses does not learn whether the next one is right. A
   * valid key from the same address is never limited, because other clients may share the address.
   */
  #guessed(request: Request): Refusal {
    const { window } = request.rules.limits.failedKeys;
    const retryAfter = this.#retryAfter(request);
    if (retryAfter !== undefined) return new Refusal('too_many_attempts', { retryAfter });
    this.#guesses.failed(clientOf(request), window, request.stats.startedAt);
    return new Refusal('invalid_api_key');
  }

  /** Seconds until this client may guess again; undefined within its limit. */
  #retryAfter(request: Request): number | undefined {
    const { attempts } = request.rules.limits.failedKeys;
    return this.#guesses.limited(clientOf(request), attempts, request.stats.startedAt);
  }
}

/** Why the holder of a key may not use a route; empty if it may. */
function forbiddenBy(match: RouteMatch, holder: KeyHolder): readonly ReportableCode[] {
  // A secret key may use every route, a public one those that list it.
  const kind = kindOf(holder.key.prefix);
  const isPermitted = kind === 'secret' || (match.outcome === 'matched' && match.route.keys.includes(kind));
  const wrongMethod: readonly ReportableCode[] = match.outcome === 'method_not_allowed' ? ['method_not_allowed'] : [];
  return isPermitted ? wrongMethod : [...wrongMethod, 'key_not_permitted'];
}

/** The value of `Allow` for a path. */
function allowedMethods(routes: readonly Route[]): string {
  const methods = new Set(routes.flatMap((route) => route.methods));
  if (methods.has('GET')) methods.add('HEAD');
  return [...methods].join(', ');
}

/** Whether a request is a CORS preflight (Fetch §4.8) for what a public key may do. A browser cannot send a key with it. */
function isOpenPreflight(head: RequestHead, { router, report }: Rules): boolean {
  if (head.method !== 'OPTIONS' || head.origin === undefined || head.requestedMethod === undefined) return false;
  if (head.body.type !== 'none') return false;
  const match = router.match(head.path, head.requestedMethod);
  if (match.outcome === 'method_not_allowed' && !report.has('method_not_allowed')) return false;
  return report.has('key_not_permitted') || (match.outcome === 'matched' && match.route.keys.includes('public'));
}

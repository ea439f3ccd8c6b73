import { randomUUID } from 'node:crypto';
import type { IncomingMessage, ServerResponse } from 'node:http';
import type { Socket } from 'node:net';
import type { KeyHolder } from '../accounts/directory.ts';
import type { Logger } from '../telemetry/logger.ts';
import type { TrafficRecorder } from '../telemetry/traffic-recorder.ts';
import type { RefusalCode } from '../errors.ts';
import { http } from '../http.ts';
import { accessLine, unparsedLine } from './access-line.ts';
import { allowedMethods, authenticate, isOpenPreflight, permits, routesOf } from './admission.ts';
import { clientOf, peerOf } from './client-address.ts';
import { answerCipherTest, cipherTestOf } from './cipher-test.ts';
import { explanationOf } from './explanation.ts';
import { exchange, type ExchangeDependencies } from './exchange.ts';
import { FailureLimiter } from './failure-limiter.ts';
import { budgetsOf, resizeBudgets, type Budgets } from './budgets.ts';
import { connectionOf } from './client-connection.ts';
import { GatewayRequest } from './gateway-request.ts';
import { InFlight } from './in-flight.ts';
import { passThrough } from './pass-through.ts';
import { asksForWebSocket, mayBeUpgraded, passUpgrade } from './pass-upgrade.ts';
import { isUnframed } from './request-body.ts';
import { endWithProblem, type RefusalDetails } from './refusal.ts';
import { readRequestHead, type RequestHead } from './request-head.ts';
import type { Rules, ServedEnvironment } from './rules.ts';
import { chooseByHead, graceAt } from './sealing.ts';
import { noteUse } from './note-use.ts';
import { pathOf } from './target.ts';

interface Refused {
  readonly outcome: 'refused';
  readonly code: RefusalCode;
  readonly details: RefusalDetails;
}

/** What admission says: refused, to be answered here, or admitted. */
type Admission =
  | Refused
  | { readonly outcome: 'cipher_test'; readonly head: RequestHead; readonly test: 'encrypt' | 'decrypt' }
  | {
      readonly outcome: 'admitted';
      readonly head: RequestHead;
      readonly environment: ServedEnvironment;
      readonly enveloped: boolean;
    };

/** Pipelined requests that may wait on one connection. */
const mostPipelined = 100;

/** Merchants' traffic: every request passes the steps of `#admit`, then is exchanged or passed through. */
export class Gateway {
  readonly #log: Logger;
  readonly #recorder: TrafficRecorder;
  readonly #clock: () => number;
  readonly inFlight = new InFlight();
  readonly #budgets: Budgets;
  #rules: Rules;
  /** Unknown API keys, by client. */
  readonly #guesses = new FailureLimiter();
  readonly #exchange: ExchangeDependencies;

  /** @param clock epoch milliseconds: what keys expire and graces end by */
  constructor(rules: Rules, log: Logger, recorder: TrafficRecorder, clock: () => number) {
    this.#log = log;
    this.#recorder = recorder;
    this.#clock = clock;
    this.#exchange = { metrics: recorder.metrics, openFailures: new FailureLimiter() };
    this.#rules = rules;
    this.#budgets = budgetsOf(rules.limits);
    this.inFlight.sweepFor(rules.timeouts);
  }

  /** Replaces what decides about requests from now on; those in flight go on by the rules they began with. */
  configure(rules: Rules): void {
    this.#rules = rules;
    resizeBudgets(this.#budgets, rules.limits);
    this.inFlight.sweepFor(rules.timeouts);
  }

  /** How much of what is limited is used: requests that are worked on, and bytes of bodies. */
  get used(): { readonly inFlight: number; readonly buffered: number } {
    const { places, identified, keyless } = this.#budgets;
    return { inFlight: places.used, buffered: identified.used + keyless.used };
  }

  /** Handles one request; never throws and never rejects. */
  handle(req: IncomingMessage, res: ServerResponse): void {
    // Behind a response that ends the connection nothing is a request any more (RFC 9112 §9.6).
    if (req.socket.writableEnded) return;
    const response = (): void => {
      const request = this.#open(req, res);
      this.#answer(request).catch((error: unknown) => request.fail(error));
    };
    if (res.socket !== null) {
      response();
      return;
    }
    // Pipelined requests take their turns (RFC 9112 §9.3.2): the one before may end the connection, and two that write
    // must not overtake each other. Until then they are not in flight, or one connection could fill the limit.
    const { socket } = req;
    const connection = connectionOf(socket);
    connection.waiting += 1;
    if (connection.waiting > mostPipelined) socket.destroy();
    res.once('socket', () => {
      connection.waiting -= 1;
      response();
    });
  }

  /** Whether a request asks for a WebSocket on a route that has one, on a connection that is free for it. */
  takesUpgrade(req: IncomingMessage): boolean {
    if (!mayBeUpgraded(req) || req.socket.writableEnded || connectionOf(req.socket).current !== undefined) return false;
    const path = pathOf(req.url ?? '');
    return path !== undefined && routesOf(this.#rules.router.match(path, 'GET')).some((route) => route.upgrade);
  }

  /** Handles a WebSocket handshake: the same admission, then the two connections are coupled. */
  upgrade(req: IncomingMessage, socket: Socket, firstBytes: Buffer): void {
    const res = new http.ServerResponse(req);
    res.assignSocket(socket);
    res.shouldKeepAlive = false;
    res.once('finish', () => socket.destroySoon());
    socket.on('error', () => {});
    const request = this.#open(req, res);
    this.#answer(request, firstBytes).catch((error: unknown) => request.fail(error));
  }

  /** Responses what Node's parser could not make a request of, behind what is still to be answered on the connection. */
  refuseUnparsed(socket: Socket, code: RefusalCode): void {
    const connection = connectionOf(socket);
    const request = connection.current;
    if (request === undefined) {
      // Whatever else comes on a connection that was refused already is the same fault.
      if (!socket.writable) return;
      const id = randomUUID();
      this.#recorder.record(unparsedLine(id, code));
      endWithProblem(socket, code, id, this.#rules.errorsPage);
    } else if (request.req.complete) {
      // Node reports each further piece of it again.
      if (connection.faulty) return;
      connection.faulty = true;
      request.res.once('close', () => {
        connection.faulty = false;
        this.refuseUnparsed(socket, code);
      });
    } else if (request.refusal === undefined) {
      // The fault lies in the request's own body.
      request.call?.abort();
      // Without a head the guard has not let it pass.
      request.giveUp(request.head === undefined ? 'ambiguous_request' : code);
    }
  }

  /** Takes a request in; it is over when `res` has closed. */
  #open(req: IncomingMessage, res: ServerResponse): GatewayRequest {
    const request = new GatewayRequest(req, res, this.#rules, this.#budgets);
    const connection = connectionOf(req.socket);
    connection.current = request;
    this.inFlight.add(request);
    res.once('close', () => {
      if (connection.current === request) connection.current = undefined;
      this.inFlight.remove(request);
      request.close();
      this.#observe(request);
    });
    return request;
  }

  /** @param firstBytes of an upgrade: what the client has sent behind the head already */
  async #answer(request: GatewayRequest, firstBytes?: Buffer): Promise<void> {
    const admission = await this.#admit(request);
    // While its key was looked up, the client may have left, or Node's parser found a fault behind the head.
    if (request.over || request.answered) return;
    if (admission.outcome === 'refused') {
      request.refuse(admission.code, admission.details);
    } else if (admission.outcome === 'cipher_test') {
      await answerCipherTest(request, admission.head, admission.test);
    } else if (firstBytes !== undefined) {
      passUpgrade(request, admission.head, admission.environment, firstBytes);
    } else {
      // 6. An account that encrypts here, on a route that asks for it: the enveloped exchange. All else passes through.
      const { head, environment, enveloped } = admission;
      if (isUnframed(request.req, head)) {
        request.refuse('ambiguous_request');
        return;
      }
      const encryption = request.holder?.account.encryption[environment.name];
      if (enveloped && encryption !== undefined) {
        await exchange(request, head, environment, encryption, this.#exchange);
      } else {
        await passThrough(request, head, environment, encryption);
      }
    }
  }

  /** The ordered steps that decide about a request. Each stands where it stands for the reason it gives. */
  async #admit(request: GatewayRequest): Promise<Admission> {
    const { rules } = request;

    // 1. What can be read in two ways is refused before anything is decided on one of its readings.
    const head = readRequestHead(request.req);
    request.begin(head);
    if (head === undefined) return refused('ambiguous_request');
    request.trace = this.#recorder.trace(head, () => rules.trusts(peerOf(request)), request.times.startedAt);

    // 2. The host says which environment this is; keys, credentials and the upstream depend on it.
    const environment = rules.environmentOf(head.host);
    if (environment === undefined) return refused('unknown_host');
    request.environment = environment.name;

    // The route is looked up before anything else is refused, because refusals depend on it: who may read them, and how.
    const match = rules.router.match(head.path, head.method);
    const routes = routesOf(match);
    request.openToBrowsers = routes.some((route) => route.keys.includes('public'));
    // Bytes behind the head would be a body to one reader and the first of the WebSocket to another.
    if (
      head.method === 'GET' &&
      head.hasBody &&
      asksForWebSocket(head.upgrade) &&
      routes.some((route) => route.upgrade)
    ) {
      return refused('ambiguous_request');
    }
    if (request.overloaded) return refused('overloaded');

    // 3. The two test endpoints go before the routes, whatever those say, and need no key. One that is sent is checked.
    const test = environment.cipherTest ? cipherTestOf(head.path) : undefined;
    if (test !== undefined) {
      const holder = head.authorization === undefined ? undefined : await this.#identify(request, head, environment);
      return isRefused(holder) ? holder : { outcome: 'cipher_test', head, test };
    }

    request.route = routes[0]?.path ?? 'unlisted';
    const enveloped = routes.some((route) => route.envelope);
    if (isOpenPreflight(head, rules.router)) {
      return { outcome: 'admitted', head, environment, enveloped: false };
    }

    // 4. Whose request it is. Before the route's permission: to somebody unknown there is nothing to permit.
    const holder = await this.#identify(request, head, environment, enveloped);
    if (isRefused(holder)) return holder;

    // 5. What this kind of key may do here.
    const forbidden = permits(match, holder);
    if (forbidden === 'method_not_allowed') return refused(forbidden, { allow: allowedMethods(routes) });
    if (forbidden !== undefined) return refused(forbidden);

    return { outcome: 'admitted', head, environment, enveloped };
  }

  /** Finds the holder of the key; from then on refusals are sealed if the holder encrypts here. */
  async #identify(
    request: GatewayRequest,
    head: RequestHead,
    environment: ServedEnvironment,
    enveloped = false,
  ): Promise<KeyHolder | Refused> {
    const now = this.#clock();
    const holder = await authenticate(head.authorization, environment.name, request.rules.directory, now);
    if (holder === 'invalid_api_key') return this.#guessed(request, head);
    if (typeof holder === 'string') return refused(holder);
    request.holder = holder;
    const encryption = holder.account.encryption[environment.name];
    if (enveloped && encryption !== undefined) {
      request.choose(chooseByHead(head, encryption, graceAt(encryption, now)));
    }
    return holder.account.active ? holder : refused('account_inactive');
  }

  /**
   * An unknown key: perhaps a guess. Too many from one client are told so, instead of whether they were right; a good key
   * from the same address is never asked to wait, because others may share the address.
   */
  #guessed(request: GatewayRequest, head: RequestHead): Refused {
    const client = clientOf(request, head);
    if (client === undefined) return refused('invalid_api_key');
    const { attempts, window } = request.rules.limits.failedKeys;
    const retryAfter = this.#guesses.limited(client, attempts, request.times.startedAt);
    if (retryAfter !== undefined) return refused('too_many_attempts', { retryAfter });
    this.#guesses.failed(client, window, request.times.startedAt);
    return refused('invalid_api_key');
  }

  #observe(request: GatewayRequest): void {
    if (request.error !== undefined) this.#log.error({ err: request.error, request_id: request.id }, 'request failed');
    // 7. One access line and one observation, when all is known.
    this.#recorder.record(accessLine(request), request);
    if (this.#log.isLevelEnabled('debug')) this.#log.debug(explanationOf(request, this.used), 'decision');
    noteUse(request, this.#clock());
  }
}

function isRefused(identified: KeyHolder | Refused | undefined): identified is Refused {
  return identified !== undefined && 'outcome' in identified;
}

function refused(code: RefusalCode, details: RefusalDetails = {}): Refused {
  return { outcome: 'refused', code, details };
}

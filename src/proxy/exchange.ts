import { randomUUID } from 'node:crypto';
import type { ServerExchange } from '../http1/exchange.ts';
import type { Admission } from './admit/admit.ts';
import { ambiguousText } from './admit/ambiguity.ts';
import { refused, type Admitted, type Exchange } from './admit/exchange.ts';
import { asksForWebSocket } from './admit/head.ts';
import type { GatewaySnapshot } from './admit/snapshot.ts';
import { runCipherTest } from './body/cipher-test.ts';
import { inspect } from './body/inspect.ts';
import type { FormatMemories } from './body/format-memories.ts';
import { EnvelopeOpener, type Outgoing } from './body/open.ts';
import { LongBodies } from './body/read.ts';
import type { Budgets, Claim } from './capacity/budgets.ts';
import type { ClientConnection } from './capacity/client-connection.ts';
import { queuesByCrowd, startedInTurn } from './capacity/queues.ts';
import { FairTickQueue, NestedTickQueue, TickQueue, type OwnTickQueue } from '../tick-queue.ts';
import type { WaitQueue } from '../wait-queue.ts';
import type { KeyDirectory } from '../accounts/key-directory.ts';
import { Refusal } from '../errors.ts';
import { LinkedList } from '../linked-list.ts';
import { attempt, continueWith } from '../promises.ts';
import type { Metrics } from '../telemetry/metrics.ts';
import { forwardUpgrade, upstreamFields } from './forward.ts';
import { refusalCodes } from './respond/problem.ts';
import { PlainRelay } from './respond/relay.ts';
import { Responder } from './respond/responder.ts';
import { clientNetworks, clientSite } from './admit/client-address.ts';
import { waitingBytes } from './capacity/reservation.ts';
import { SealingRelay } from './respond/sealing-relay.ts';
import type { MonotonicMs } from '../times.ts';

/** Maximum number of waiting requests that are refused to make room for one. */
const maxEvicted = 4;

/** Takes every request from its head to its response. A step that does not have to wait creates no promise. */
export class ExchangeRunner {
  readonly #admission: Admission;
  readonly #directory: () => KeyDirectory;
  readonly #budgets: Budgets;
  readonly #metrics: Metrics;
  readonly #observe: (responder: Responder) => void;
  /** The requests in progress. */
  readonly active = new LinkedList<Responder>();
  #isDraining = false;
  /** The queues in which connections wait before they are read again, after a request on them was refused as `overloaded`. */
  readonly #overloaded = queuesByCrowd(() => new TickQueue(startedInTurn));
  /**
   * Bodies for the test endpoints that were sent without a secret key. One is processed per turn. Accounts (for public keys) and sites (for
   * clients without a key) are two groups.
   */
  readonly #cipherTests = new FairTickQueue<Claim | string>(1, undefined, 2);
  /** Requests without a valid key that wait for their turn. */
  readonly #withoutKey: NestedTickQueue;
  readonly #longBodies = new LongBodies();
  readonly #memories: FormatMemories;
  readonly #opener: EnvelopeOpener;

  /**
   * @param directory returns the current directory
   * @param observe   called once for each request, when it ends
   */
  constructor(
    admission: Admission,
    directory: () => KeyDirectory,
    budgets: Budgets,
    metrics: Metrics,
    observe: (responder: Responder) => void,
    memories: FormatMemories,
  ) {
    this.#admission = admission;
    this.#directory = directory;
    this.#budgets = budgets;
    this.#withoutKey = new NestedTickQueue(budgets.anonymous.none.turns.requests);
    this.#metrics = metrics;
    this.#observe = observe;
    this.#memories = memories;
    this.#opener = new EnvelopeOpener(metrics, this.#longBodies, memories);
  }

  /**
   * Serves one request, or refuses bytes that are not a request; never throws.
   *
   * @param snapshot the configuration that applies to the request until it ends
   */
  serve(http: ServerExchange, client: ClientConnection, snapshot: GatewaySnapshot): void {
    const startedAt = performance.now();
    if (http.head === undefined) {
      const { fault = 'malformed', faulty } = http;
      client.count(fault === 'timeout' ? 'timeout' : 'malformed');
      const refusal = fault === 'ambiguous' ? ambiguousText(faulty, snapshot) : new Refusal(refusalCodes[fault]);
      this.#begin(http, refused(refusal, randomUUID()), client, snapshot, startedAt).refuse(refusal);
      return;
    }
    // 1. Decide everything that depends on the head alone, such as the environment and the route. An ambiguous head is refused.
    const routed = this.#admission.route(http.head, client, snapshot, startedAt);
    const responder = this.#begin(http, routed, client, snapshot, startedAt);
    const { reservation } = responder;
    const directory = this.#directory();
    attempt(responder, () => {
      // 2. Find the account that sent the request, and decide whether its key permits the request.
      const identified =
        routed.refusal === undefined
          ? this.#admission.identify(routed, client, snapshot, directory, startedAt, reservation)
          : routed;
      client.isLookedUp = identified instanceof Promise;
      if (client.isLookedUp) responder.asked = directory;
      return continueWith(identified, (exchange) => {
        responder.asked = undefined;
        if (responder.settled) return;
        if (client.isLookedUp) client.letGiveWay(false);
        client.isLookedUp = client.isSuspect = false;
        responder.exchange = exchange;
        if (!this.#charge(responder, exchange)) {
          http.keepAlive = false;
          client.count('limit');
          responder.refuse(new Refusal('overloaded'));
          return;
        }
        // 3. Start the request: at once or, if too many others have started in this turn, in a later turn.
        const start = (hasWaited: boolean): void => attempt(responder, () => this.#start(responder, hasWaited));
        const startLater = (): void => start(true);
        const { tier, turns } = reservation.claim;
        const isMerchant = tier === 'secret';
        // A merchant's request with an incomplete body starts at once. If it waited, bytes of its body would be held, and its connection
        // could be closed for lack of room.
        if (turns.requests.tryStart() || (isMerchant && !http.bodyComplete)) start(false);
        // A merchant's request waits without a charge for its head, so it can wait even if its account has used up `limits.buffered`.
        else if (isMerchant) void reservation.wait(turns.requests).then(startLater);
        else if (tier === 'public') waitIn(turns.requests, responder, startLater);
        else this.#waitWithoutKey(responder, startLater);
      });
    });
    // A request that waits from here on outlives the read buffer, so it needs a copy of its body.
    responder.keepBody();
    // Until the key is known to exist, anyone may have sent it, so the body may be evicted.
    if (client.isLookedUp) client.letGiveWay(true);
  }

  /** From now on, every response closes its connection. */
  drain(): void {
    this.#isDraining = true;
    // A response that has begun has told its client that the connection stays open, so only the next response closes that connection.
    for (const { http } of this.active) if (http.status === undefined) http.keepAlive = false;
  }

  /** Creates the responder for a new request. The end of the request is observed, whatever happens. */
  #begin(
    http: ServerExchange,
    exchange: Exchange,
    client: ClientConnection,
    snapshot: GatewaySnapshot,
    startedAt: MonotonicMs,
  ): Responder {
    const responder = new Responder(http, client, snapshot, exchange, startedAt, this.#onClose);
    this.active.add(responder);
    if (this.#isDraining) http.keepAlive = false;
    return responder;
  }

  readonly #onClose = (responder: Responder): void => {
    const { client, refusal, reservation } = responder;
    // The request was refused without waiting, so its connection waits now. Otherwise, every connection in a flood would get a refusal in
    // every turn.
    if (refusal?.code === 'overloaded') client.http.waitsIn = this.#overloaded[reservation.claim.crowd];
    this.active.remove(responder);
    this.#observe(responder);
  };

  /** Queues a request without a valid key. To make room, refuses the oldest requests from the network that has the most requests waiting. */
  #waitWithoutKey(responder: Responder, start: () => void): void {
    const { client, exchange, http, reservation, snapshot } = responder;
    const refuse = (): void => responder.refuse(new Refusal('overloaded'));
    const networks = clientNetworks(client.peer, exchange.head?.forwarded.for, snapshot);
    const queue = this.#withoutKey.queueOf(networks, refuse);
    for (let evicted = 0; !reservation.waitIn(queue, waitingBytes(http.head), start); evicted += 1)
      if (evicted === maxEvicted || !this.#withoutKey.evict()) return refuse();
  }

  /** Charges the request and its connection to the account of its key. @returns false if the account has no room for them */
  #charge({ client, reservation }: Responder, { tier, environment, principal }: Exchange): boolean {
    if (tier === 'anonymous' || environment === undefined || principal === undefined) return true;
    const claim = this.#budgets.claim(environment.name, principal.account.id, tier);
    reservation.exceeded = reservation.chargeTo(claim) ?? client.identify(claim);
    return reservation.exceeded === undefined;
  }

  /** The queue in which a body for a test endpoint waits. */
  #cipherQueue(responder: Responder): OwnTickQueue {
    const { claim } = responder.reservation;
    if (claim.tier === 'secret') return claim.turns.cipherTests;
    return claim.tier === 'public' ? this.#cipherTests.of(claim, 0) : this.#cipherTests.of(siteOf(responder), 1);
  }

  /** @param hasWaited whether the request has waited in a queue since its key was found */
  #start(responder: Responder, hasWaited: boolean): void | Promise<void> {
    const { exchange, http } = responder;
    if (exchange.refusal !== undefined) return responder.refuse(exchange.refusal);
    // If a request is known to be invalid, no part of it is forwarded.
    if (http.fault !== undefined) return responder.bodyFails(http.fault);
    if (exchange.test !== undefined) {
      const context = this.#memories.none();
      const queue = this.#cipherQueue(responder);
      const refusal = runCipherTest(responder, exchange, exchange.test, queue, this.#longBodies, context);
      return continueWith(refusal, (why) => {
        if (why !== undefined) responder.refuse(why);
      });
    }
    if (asksForWebSocket(exchange.head) && exchange.match.routes.some((route) => route.upgrade)) {
      const forward = (): void | Promise<void> => forwardUpgrade(responder, exchange);
      return hasWaited ? this.#ifStillValid(responder, exchange, forward) : forward();
    }
    // 4. Prepare what goes to the upstream: the plaintext of an envelope, or the body as it is.
    const { encryption } = exchange;
    const outgoing =
      exchange.enveloped && encryption !== undefined
        ? this.#opener.open(responder, exchange, encryption)
        : inspect(responder, exchange, this.#longBodies);
    const isLate = hasWaited || outgoing instanceof Promise;
    return continueWith(outgoing, (ready) => {
      if (responder.settled) return;
      if (ready instanceof Refusal) return responder.refuse(ready);
      responder.exchange = ready.exchange;
      const forward = (): void => this.#forward(responder, ready);
      return isLate ? this.#ifStillValid(responder, ready.exchange, forward) : forward();
    });
  }

  /** Forwards a request that has waited, unless its key or its credentials have been revoked meanwhile. */
  #ifStillValid(responder: Responder, exchange: Admitted, forward: () => void | Promise<void>): void | Promise<void> {
    const directory = this.#directory();
    responder.asked = directory;
    return continueWith(this.#admission.lookAgain(exchange, directory), (refusal) => {
      responder.asked = undefined;
      if (responder.settled) return;
      return refusal === undefined ? forward() : responder.refuse(refusal);
    });
  }

  /**
   * Sends a request to the upstream. A preflight, which has no key, waits until there is a slot, because a browser cannot read the refusal
   * of a preflight. Client addresses take turns, so if one client sends too many preflights, other clients still wait for at most one of
   * them. The preflights that have waited longest may be evicted.
   */
  #forward(responder: Responder, ready: Outgoing): void {
    const { principal, environment } = ready.exchange;
    if (principal !== undefined || responder.reservation.takeSlot()) {
      this.#send(responder, ready);
      return;
    }
    responder.setDeadline('overloaded');
    const { client } = responder;
    const site = siteOf(responder);
    const queue = { add: (start: () => void) => this.#budgets.waiting[environment.name].add(site, start) };
    waitIn(queue, responder, () => {
      client.letGiveWay(false);
      attempt(responder, () => this.#send(responder, ready));
    });
    client.letGiveWay(true);
  }

  /** 5. Sends the request to the upstream. Its response goes to the client, sealed if the exchange is enveloped. */
  #send(responder: Responder, { exchange, body, bodyFields }: Outgoing): void {
    if (!responder.reservation.takeSlot()) {
      responder.refuse(new Refusal('overloaded'));
      return;
    }
    const { environment, head, sealing } = exchange;
    const { claim: turnOwner } = responder.reservation;
    const now = performance.now();
    responder.setDeadline('upstream_timeout', now);
    responder.timing.send(now);
    const fields = upstreamFields(exchange, responder, now);
    fields.push(...bodyFields);
    const { type, length: stated } = head.framing;
    const length = Buffer.isBuffer(body) ? body.length : body === undefined && type !== 'none' ? 0 : stated;
    if (length !== undefined) fields.push('Content-Length', String(length));
    // 6. Only the responder writes the response. A relay passes the upstream's response to the responder.
    const relay =
      sealing?.sealer === undefined
        ? new PlainRelay(responder)
        : new SealingRelay(responder, environment.name, sealing.sealer, this.#metrics);
    responder.call = environment.upstream.send(
      { method: head.method, target: head.target, headers: fields, body, idIsNew: !head.requestId, turnOwner },
      relay,
    );
    // 7. When the request ends, it is observed once (see outcome.ts).
  }
}

function siteOf({ client, exchange, snapshot }: Responder): string {
  return clientSite(client.peer, exchange.head?.forwarded.for, snapshot);
}

/** Queues a request. If the budget has no room for it, the request is refused. */
function waitIn(queue: Pick<WaitQueue, 'add'>, responder: Responder, start: () => void): void {
  const { http, reservation } = responder;
  if (!reservation.waitIn(queue, waitingBytes(http.head), start)) responder.refuse(new Refusal('overloaded'));
}

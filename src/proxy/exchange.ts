import type { ServerExchange } from '../http1/exchange.ts';
import type { RequestHead as HttpHead } from '../http1/request-reader.ts';
import type { Admission } from './admit/admit.ts';
import type { Exchange } from './admit/exchange.ts';
import { asksForWebSocket } from './admit/head.ts';
import type { GatewaySnapshot } from './admit/snapshot.ts';
import { runCipherTest } from './body/cipher-test.ts';
import { inspect } from './body/inspect.ts';
import type { LongBodies } from './body/long-bodies.ts';
import type { EnvelopeOpener, Outgoing } from './body/open.ts';
import { anonymous, type Budgets } from './capacity/budgets.ts';
import { Reservation } from './capacity/reservation.ts';
import type { ClientConnection } from './connections.ts';
import { TickQueue } from './capacity/queues.ts';
import { Refusal } from '../errors.ts';
import { continueWith } from '../promises.ts';
import type { Metrics } from '../telemetry/metrics.ts';
import { upstreamFields } from './forward.ts';
import { refusalCodes } from './respond/faults.ts';
import { PlainRelay } from './respond/relay.ts';
import { Responder } from './respond/responder.ts';
import { SealingRelay } from './respond/sealing-relay.ts';
import { forwardUpgrade } from './upgrade.ts';

/** Bytes of a waiting request in memory besides its head (measured). */
const waitingMemory = 3_000;

/**
 * Requests of one tier that start in a turn of the event loop. Eight refusals take about as long as one enveloped exchange, so
 * that a flood of requests without a secret key at most doubles the time of a turn.
 */
const perTick = 8;

/** What the steps of a request work with. */
export interface ExchangeParts {
  readonly admission: Admission;
  readonly budgets: Budgets;
  readonly longBodies: LongBodies;
  readonly opener: EnvelopeOpener;
  readonly metrics: Metrics;
  /** A request begins: it is in progress until `onOver`. */
  readonly onBegin: (responder: Responder) => void;
  readonly onOver: (responder: Responder) => void;
}

/** The way of every request, from its head to its response. Nothing that need not wait creates a promise. */
export class ExchangeRunner {
  readonly #parts: ExchangeParts;
  /** Requests without a secret key. Those with a public one do not wait behind anonymous ones. */
  readonly #queues = { anonymous: new TickQueue(perTick), public: new TickQueue(perTick) };
  /** One body of a test endpoint is processed in a turn. */
  readonly #cipherTests = new TickQueue(1);

  constructor(parts: ExchangeParts) {
    this.#parts = parts;
  }

  /** Serves one request; never throws. @param snapshot the configuration that it keeps to its end */
  serve(http: ServerExchange, head: HttpHead, client: ClientConnection, snapshot: GatewaySnapshot): void {
    const { admission } = this.#parts;
    const startedAt = performance.now();
    // 1. What the head alone decides: an unambiguous reading, the environment and the route.
    const routed = admission.route(head, client, snapshot, startedAt);
    const responder = this.begin(http, routed, client, snapshot, startedAt);
    attempt(responder, () => {
      // 2. Whose request it is, and whether its key permits it.
      const identified =
        routed.refusal === undefined
          ? admission.identify(routed, client, snapshot, startedAt, responder.reservation)
          : routed;
      return continueWith(identified, (exchange) => {
        if (responder.settled) return;
        responder.exchange = exchange;
        if (!this.#bill(responder, exchange, client)) {
          http.keepAlive = false;
          responder.refuse(new Refusal('overloaded'));
          return;
        }
        // 3. When it starts: requests without a secret key take turns.
        this.#schedule(responder, head, exchange, () => attempt(responder, () => this.#start(responder, client)));
      });
    });
    // Whatever waits from here on outlives what was read from the socket.
    responder.keepBody();
  }

  /** The responder of a request that begins. Its end is observed, whatever happens. */
  begin(
    http: ServerExchange,
    exchange: Exchange,
    client: ClientConnection,
    snapshot: GatewaySnapshot,
    startedAt: number,
  ): Responder {
    const { budgets, onBegin } = this.#parts;
    const onOver = (over: Responder): void => {
      client.idle();
      this.#parts.onOver(over);
    };
    const reservation = new Reservation(budgets, anonymous[exchange.environment?.name ?? 'none']);
    const responder = new Responder({
      http,
      client,
      exchange,
      snapshot,
      reservation,
      startedAt,
      onOver,
    });
    client.current = responder;
    onBegin(responder);
    return responder;
  }

  /** Bills the request, and its connection, to the account of its key. @returns false if the account has too many connections */
  #bill({ reservation }: Responder, { tier, environment, principal }: Exchange, client: ClientConnection): boolean {
    if (tier === 'anonymous' || environment === undefined || principal === undefined) return true;
    const claim = this.#parts.budgets.claim(environment.name, principal.account.id, tier);
    reservation.identify(claim);
    const shortage = client.identify(claim);
    if (shortage !== undefined) reservation.exceeded = { limit: 'connections', shortage };
    return shortage === undefined;
  }

  #schedule(responder: Responder, head: HttpHead, { tier }: Exchange, start: () => void): void {
    const queue = tier === 'secret' ? undefined : this.#queues[tier];
    if (queue === undefined || queue.tryStart()) {
      start();
      return;
    }
    const { reservation } = responder;
    const held = head.size + waitingMemory;
    if (!reservation.hold(held)) {
      responder.refuse(new Refusal('overloaded'));
      return;
    }
    reservation.waitIn(queue, () => {
      reservation.release(held);
      start();
    });
  }

  #start(responder: Responder, client: ClientConnection): void | Promise<void> {
    const { exchange } = responder;
    if (exchange.refusal !== undefined) return responder.refuse(exchange.refusal);
    // Nothing of a request that is known to be broken is forwarded.
    if (responder.http.fault !== undefined) return responder.bodyFails(refusalCodes[responder.http.fault]);
    if (exchange.test !== undefined) {
      const refusal = runCipherTest(responder, exchange, exchange.test, this.#cipherTests);
      return continueWith(refusal, (why) => {
        if (why !== undefined) responder.refuse(why);
      });
    }
    if (asksForWebSocket(exchange.head) && exchange.match.routes.some((route) => route.upgrade)) {
      return forwardUpgrade(responder, exchange, client);
    }
    // 4. What goes to the upstream: the plaintext of an envelope, or the body as it is.
    const { encryption } = exchange;
    const outgoing =
      exchange.enveloped && encryption !== undefined
        ? this.#parts.opener.open(responder, exchange, encryption)
        : inspect(responder, exchange, this.#parts.longBodies);
    return continueWith(outgoing, (ready) => {
      if (responder.settled) return;
      if (ready instanceof Refusal) responder.refuse(ready);
      else if (responder.reservation.takeSlot()) this.#send(responder, ready, client);
      else if (exchange.principal === undefined) this.#waitForSlot(responder, ready, client);
      else responder.refuse(new Refusal('overloaded'));
    });
  }

  /** Only a preflight has no key here. A browser cannot read its refusal, so it waits. */
  #waitForSlot(responder: Responder, ready: Outgoing, client: ClientConnection): void {
    const { reservation } = responder;
    if (!reservation.hold(waitingMemory)) {
      responder.refuse(new Refusal('overloaded'));
      return;
    }
    responder.setDeadline('overloaded');
    reservation.waitIn(this.#parts.budgets.waiting[ready.exchange.environment.name], () => {
      reservation.release();
      attempt(responder, () => {
        if (reservation.takeSlot()) this.#send(responder, ready, client);
        else responder.refuse(new Refusal('overloaded'));
      });
    });
  }

  /** 5. The upstream gets the request, and its response goes to the client, sealed if the exchange is enveloped. */
  #send(responder: Responder, { exchange, body, bodyFields }: Outgoing, client: ClientConnection): void {
    responder.exchange = exchange;
    const { environment, head, sealing } = exchange;
    const now = performance.now();
    responder.setDeadline('upstream_timeout', now);
    responder.timing.send(now);
    const fields = upstreamFields(exchange, responder, client.peer, now);
    fields.push(...bodyFields);
    const { type, length: stated } = head.framing;
    const length = Buffer.isBuffer(body) ? body.length : body === undefined && type !== 'none' ? 0 : stated;
    if (length !== undefined) fields.push('Content-Length', String(length));
    // 6. The one writer of the response is the responder; a relay feeds it.
    const relay =
      sealing?.sealer === undefined
        ? new PlainRelay(responder)
        : new SealingRelay(responder, environment.name, sealing.sealer, this.#parts.metrics);
    responder.call = environment.upstream.send(
      { method: head.method, target: head.target, headers: fields, body },
      relay,
    );
    // 7. At its end the request is observed, once: see outcome.ts.
  }
}

/** Runs a step; whatever it throws ends the request. */
function attempt(responder: Responder, step: () => void | Promise<void>): void {
  try {
    const done = step();
    if (done instanceof Promise) done.catch((error: unknown) => responder.fail(error));
  } catch (error) {
    responder.fail(error);
  }
}

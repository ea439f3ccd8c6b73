import { randomUUID } from 'node:crypto';
import type { IncomingMessage, ServerResponse } from 'node:http';
import type { Socket } from 'node:net';
import { isValidKey } from '../accounts/api-key.ts';
import type { KeyDirectory } from '../accounts/key-directory.ts';
import type { Logger } from '../telemetry/logger.ts';
import type { LimitUse } from '../telemetry/sidecar-metrics.ts';
import type { TrafficRecorder } from '../telemetry/traffic-recorder.ts';
import { refusalOf, type RefusalCode } from '../errors.ts';
import { http } from '../http.ts';
import type { Upstream } from '../upstream/upstream.ts';
import { accessLine } from './access-line.ts';
import { Admission } from './admission.ts';
import type { Admitted, Served } from './admitted.ts';
import { runCipherTest } from './cipher-test.ts';
import { EarlyBytes } from './early-bytes.ts';
import { explanationOf } from './explanation.ts';
import { Exchange } from './exchange.ts';
import { forwardUpgrade } from './forward.ts';
import { Budgets, Reservation } from './limits.ts';
import { ClientConnections, connectionOf } from './client-connection.ts';
import { ActiveReplies } from './active-replies.ts';
import { passThrough } from './pass-through.ts';
import { isUnframed } from './request-body.ts';
import { endWithProblem, Refusal } from './refusal.ts';
import { Reply } from './reply.ts';
import { Request } from './request.ts';
import { mayBeUpgraded } from './request-head.ts';
import type { Rules } from './rules.ts';
import { pathOf } from './target.ts';
import { RequestOrder, Turns } from './turns.ts';

/** Milliseconds between two checks of the keys of open WebSockets. */
const recheckInterval = 1_000;

/** Merchants' traffic: every request passes admission, then is exchanged or passed through. */
export class Gateway {
  readonly #log: Logger;
  readonly #recorder: TrafficRecorder;
  readonly #clock: () => number;
  readonly activeReplies = new ActiveReplies();
  readonly connections: ClientConnections;
  readonly #budgets: Budgets;
  #rules: Rules;
  readonly #admission: Admission;
  readonly #exchange: Exchange;
  readonly #cipherTests = new Turns(1);
  readonly #order: RequestOrder;
  readonly #rechecks: NodeJS.Timeout;
  #rechecking = false;

  /** @param clock epoch milliseconds, for the expiry of keys and the end of graces */
  constructor(rules: Rules, log: Logger, recorder: TrafficRecorder, clock: () => number) {
    this.#log = log;
    this.#recorder = recorder;
    this.#clock = clock;
    this.#exchange = new Exchange(recorder.metrics);
    this.#admission = new Admission(rules.limits, recorder, clock);
    this.connections = new ClientConnections(rules.limits.connections);
    this.#rules = rules;
    this.#budgets = new Budgets(rules.limits);
    this.#order = new RequestOrder(this.#budgets);
    this.activeReplies.sweepFor(rules.timeouts);
    this.#rechecks = setInterval(() => void this.#recheck(), recheckInterval).unref();
  }

  /** Aborts the requests in flight and the TLS handshakes in progress. */
  stop(): void {
    clearInterval(this.#rechecks);
    this.activeReplies.stop();
    this.connections.stop();
  }

  /** Applies new rules to later requests; those in flight keep the rules they began with. */
  configure(rules: Rules): void {
    this.#rules = rules;
    this.#budgets.resize(rules.limits);
    this.connections.limit = rules.limits.connections;
    this.#admission.configure(rules.limits);
    this.activeReplies.sweepFor(rules.timeouts);
  }

  /** The use of the limits: open connections, requests in progress, and bytes of bodies. */
  get used(): LimitUse['used'] {
    const { slots, bytes } = this.#budgets;
    return { connections: this.connections.size, inFlight: slots.used, buffered: bytes.used };
  }

  /** Whether a request in flight may still use this part, because it began under rules that have it. */
  uses(part: Upstream | KeyDirectory): boolean {
    return [...this.activeReplies].some(({ request }) => request.rules.has(part));
  }

  /**
   * Handles one request; never throws and never rejects.
   *
   * @param early for a handshake: the bytes that the client sends before its end
   */
  handle(req: IncomingMessage, res: ServerResponse, early?: EarlyBytes): void {
    // After a response that ends the connection, further bytes are not a request (RFC 9112 §9.6).
    if (req.socket.writableEnded) return;
    if (this.#order.beginsNow(connectionOf(req.socket), res)) {
      this.#begin(req, res, early);
      return;
    }
    this.#order.add({
      req,
      res,
      maxWaitingBytes: this.#rules.limits.header,
      isMerchants: () => this.#admission.isMerchants(req, this.#rules),
      begin: () => this.#begin(req, res, early),
    });
  }

  /** Whether a request asks for a WebSocket on a route that allows it, and no other request is on its connection. */
  takesUpgrade(req: IncomingMessage): boolean {
    const { current, hasWaiting } = connectionOf(req.socket);
    if (!mayBeUpgraded(req) || req.socket.writableEnded || current !== undefined || hasWaiting) return false;
    const path = pathOf(req.url ?? '');
    return path !== undefined && this.#rules.router.match(path, 'GET').routes.some((route) => route.upgrade);
  }

  /** Handles a WebSocket handshake: like any other request, but if it is admitted, the two connections are coupled. */
  upgrade(req: IncomingMessage, socket: Socket, firstBytes: Buffer): void {
    const res = new http.ServerResponse(req);
    res.assignSocket(socket);
    res.shouldKeepAlive = false;
    res.once('finish', () => socket.destroySoon());
    // Node has removed its own listeners.
    socket.on('error', () => {}).on('drain', () => res.emit('drain'));
    const early = new EarlyBytes(socket, firstBytes);
    if (!socket.destroyed) this.handle(req, res, early);
  }

  /** Refuses bytes that Node's parser rejected, after the response that is in progress on the connection. */
  refuseUnparsed(socket: Socket, code: RefusalCode): void {
    const connection = connectionOf(socket);
    const reply = connection.current;
    if (reply === undefined && connection.hasWaiting) {
      // The next request begins in a later turn of the event loop, and its response goes first.
      if (!socket.destroyed) setImmediate(() => this.refuseUnparsed(socket, code));
    } else if (reply === undefined) {
      // After a refusal, further bytes are part of the same fault.
      if (!socket.writable) return;
      const id = randomUUID();
      this.#recorder.record({ request_id: id, route: 'none', status: refusalOf(code).status, code });
      endWithProblem(socket, code, id, this.#rules.errorsPage);
    } else if (reply.request.raw.complete) {
      // Node reports the fault again for each further piece.
      if (connection.faulty) return;
      connection.faulty = true;
      reply.raw.once('close', () => {
        connection.faulty = false;
        this.refuseUnparsed(socket, code);
      });
    } else {
      reply.bodyFails(code);
    }
  }

  #begin(raw: IncomingMessage, res: ServerResponse, early: EarlyBytes | undefined): void {
    const connection = connectionOf(raw.socket);
    const request = new Request(raw, this.#rules, new Reservation(this.#budgets, connection));
    const reply = new Reply(request, res);
    connection.current = reply;
    this.activeReplies.add(reply);
    // Emitted once; `once` would cost more.
    res.on('close', () => {
      if (connection.current === reply) connection.current = undefined;
      this.activeReplies.remove(reply);
      reply.close();
      this.#observe(reply);
    });
    void this.#serve(request, reply, early);
  }

  /** Runs the steps of a request; never rejects. The only place that sends a step's refusal. */
  async #serve(request: Request, reply: Reply, early: EarlyBytes | undefined): Promise<void> {
    try {
      // Always awaited, because Node's parser must process the rest of its bytes to know whether the request is complete.
      const admission = await this.#admission.decide(request, reply);
      // Meanwhile the client may have left, or the parser may have rejected the bytes after the head.
      if (reply.over || reply.begun) return;
      const served = admission instanceof Refusal ? admission : this.#respond(admission, early);
      const refusal = served instanceof Promise ? await served : served;
      if (refusal !== undefined) reply.refuse(refusal);
    } catch (error) {
      reply.fail(error);
    }
  }

  #respond(admitted: Admitted, early: EarlyBytes | undefined): Served {
    if (admitted.test !== undefined) return runCipherTest(admitted, admitted.test, this.#cipherTests);
    if (early !== undefined) return forwardUpgrade(admitted, early);
    // 6. The enveloped exchange, if the account encrypts here and the route has envelopes. All other requests pass through.
    if (isUnframed(admitted)) return new Refusal('ambiguous_request');
    const { encryption } = admitted.reply.request;
    const isExchanged = admitted.enveloped && encryption !== undefined;
    return isExchanged ? this.#exchange.serve(admitted, encryption) : passThrough(admitted);
  }

  /** Ends WebSockets whose key or account is no longer valid, because they may last for hours. Never rejects. */
  async #recheck(): Promise<void> {
    if (this.#rechecking) return;
    this.#rechecking = true;
    try {
      for (const reply of [...this.activeReplies].filter(({ upgraded }) => upgraded)) {
        const { holder } = reply.request;
        if (holder === undefined || reply.over) continue;
        const found = await this.#rules.directory.find(holder.key.hash);
        if (found === 'unavailable') continue;
        if (found?.account.active !== true || !isValidKey(found.key, this.#clock())) reply.abort();
      }
    } catch (error) {
      this.#log.error({ err: error }, 'keys of WebSockets cannot be checked');
    } finally {
      this.#rechecking = false;
    }
  }

  #observe(reply: Reply): void {
    const { request, error } = reply;
    if (error !== undefined) this.#log.error({ err: error, request_id: request.id }, 'request failed');
    // 7. One access line and one observation, when the outcome is known.
    this.#recorder.record(accessLine(reply), request);
    if (this.#log.isLevelEnabled('debug')) this.#log.debug(explanationOf(reply, this.used), 'decision');
    if (request.environment !== undefined) {
      for (const code of request.reported) this.#recorder.metrics.reported(request.environment, code);
    }
    this.#noteUse(reply);
  }

  /** Records the use of the API key and of a grace, and unexpected envelopes, which the directory may store. */
  #noteUse({ request, refusal, sealing }: Reply): void {
    const { rules, holder, environment, encryption, stats } = request;
    const { uses } = rules.directory;
    if (holder?.account.active !== true || environment === undefined) return;
    const { account, key } = holder;
    const now = this.#clock();
    if (stats.unexpectedEnvelope) uses?.unexpected(account.id, environment, now);
    uses?.key(key.id, now);
    if (encryption?.grace === undefined || sealing === undefined || refusal !== undefined) return;
    this.#recorder.metrics.graceRequest(environment, sealing.credentials);
    if (sealing.sealer === encryption.current) return;
    uses?.previous(account.id, environment, encryption.grace.until, now);
    this.#recorder.recent.graceUses.add(account.id, environment, key.id, now);
  }
}

import type { IncomingMessage, ServerResponse } from 'node:http';
import type { Socket } from 'node:net';
import type { Directory } from '../accounts/directory.ts';
import type { Upstream } from '../upstream/upstream.ts';
import { budgetsOf, resizeBudgets, type Budgets } from './budgets.ts';
import { GatewayRequest } from './gateway-request.ts';
import type { Rules } from './rules.ts';

/** The requests whose response is not complete: how many there are, what they hold, how long they wait. */
export class InFlight {
  readonly #requests = new Set<GatewayRequest>();
  readonly #budgets: Budgets;
  readonly #onClosed: (request: GatewayRequest) => void;
  #rules: Rules;
  #sweep: NodeJS.Timeout | undefined;
  #draining = false;

  /** @param onClosed called once for each request, when its response is complete or its client has left */
  constructor(rules: Rules, onClosed: (request: GatewayRequest) => void) {
    this.#rules = rules;
    this.#budgets = budgetsOf(rules.limits);
    this.#onClosed = onClosed;
    this.#startSweep();
  }

  get rules(): Rules {
    return this.#rules;
  }

  /** What decides about requests from now on. */
  set rules(rules: Rules) {
    this.#rules = rules;
    resizeBudgets(this.#budgets, rules.limits);
    this.#startSweep();
  }

  get size(): number {
    return this.#requests.size;
  }

  /** Takes a request in. */
  open(req: IncomingMessage, res: ServerResponse): GatewayRequest {
    const request = new GatewayRequest(req, res, this.#rules, this.#budgets, this.#draining);
    res.once('close', () => this.#close(request));
    this.#requests.add(request);
    return request;
  }

  /** The last request on a connection. */
  lastOn(socket: Socket): GatewayRequest | undefined {
    let last: GatewayRequest | undefined;
    for (const request of this.#requests) if (request.req.socket === socket) last = request;
    return last;
  }

  /** Whether one began with this part, and may yet use it. */
  uses(part: Upstream | Directory): boolean {
    for (const request of this.#requests) if (request.rules.has(part)) return true;
    return false;
  }

  /** From now on every response closes its connection. */
  drain(): void {
    this.#draining = true;
    for (const request of this.#requests) request.drain();
  }

  /** Breaks off what is still under way. */
  stop(): void {
    clearInterval(this.#sweep);
    for (const request of this.#requests) request.breakOff();
  }

  #close(request: GatewayRequest): void {
    this.#requests.delete(request);
    request.close();
    this.#onClosed(request);
  }

  /**
   * One coarse sweep over all requests keeps their deadlines. A timer of its own for each would cost every request
   * microseconds for what hardly ever happens; like this, none is late by more than an eighth of the shortest timeout.
   */
  #startSweep(): void {
    const { request, upstream, idle } = this.#rules.timeouts;
    const interval = Math.min(250, Math.max(10, Math.min(request, upstream, idle) / 8));
    clearInterval(this.#sweep);
    this.#sweep = setInterval(() => {
      const now = performance.now();
      for (const open of this.#requests) if (open.deadline <= now) open.expire();
    }, interval).unref();
  }
}

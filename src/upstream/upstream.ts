import { isIP } from 'node:net';
import type { Readable } from 'node:stream';
import { buildConnector, Pool, type Dispatcher } from 'undici';
import type { UpstreamTarget } from '../config/config.ts';
import { upgrade, type UpgradeHandler, type UpgradeRequest } from './upgrade.ts';

/** What is sent to the upstream. */
export interface UpstreamRequest {
  readonly method: string;
  /** Path and query, as received. */
  readonly target: string;
  /** Flat list of names and values: end-to-end headers only, `Host` among them, no `Expect`, valid by Node's parser. */
  readonly headers: string[];
  readonly body: Buffer | Readable | undefined;
}

/** Receives the answer of the upstream. After `onEnd` or `onFailure` nothing more is called. */
export interface AnswerHandler {
  /** An informational answer (102–199) before the real one. */
  onInformation(status: number, headers: readonly string[]): void;
  /** The answer's head: status 200–599, flat list of names and values as sent. */
  onHead(status: number, headers: readonly string[]): void;
  onData(chunk: Buffer): void;
  onEnd(): void;
  onFailure(failure: UpstreamFailure): void;
}

/** Why there is no (whole) answer. */
export interface UpstreamFailure {
  readonly code: 'upstream_unavailable' | 'upstream_timeout';
  /** The error's own code, for the log: ECONNREFUSED, UND_ERR_SOCKET, … Never a message, which may name addresses. */
  readonly cause: string;
}

/** One request under way. */
export interface UpstreamCall {
  pause(): void;
  resume(): void;
  /** Ends the exchange with the upstream; the handler is not called any more. */
  abort(): void;
}

/** The payment core of one environment, over HTTP/1.1 on kept-alive connections. */
export class Upstream {
  readonly #pool: Pool;
  readonly #target: UpstreamTarget;
  readonly #servername: string;

  /**
   * @param connectTimeout milliseconds for TCP and TLS together
   * @param connections    most connections at once: as many as requests may be in flight, so that none queues here
   */
  constructor(target: UpstreamTarget, connectTimeout: number, connections: number) {
    const { hostname } = new URL(target.origin);
    // undici takes the TLS server name from the Host header, which here is the client's word. Ours comes from the
    // configuration. An address has none (RFC 6066 §3): the certificate is then checked against the address itself.
    this.#servername = hostname;
    const connect = buildConnector({
      timeout: connectTimeout,
      allowH2: false,
      ...(target.socketPath === undefined ? {} : { socketPath: target.socketPath }),
      ...(target.ca === undefined ? {} : { ca: target.ca }),
      ...(target.cert === undefined ? {} : { cert: target.cert }),
      ...(target.key === undefined ? {} : { key: target.key }),
    });
    const isAddress = isIP(hostname.replace(/^\[|\]$/g, '')) !== 0;
    this.#target = target;
    this.#pool = new Pool(target.origin, {
      connections,
      connect: (options, callback) => {
        if (isAddress) delete options.servername;
        connect(options, callback);
      },
      allowH2: false,
      pipelining: 1,
      // Timeouts of one's own per request cost microseconds each; the gateway sweeps over all requests instead.
      headersTimeout: 0,
      bodyTimeout: 0,
      // Below the 5 s after which a Node upstream closes an idle connection; one that announces more gets more.
      keepAliveTimeout: 4_000,
      keepAliveMaxTimeout: 60_000,
    });
  }

  /** Sends the request; the handler hears of the answer, of a failure, or (after `abort`) of nothing more. */
  send(request: UpstreamRequest, handler: AnswerHandler): UpstreamCall {
    const call = new Call(request, handler, (again) => this.#dispatch(request, again));
    this.#dispatch(request, call);
    return call;
  }

  /** Hands a WebSocket handshake on; see `upgrade`. */
  upgrade(request: UpgradeRequest, handler: UpgradeHandler): () => void {
    return upgrade(this.#target, request, handler);
  }

  /** Ends idle connections at once and busy ones after their answer. */
  async close(): Promise<void> {
    await this.#pool.close();
  }

  #dispatch(request: UpstreamRequest, call: Call): void {
    this.#pool.dispatch(
      {
        origin: this.#target.origin,
        path: request.target,
        method: request.method,
        headers: request.headers,
        body: request.body ?? null,
        servername: this.#servername,
      } as Dispatcher.DispatchOptions,
      call,
    );
  }
}

class Call implements Dispatcher.DispatchHandler, UpstreamCall {
  readonly #request: UpstreamRequest;
  readonly #handler: AnswerHandler;
  readonly #sendAgain: (call: Call) => void;
  #controller: Dispatcher.DispatchController | undefined;
  #done = false;
  #sentAgain = false;

  constructor(request: UpstreamRequest, handler: AnswerHandler, sendAgain: (call: Call) => void) {
    this.#request = request;
    this.#handler = handler;
    this.#sendAgain = sendAgain;
  }

  pause(): void {
    this.#controller?.pause();
  }

  resume(): void {
    this.#controller?.resume();
  }

  abort(): void {
    this.#done = true;
    this.#controller?.abort(new Error('aborted'));
  }

  // undici calls this right before it writes the first byte.
  onRequestStart(controller: Dispatcher.DispatchController): void {
    this.#controller = controller;
    if (this.#done) controller.abort(new Error('aborted'));
  }

  onResponseStart(controller: Dispatcher.DispatchController, status: number): void {
    if (this.#done) return;
    const headers = texts(controller.rawHeaders);
    if (status < 200) this.#handler.onInformation(status, headers);
    else if (status <= 599) this.#handler.onHead(status, headers);
    else this.#fail('upstream_unavailable', 'BAD_STATUS');
  }

  onResponseData(_controller: Dispatcher.DispatchController, chunk: Buffer): void {
    if (!this.#done) this.#handler.onData(chunk);
  }

  onResponseEnd(): void {
    if (this.#done) return;
    this.#done = true;
    this.#handler.onEnd();
  }

  onResponseError(_controller: Dispatcher.DispatchController | undefined, error: Error & { code?: string }): void {
    if (this.#done) return;
    const timedOut = error.code === 'UND_ERR_CONNECT_TIMEOUT';
    // Only what provably never left may be sent again: a payment must not be made twice.
    const neverSent = this.#controller === undefined && !timedOut;
    if (neverSent && !this.#sentAgain && (this.#request.body === undefined || Buffer.isBuffer(this.#request.body))) {
      this.#sentAgain = true;
      this.#sendAgain(this);
      return;
    }
    this.#fail(timedOut ? 'upstream_timeout' : 'upstream_unavailable', error.code ?? error.name);
  }

  #fail(code: UpstreamFailure['code'], cause: string): void {
    this.#done = true;
    this.#controller?.abort(new Error('aborted'));
    this.#handler.onFailure({ code, cause });
  }
}

/** Header bytes as Node hands them out itself: ISO 8859-1 (RFC 9110 §5.5). */
function texts(raw: Dispatcher.DispatchController['rawHeaders']): string[] {
  const headers: string[] = [];
  if (Array.isArray(raw))
    for (const item of raw) headers.push(typeof item === 'string' ? item : item.toString('latin1'));
  return headers;
}

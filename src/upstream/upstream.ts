import { connect as connectPlain, type OnReadOpts, type Socket } from 'node:net';
import type { Readable } from 'node:stream';
import { connect as connectTls } from 'node:tls';
import type { UpstreamTarget } from '../config/config.ts';
import { addressOf, type UpstreamAddress } from './address.ts';
import { Connection, type OutgoingRequest, type RequestEvents } from './connection.ts';
import type { UpstreamFailure } from './failure.ts';
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

/** Receives the response of the upstream. After `onEnd`, `onFailure` or `onError` nothing more is called. */
export interface ResponseHandler {
  /** An informational response (102–199) before the real one. */
  onInformation(status: number, headers: readonly string[]): void;
  /** The response's head: status 200–599, flat list of names and values as sent. */
  onHead(status: number, headers: readonly string[]): void;
  onData(chunk: Buffer): void;
  onEnd(): void;
  onFailure(failure: UpstreamFailure): void;
  /** One of the above has thrown: the call is over. */
  onError(error: unknown): void;
}

/** One request under way. */
export interface UpstreamCall {
  pause(): void;
  resume(): void;
  /** Ends the exchange with the upstream; the handler is not called any more. */
  abort(): void;
}

/** An idle connection is given up before an upstream that says nothing of its own patience closes it: Node's is 5 s. */
const idleTime = 4_000;

/** After this much idleness a closed connection may not have been noticed yet. Milliseconds. */
const doubtfulAfter = 500;

/** The payment core of one environment, over HTTP/1.1 on kept-alive connections, one request at a time on each. */
export class Upstream {
  readonly #address: UpstreamAddress;
  readonly #connectTimeout: number;
  readonly #idle: Connection[] = [];
  /** Where all connections read into: what is read is looked at, and copied if it is to stay, before the next read. */
  readonly #readBuffer = Buffer.allocUnsafeSlow(65_536);
  readonly #sweep: NodeJS.Timeout;
  #closed = false;

  /** @param connectTimeout milliseconds for TCP and TLS together */
  constructor(target: UpstreamTarget, connectTimeout: number) {
    this.#address = addressOf(target);
    this.#connectTimeout = connectTimeout;
    this.#sweep = setInterval(() => this.#closeIdle(performance.now() - idleTime), 1_000).unref();
  }

  /** Sends the request; the handler hears of the response, of a failure, or (after `abort`) of nothing more. */
  send(request: UpstreamRequest, handler: ResponseHandler): UpstreamCall {
    const call = new Call(serialise(request, this.#address.authority), handler);
    this.#send(call);
    return call;
  }

  /** Hands a WebSocket handshake on; see `upgrade`. */
  upgrade(request: UpgradeRequest, handler: UpgradeHandler): () => void {
    return upgrade(this.#address, this.#connectTimeout, request, handler);
  }

  /** Ends idle connections at once and busy ones after their response. */
  close(): void {
    this.#closed = true;
    clearInterval(this.#sweep);
    this.#closeIdle(Infinity);
  }

  #send(call: Call): void {
    const connection = this.#takeIdle();
    if (connection === undefined) {
      this.#connect(call, true);
    } else if (performance.now() - connection.idleSince < doubtfulAfter) {
      call.sendOn(connection);
    } else {
      // The upstream may have closed it just now: one turn of the event loop tells, and nothing has been sent yet.
      setImmediate(() => {
        if (call.over) this.#release(connection);
        else if (connection.socket.destroyed) this.#send(call);
        else call.sendOn(connection);
      });
    }
  }

  #connect(call: Call, mayConnectAgain: boolean): void {
    let timedOut = false;
    let cause = 'ECONNCLOSED';
    let connection: Connection | undefined;
    const socket = open(this.#address, {
      buffer: this.#readBuffer,
      callback: (length, buffer) => {
        connection?.receive(Buffer.from(buffer.buffer, buffer.byteOffset, length));
        return true;
      },
    });
    const timer = setTimeout(() => {
      timedOut = true;
      socket.destroy();
    }, this.#connectTimeout);
    const onFailure = (error: Error & { code?: string }): void => {
      cause = error.code ?? error.name;
    };
    const onClose = (): void => {
      clearTimeout(timer);
      if (call.over) return;
      // Nothing was sent: once more does no harm.
      if (!timedOut && mayConnectAgain) this.#connect(call, false);
      else call.fail(timedOut ? 'upstream_timeout' : 'upstream_unavailable', timedOut ? 'ETIMEDOUT' : cause);
    };
    socket.once('error', onFailure).once('close', onClose);
    socket.once('encrypted' in socket ? 'secureConnect' : 'connect', () => {
      clearTimeout(timer);
      socket.off('error', onFailure).off('close', onClose);
      connection = new Connection(
        socket,
        (idle) => this.#release(idle),
        (over) => this.#forget(over),
      );
      if (call.over) this.#release(connection);
      else call.sendOn(connection);
    });
  }

  #takeIdle(): Connection | undefined {
    let connection = this.#idle.pop();
    while (connection?.socket.destroyed === true) connection = this.#idle.pop();
    return connection;
  }

  #release(connection: Connection): void {
    connection.idleSince = performance.now();
    if (this.#closed) connection.socket.destroy();
    else if (!connection.socket.destroyed) this.#idle.push(connection);
  }

  #forget(connection: Connection): void {
    const index = this.#idle.indexOf(connection);
    if (index !== -1) this.#idle.splice(index, 1);
  }

  /** Closes what has been idle since before `since`. */
  #closeIdle(since: number): void {
    for (const connection of this.#idle) if (connection.idleSince <= since) connection.socket.destroy();
  }
}

/** One request between the gateway and a connection. */
class Call implements UpstreamCall, RequestEvents {
  readonly #request: OutgoingRequest;
  readonly #handler: ResponseHandler;
  #connection: Connection | undefined;
  over = false;

  constructor(request: OutgoingRequest, handler: ResponseHandler) {
    this.#request = request;
    this.#handler = handler;
  }

  sendOn(connection: Connection): void {
    this.#connection = connection;
    connection.send(this.#request, this);
  }

  pause(): void {
    if (!this.over) this.#connection?.socket.pause();
  }

  resume(): void {
    if (!this.over) this.#connection?.socket.resume();
  }

  abort(): void {
    if (this.over) return;
    this.#end();
    this.#connection?.abort();
  }

  fail(code: UpstreamFailure['code'], cause: string): void {
    if (this.over) return;
    this.#end();
    this.#handler.onFailure({ code, cause });
  }

  onInformation(status: number, headers: readonly string[]): void {
    this.#tell(() => this.#handler.onInformation(status, headers));
  }

  onHead(status: number, headers: readonly string[]): void {
    this.#tell(() => this.#handler.onHead(status, headers));
  }

  onBody(chunk: Buffer): void {
    this.#tell(() => this.#handler.onData(chunk));
  }

  onComplete(): void {
    this.#tell(() => {
      this.#end();
      this.#handler.onEnd();
    });
  }

  onBroken(cause: string): void {
    this.fail('upstream_unavailable', cause);
  }

  /** Tells the handler something. What it throws must not end up in the socket's event, where it would end the process. */
  #tell(something: () => void): void {
    if (this.over) return;
    try {
      something();
    } catch (error) {
      this.abort();
      this.#handler.onError(error);
    }
  }

  #end(): void {
    this.over = true;
    const { body } = this.#request;
    if (body !== undefined && !Buffer.isBuffer(body)) body.destroy();
  }
}

/** The request as it goes out. Header names and values have come through Node's parser: there is no line break in them. */
function serialise({ method, target, headers, body }: UpstreamRequest, authority: string): OutgoingRequest {
  let head = `${method} ${target} HTTP/1.1\r\n`;
  let sized = false;
  let hosted = false;
  for (let i = 0; i + 1 < headers.length; i += 2) {
    const name = headers[i] as string;
    if (name === 'Content-Length') sized = true;
    else if (name === 'Host') hosted = true;
    head += `${name}: ${headers[i + 1] as string}\r\n`;
  }
  // HTTP/1.0 may come without one, but what goes out is HTTP/1.1.
  if (!hosted) head += `Host: ${authority}\r\n`;
  const chunked = body !== undefined && !sized;
  head += chunked ? 'Transfer-Encoding: chunked\r\n\r\n' : '\r\n';
  return { method, head, body, chunked };
}

function open(address: UpstreamAddress, onread: OnReadOpts): Socket {
  const { protocol, host, port, servername, socketPath, ca, cert, key } = address;
  if (socketPath !== undefined) return connectPlain({ path: socketPath, onread });
  if (protocol === 'http:') return connectPlain({ host, port, onread });
  // Node takes it here, too, though its types do not say so.
  const reading = { onread };
  return connectTls({
    ...reading,
    host,
    port,
    // The name the certificate must have is the configuration's.
    ...(servername === '' ? {} : { servername }),
    ALPNProtocols: ['http/1.1'],
    minVersion: 'TLSv1.2',
    ...(ca === undefined ? {} : { ca }),
    ...(cert === undefined ? {} : { cert }),
    ...(key === undefined ? {} : { key }),
  });
}

import type { ClientRequest, IncomingMessage } from 'node:http';
import type { LookupFunction, Socket } from 'node:net';
import { createRequire } from 'node:module';
import type { ServerOptions } from 'http-proxy';
import type { ResponseHandler, UpstreamCall } from './call.ts';
import type { UpstreamAddress } from './connect.ts';
import { appended, nothing, type Queue } from '../http1/incoming.ts';
import type { PaceOwner } from '../http1/read-pace.ts';
import { maxHeadSize, ResponseReader } from '../http1/parse/response-reader.ts';
import { paceCoupling } from './pace-coupling.ts';
import { PacedReading } from './paced-reading.ts';

/**
 * Called if the upstream switches to WebSocket, just before the two sockets are coupled.
 *
 * @param headers the headers of the upstream's 101, a flat list as sent
 * @returns the headers for the client, except those of the upgrade itself
 */
export type SwitchHandler = (headers: readonly string[]) => readonly string[];

/** A WebSocket handshake for the upstream. */
export interface UpgradeRequest {
  /** The client's connection. */
  readonly socket: Socket;
  readonly target: string;
  /** Flat list of end-to-end headers, except those of the upgrade itself. */
  readonly headers: readonly string[];
  /** See `UpstreamRequest`. */
  readonly turnOwner?: object;
  /** Calls back when it is this client's turn among clients that send a lot of data. */
  readonly onSuspend: PaceOwner['onSuspend'];
  /** Called when the connections are coupled. @param suspend stops reading the client until its turn comes */
  readonly onCoupled: (suspend: () => void) => void;
}

const require = createRequire(import.meta.url);

const upgradeHeaders = { connection: 'Upgrade', upgrade: 'websocket' };

/**
 * Sends a WebSocket handshake to the upstream with http-proxy and couples the two connections. http-proxy gets only values prepared here,
 * and four of its faults are corrected: it rewrites paths; it writes a response other than 101 to the client with headers that do not fit
 * the response's body; it couples the connections for any protocol; and it leaves one side open when the other disappears.
 *
 * @param connectTimeout  milliseconds for TCP and TLS together
 * @param responseHandler gets a response other than 101, or a failure
 */
export function upgrade(
  address: UpstreamAddress,
  connectTimeout: number,
  { socket, target: path, headers, onSuspend, reading, onCoupled }: UpgradeRequest & { readonly reading: Queue },
  responseHandler: ResponseHandler,
  onSwitch: SwitchHandler,
): UpstreamCall {
  const call = new UpgradeCall(responseHandler, onSwitch, reading);
  const { lookup, withdraw } = address.lookups.forOne();
  // http-proxy is loaded at the first handshake, because it loads TLS and an HTTP client of its own.
  const httpProxy = require('http-proxy') as typeof import('http-proxy');
  const proxy = httpProxy.createProxyServer();
  proxy.on('proxyReqWs', (proxyRequest) => {
    // http-proxy rewrites paths, but the upstream must get the path that was checked.
    proxyRequest.path = path;
    proxyRequest.once('close', withdraw);
    call.outgoing = proxyRequest;
  });
  // Emitted when http-proxy has piped the connections to each other.
  proxy.on('open', (upstreamSocket) => onCoupled(paceCoupling(socket, upstreamSocket, onSuspend, reading)));
  // http-proxy reads only these members of a request.
  const req = { method: 'GET', url: path, headers: { ...grouped(headers), ...upgradeHeaders }, socket };
  proxy.ws(req as IncomingMessage, socket, undefined, proxyOptions(address, lookup), (error) => call.fail(error));
  call.takeOver(socket, connectTimeout);
  return call;
}

/** A handshake in progress. It is over after a switch, the end of a response, a failure or an abort. */
class UpgradeCall implements UpstreamCall {
  readonly #handler: ResponseHandler;
  readonly #onSwitch: SwitchHandler;
  readonly #reader = new ResponseReader();
  #closed = false;
  /** The request that http-proxy sends to the upstream. */
  outgoing: ClientRequest | undefined;
  readonly #queue: Queue;
  /** Undefined until there is a socket. */
  #reading: PacedReading | undefined;
  /** Passes the response so far to Node's client, which also gets all later bytes. */
  #handOver: ((response: Buffer) => void) | undefined;
  /** The response so far; undefined once its head is complete and is not that of a switch. */
  #head: Buffer | undefined = nothing;
  #hasSwitched = false;

  constructor(handler: ResponseHandler, onSwitch: SwitchHandler, queue: Queue) {
    this.#handler = handler;
    this.#onSwitch = onSwitch;
    this.#queue = queue;
  }

  /** Follows the request that http-proxy has begun. @param client the client's connection, which is to be coupled */
  takeOver(client: Socket, connectTimeout: number): void {
    const { outgoing } = this;
    outgoing?.once('socket', (upstreamSocket: Socket) => {
      const timer = setTimeout(() => this.fail({ code: 'ETIMEDOUT' }), connectTimeout);
      const stop = (): void => clearTimeout(timer);
      upstreamSocket.once('encrypted' in upstreamSocket ? 'secureConnect' : 'connect', stop).once('close', stop);
      this.#readInsteadOfNode(upstreamSocket);
      upstreamSocket.once('close', () => this.fail({ code: 'ECONNCLOSED' }));
    });
    // http-proxy would write a response to the client.
    outgoing?.removeAllListeners('response');
    // http-proxy may couple the connections only if the strict parser accepts the switch.
    const couplings = outgoing?.listeners('upgrade') ?? [];
    outgoing?.removeAllListeners('upgrade');
    this.#reader.begin('GET', {
      onInformation: () => {},
      onHead: (status, headers) => {
        this.#head = undefined;
        this.#handler.onHead(status, headers);
      },
      onData: (chunk) => this.#handler.onData(chunk),
      acceptsSwitch: (headers) => {
        if (!isWebSocketSwitch(headers)) return false;
        const passed = this.#onSwitch(headers);
        this.#closed = this.#hasSwitched = true;
        let isCoupled = false;
        outgoing?.once('upgrade', (response: IncomingMessage, upstreamSocket: Socket) => {
          isCoupled = true;
          client.once('close', () => upstreamSocket.destroy());
          upstreamSocket.once('close', () => client.destroySoon());
          // http-proxy writes these headers to the client.
          response.headers = { ...grouped(passed), ...upgradeHeaders };
        });
        // Node's parser may still refuse the response. In that case nothing else would close the client's connection.
        outgoing?.once('close', () => {
          if (!isCoupled) client.destroy();
        });
        for (const couple of couplings) outgoing?.once('upgrade', couple as () => void);
        return true;
      },
    });
  }

  /** Lets the strict parser read the response. Node's client gets the bytes only if the upstream switches protocols. */
  #readInsteadOfNode(socket: Socket): void {
    const listeners = socket.listeners('data') as ((bytes: Buffer) => void)[];
    const reading = new PacedReading(
      socket,
      (bytes) => this.#run(() => this.#process(bytes)),
      () => this.#queue,
    );
    const receive = (bytes: Buffer): void => reading.receive(bytes);
    socket.removeAllListeners('data').on('data', receive);
    this.#reading = reading;
    this.#handOver = (bytes) => {
      socket.off('data', receive);
      for (const listener of listeners) socket.on('data', listener);
      socket.emit('data', bytes);
    };
  }

  #process(bytes: Buffer): void {
    if (this.#closed) return;
    if (this.#head !== undefined) this.#head = appended(this.#head, bytes);
    const outcome = this.#reader.push(bytes);
    if (this.#hasSwitched && this.#head !== undefined) this.#handOver?.(this.#head);
    if (this.#closed) return;
    if (outcome === 'more') {
      this.#reading?.count(bytes.length, this.#reader.lines);
    } else if (outcome === 'end') {
      this.abort();
      this.#handler.onEnd();
    } else {
      this.fail({ code: outcome });
    }
  }

  fail({ code, name = 'Error' }: { readonly code?: string; readonly name?: string }): void {
    // The bytes that have arrived may complete the response.
    if (!this.#closed) this.#reading?.end();
    if (this.#closed) return;
    this.abort();
    const failure = code === 'ETIMEDOUT' ? 'upstream_timeout' : 'upstream_unavailable';
    this.#run(() => this.#handler.onFailure({ code: failure, cause: code ?? name }));
  }

  pause(): void {
    this.#reading?.pause();
  }

  resume(): void {
    this.#reading?.resume();
  }

  abort(): void {
    this.#closed = true;
    this.#reading?.stop();
    this.#reader.stop();
    this.outgoing?.destroy();
  }

  /** Catches errors, because an error thrown in the handler of a socket's event would end the process. */
  #run(handle: () => void): void {
    try {
      handle();
    } catch (error) {
      this.abort();
      this.#handler.onError(error);
    }
  }
}

/** Whether a 101 switches to WebSocket (RFC 6455 §4.1). @param headers flat list */
function isWebSocketSwitch(headers: readonly string[]): boolean {
  const { upgrade: protocol, connection } = grouped(headers);
  return /^websocket$/i.test(String(protocol)) && /(?:^|,)[\t ]*upgrade[\t ]*(?:,|$)/i.test(String(connection));
}

/** The upstream in the form that http-proxy expects. */
function proxyOptions(address: UpstreamAddress, lookup: LookupFunction): ServerOptions {
  const { protocol, host, port, tls, socketPath } = address;
  const { Agent } = require(tls === undefined ? 'node:http' : 'node:https') as typeof import('node:https');
  return {
    // An agent is the only way to pass a `lookup` function. This agent is used for this connection only.
    agent: new Agent({ lookup }),
    target: { protocol, hostname: host, port: String(port), socketPath },
    // The strict parser limits the size of heads. Node's client must not be stricter, so its own limit of 16 KiB is raised.
    ssl: { ...tls?.options(), maxHeaderSize: 2 * maxHeadSize },
  };
}

/** Headers in the form that Node expects: the values of headers with the same name form a list. */
function grouped(headers: readonly string[]): Record<string, string | string[]> {
  const groups = new Map<string, string[]>();
  for (let i = 0; i + 1 < headers.length; i += 2) {
    const name = (headers[i] as string).toLowerCase();
    const value = headers[i + 1] as string;
    const values = groups.get(name);
    if (values === undefined) groups.set(name, [value]);
    else values.push(value);
  }
  return Object.fromEntries(
    [...groups].map(([name, [first = '', ...more]]) => [name, more.length === 0 ? first : [first, ...more]]),
  );
}

import type { ClientRequest, IncomingMessage } from 'node:http';
import type { Socket } from 'node:net';
import { createRequire } from 'node:module';
import type { ServerOptions } from 'http-proxy';
import type { ResponseHandler, UpstreamCall } from './call.ts';
import type { UpstreamAddress } from './connect.ts';
import { maxHeadSize } from './response-parser.ts';

/**
 * Called if the upstream switches protocols; from now on the two sockets are coupled.
 *
 * @param headers of its 101, a flat list as sent
 * @returns the headers for the client, without those of the upgrade itself
 */
export type SwitchHandler = (headers: readonly string[]) => readonly string[];

/** A WebSocket handshake for the upstream. */
export interface UpgradeRequest {
  readonly req: IncomingMessage;
  /** The bytes that the client has already sent after the head. */
  readonly firstBytes: Buffer;
  readonly target: string;
  /** Flat list of end-to-end headers, without those of the upgrade itself. */
  readonly headers: readonly string[];
}

const require = createRequire(import.meta.url);

const upgradeHeaders = { connection: 'Upgrade', upgrade: 'websocket' };

/**
 * Sends a WebSocket handshake to the upstream with http-proxy and couples the two connections. http-proxy gets only values
 * prepared here, and three of its faults are corrected: it rewrites paths, it writes a response other than 101 to the client
 * with headers that do not fit its body, and it leaves one side open when the other disappears.
 *
 * @param connectTimeout  milliseconds for TCP and TLS together
 * @param responseHandler for a response other than 101, or a failure
 */
export function upgrade(
  address: UpstreamAddress,
  connectTimeout: number,
  { req, firstBytes, target: path, headers }: UpgradeRequest,
  responseHandler: ResponseHandler,
  onSwitch: SwitchHandler,
): UpstreamCall {
  const call = new UpgradeCall(responseHandler, onSwitch);
  // Loaded at the first handshake: it loads TLS and a client of its own.
  const httpProxy = require('http-proxy') as typeof import('http-proxy');
  const proxy = httpProxy.createProxyServer();
  proxy.on('proxyReqWs', (proxyRequest) => {
    // http-proxy rewrites paths: the upstream gets the path that was checked.
    proxyRequest.path = path;
    limitConnect(proxyRequest, connectTimeout);
    limitInformation(proxyRequest);
    call.follow(proxyRequest, req.socket);
  });
  req.headers = { ...grouped(headers), ...upgradeHeaders };
  proxy.ws(req, req.socket, firstBytes, targetOf(address), (error) => call.fail(error));
  call.takeResponse();
  return call;
}

/** A handshake in progress. The first of a switch, a response, a failure and an abort settles it. */
class UpgradeCall implements UpstreamCall {
  readonly #handler: ResponseHandler;
  readonly #onSwitch: SwitchHandler;
  #settled = false;
  #outgoing: ClientRequest | undefined;
  /** A response other than 101, once its head has arrived. */
  #response: IncomingMessage | undefined;

  constructor(handler: ResponseHandler, onSwitch: SwitchHandler) {
    this.#handler = handler;
    this.#onSwitch = onSwitch;
  }

  /** Called before http-proxy adds its own listeners. */
  follow(proxyRequest: ClientRequest, client: Socket): void {
    this.#outgoing = proxyRequest;
    // http-proxy ignores a response that it takes for an upgrade; Node must not take it for one, or it would couple the client
    // to an upstream that has refused it. This listener runs before http-proxy's, that of `takeResponse` after it.
    proxyRequest.once('response', (response: MaybeUpgrade) => (response.upgrade = true));
    proxyRequest.once('upgrade', (response: IncomingMessage, upstreamSocket: Socket) => {
      client.once('close', () => upstreamSocket.destroy());
      upstreamSocket.once('close', () => client.destroySoon());
      // http-proxy writes these to the client.
      const passed = this.#settle() ? this.#onSwitch(response.rawHeaders) : [];
      response.headers = { ...grouped(passed), ...upgradeHeaders };
    });
  }

  /** Called after http-proxy has added its own listeners. */
  takeResponse(): void {
    this.#outgoing?.once('response', (response: MaybeUpgrade) => {
      response.upgrade = false;
      if (this.#settle()) this.#pass(response);
    });
  }

  fail({ code, name }: Error & { code?: string }): void {
    const failure = code === 'ETIMEDOUT' ? 'upstream_timeout' : 'upstream_unavailable';
    if (this.#settle()) this.#run(() => this.#handler.onFailure({ code: failure, cause: code ?? name }));
  }

  pause(): void {
    this.#response?.pause();
  }

  resume(): void {
    this.#response?.resume();
  }

  abort(): void {
    this.#settled = true;
    (this.#response ?? this.#outgoing)?.destroy();
  }

  #pass(response: IncomingMessage): void {
    const handler = this.#handler;
    const status = response.statusCode ?? 0;
    if (status < 200 || status > 599) {
      this.#outgoing?.destroy();
      this.#run(() => handler.onFailure({ code: 'upstream_unavailable', cause: 'BAD_STATUS' }));
      return;
    }
    this.#response = response;
    this.#run(() => handler.onHead(status, response.rawHeaders));
    response
      .on('data', (chunk: Buffer) => this.#run(() => handler.onData(chunk)))
      .on('end', () => this.#run(() => handler.onEnd()))
      .on('error', () => this.#run(() => handler.onFailure({ code: 'upstream_unavailable', cause: 'ECONNRESET' })));
  }

  /** An error thrown in an event of a socket would end the process. */
  #run(handle: () => void): void {
    try {
      handle();
    } catch (error) {
      this.abort();
      this.#handler.onError(error);
    }
  }

  /** @returns false if it was settled before */
  #settle(): boolean {
    const first = !this.#settled;
    this.#settled = true;
    return first;
  }
}

/** The upstream as http-proxy takes it. */
function targetOf({ protocol, host, port, servername, socketPath, ca, cert, key }: UpstreamAddress): ServerOptions {
  return {
    target: { protocol, hostname: host, port: String(port), socketPath, ca, cert, key },
    // The TLS server name comes from the configuration, not from the client's Host.
    ssl: { servername },
  };
}

/** A response with Node's mark of a switch to another protocol. */
type MaybeUpgrade = IncomingMessage & { upgrade?: boolean };

function limitConnect(proxyRequest: ClientRequest, milliseconds: number): void {
  proxyRequest.once('socket', (socket: Socket) => {
    const timedOut = Object.assign(new Error('the upstream cannot be connected'), { code: 'ETIMEDOUT' });
    const timer = setTimeout(() => proxyRequest.destroy(timedOut), milliseconds);
    const stop = (): void => clearTimeout(timer);
    socket.once('encrypted' in socket ? 'secureConnect' : 'connect', stop).once('close', stop);
  });
}

/** Ends a handshake whose informational responses take more bytes than the heads of any other response may. */
function limitInformation(proxyRequest: ClientRequest): void {
  let size = 0;
  proxyRequest.on('information', ({ statusMessage, rawHeaders }) => {
    // `HTTP/1.1 103 message`, then `name: value` lines, then an empty one.
    size += 'HTTP/1.1 103 '.length + statusMessage.length + 2 + 2;
    for (const part of rawHeaders) size += part.length + 2;
    if (size > maxHeadSize) {
      proxyRequest.destroy(Object.assign(new Error('endless informational responses'), { code: 'HEAD_TOO_LARGE' }));
    }
  });
}

/** Headers as Node takes them: several of one name as a list. */
function grouped(headers: readonly string[]): Record<string, string | string[]> {
  const groups = new Map<string, string | string[]>();
  for (let i = 0; i + 1 < headers.length; i += 2) {
    const name = (headers[i] as string).toLowerCase();
    const value = headers[i + 1] as string;
    const before = groups.get(name);
    groups.set(name, before === undefined ? value : [before, value].flat());
  }
  return Object.fromEntries(groups);
}

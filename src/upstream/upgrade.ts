import type { ClientRequest, IncomingMessage } from 'node:http';
import type { Socket } from 'node:net';
import httpProxy from 'http-proxy';
import type { UpstreamTarget } from '../config/config.ts';

/** Receives what becomes of an upgrade. Exactly one of the three is called. */
export interface UpgradeHandler {
  /** The upstream switches protocols; from now on both sockets belong to each other. */
  onSwitch(): void;
  /** The upstream answers instead. Flat list of headers; the body is read from `answer`. */
  onAnswer(status: number, headers: readonly string[], answer: IncomingMessage): void;
  /** @param cause the error's own code, for the log */
  onFailure(cause: string): void;
}

/** A WebSocket handshake to be sent to the upstream. */
export interface UpgradeRequest {
  readonly req: IncomingMessage;
  readonly socket: Socket;
  /** What the client has sent behind the head already. */
  readonly firstBytes: Buffer;
  readonly target: string;
  /** Flat list of end-to-end headers, without those of the upgrade itself. */
  readonly headers: readonly string[];
  readonly requestId: string;
}

/**
 * Hands a WebSocket handshake to the upstream with http-proxy and couples the two connections. http-proxy is given only
 * what is prepared here, and three of its habits are corrected: it rewrites paths, it writes an answer other than 101
 * to the client with headers that do not fit its body, and it leaves one side open when the other vanishes.
 *
 * @returns how to give up before the upstream has answered
 */
export function upgrade(
  target: UpstreamTarget,
  { req, socket, firstBytes, target: path, headers, requestId }: UpgradeRequest,
  handler: UpgradeHandler,
): () => void {
  const { protocol, hostname, port } = new URL(target.origin);
  const proxy = httpProxy.createProxyServer();
  let settled = false;
  let outgoing: ClientRequest | undefined;
  const settle = (): boolean => {
    const first = !settled;
    settled = true;
    return first;
  };

  proxy.on('proxyReqWs', (proxyRequest) => {
    outgoing = proxyRequest;
    // What was checked is what is sent, whatever http-proxy made of it on the way.
    proxyRequest.path = path;
    proxyRequest.once('response', (answer: IncomingMessage & { upgrade?: boolean }) => {
      // http-proxy leaves an answer alone that it takes for an upgrade.
      answer.upgrade = true;
      if (settle()) handler.onAnswer(answer.statusCode ?? 502, answer.rawHeaders, answer);
    });
    proxyRequest.once('upgrade', (answer: IncomingMessage, upstreamSocket: Socket) => {
      answer.headers['x-request-id'] = requestId;
      socket.once('close', () => upstreamSocket.destroy());
      upstreamSocket.once('close', () => socket.destroySoon());
      if (settle()) handler.onSwitch();
    });
  });

  req.headers = { ...grouped(headers), connection: 'Upgrade', upgrade: 'websocket' };
  proxy.ws(
    req,
    socket,
    firstBytes,
    {
      target: {
        protocol,
        hostname: hostname.replace(/^\[|\]$/g, ''),
        port,
        ...(target.socketPath === undefined ? {} : { socketPath: target.socketPath }),
        ...(target.ca === undefined ? {} : { ca: target.ca }),
        ...(target.cert === undefined ? {} : { cert: target.cert }),
        ...(target.key === undefined ? {} : { key: target.key }),
      },
      // The TLS server name is the configuration's, not what the client wrote into Host.
      ssl: { servername: hostname },
    },
    (error: Error & { code?: string }) => {
      if (settle()) handler.onFailure(error.code ?? error.name);
    },
  );
  return () => {
    settled = true;
    outgoing?.destroy();
  };
}

/** Headers as Node takes them: several of one name as a list. */
function grouped(headers: readonly string[]): Record<string, string | string[]> {
  const groups: Record<string, string | string[]> = {};
  for (let i = 0; i + 1 < headers.length; i += 2) {
    const name = (headers[i] as string).toLowerCase();
    const value = headers[i + 1] as string;
    const before = groups[name];
    groups[name] = before === undefined ? value : [before, value].flat();
  }
  return groups;
}

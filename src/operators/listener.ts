import { randomUUID } from 'node:crypto';
import { parse as parseQuery } from 'node:querystring';
import type { IncomingMessage, Server } from 'node:http';
import { Server as NetServer } from 'node:net';
import type { Readable } from 'node:stream';
import type { TlsOptions } from 'node:tls';
import { fastify, type FastifyInstance, type FastifyReply, type FastifyRequest } from 'fastify';
import type { OperatorsToken } from '../config/config.ts';
import { ConnectionLimit } from '../connection-limit.ts';
import { limitParser } from '../parser-limits.ts';
import type { Logger } from '../telemetry/logger.ts';
import type { OperatorRefusal, OperatorsMetrics } from '../telemetry/sidecar-metrics.ts';
import { onHandshakeFailures, type OnHandshakeFailure } from '../tls.ts';
import { AccessEvents } from './access-events.ts';
import { Console, isOfConsole } from './console.ts';
import type { Parts } from './endpoint.ts';
import { apiRoot, endpoints } from './endpoints.ts';
import { openApi } from './openapi.ts';
import { isKnownHost } from './origin.ts';
import { bodyLimit, toProblem } from './to-problem.ts';
import { ApiProblem, problemBody, problems, findProblemsPage, type ProblemCode } from './problems.ts';
import { ReadTurns } from './read-turns.ts';
import { Routes } from './routes.ts';
import { findToken, ownerOf } from './tokens.ts';
import { OwnerQueues } from './owner-queues.ts';
import { createServer, limits } from './server.ts';
import { UnparsedRequests } from './unparsed.ts';
import { waitUntil } from '../promises.ts';
import type { EpochMs } from '../times.ts';

/** The status that the log and the metrics show for a request whose client has left. */
const clientLeft = 499;

/** Maximum number of query parameters that are read. */
const maxParameters = 100;
/**
 * Maximum number of connections. At the limit, each new connection evicts the oldest one that has not presented a valid token or that
 * exceeds its owner's share.
 */
const maxConnections = 100;
/** How long an idle connection is kept, in milliseconds. No operation takes this long. */
const idleTimeout = 60_000;

/** The configuration of the API. It may change between two requests. */
export interface OperatorsState extends Parts {
  readonly tokens: readonly OperatorsToken[];
  /** The hosts that the listener serves in addition to IP addresses and `localhost`. */
  readonly hosts: readonly string[];
  /** Whether the console is served. */
  readonly console: boolean;
  /** The address of docs/errors.md. */
  readonly documentation: string | undefined;
}

export interface OperatorsDependencies {
  /** Called for each request. */
  readonly state: () => OperatorsState;
  readonly log: Logger;
  readonly metrics: OperatorsMetrics;
  readonly clock: () => EpochMs;
  /** Undefined if the listener does not use TLS. */
  readonly tls: TlsOptions | undefined;
  /** Called for each TLS handshake that fails because of the client. */
  readonly onHandshakeFailure: OnHandshakeFailure;
}

declare module 'fastify' {
  interface FastifyContextConfig {
    /** The name of a route, for the log and the metrics. */
    readonly operation?: string;
  }
  /** Facts about a request for its log line. */
  interface FastifyRequest {
    token: OperatorsToken | undefined;
    account: string | undefined;
    code: ProblemCode | undefined;
  }
}

/** The operators' API. */
export interface OperatorsApi {
  /** Not listening yet. */
  readonly listener: Server;
  /** Called after each configuration change. */
  readonly configure: () => void;
  /** Records in the audit trail that a new version of the sidecar's file has taken effect. @param hash the hash of its contents */
  readonly configurationChanged: (hash: string) => void;
  /** Waits a few seconds for requests in progress, closes all connections, and adds the missing events to the audit trail. */
  readonly close: () => Promise<void>;
}

/** Milliseconds that a closing listener waits for requests in progress, because a new key is shown only in the response. */
const closingPatience = 5_000;

/** Creates the listener of the operators' API. */
export async function createOperatorsListener(dependencies: OperatorsDependencies): Promise<OperatorsApi> {
  const { state, log, metrics, clock, tls, onHandshakeFailure } = dependencies;
  const page = (): string | undefined => findProblemsPage(state().documentation);
  const unparsed = new UnparsedRequests(page, ({ code }, requestId, address) => {
    const { status } = problems[code];
    metrics.request('none', status);
    log.info({ request_id: requestId, address, operation: 'none', status, code }, 'operator request');
  });
  const access = new AccessEvents(() => state().operations, log);
  const ended = (request: FastifyRequest, status: number, elapsed: number): void => {
    const { operation = 'none' } = request.routeOptions.config;
    metrics.request(operation, status);
    const { id, ip: address, token, account, code } = request;
    const refusal = classifyRefusal(request, operation);
    if (refusal !== undefined) metrics.refused(refusal);
    if (code === 'unauthorized') access.refused({ origin: address, requestId: id });
    const line = { request_id: id, address, operation, status, token: token?.name, account, code };
    const level = code === 'unauthorized' ? 'warn' : 'info';
    log[level]({ ...line, duration_ms: Math.round(elapsed * 1_000) / 1_000 }, 'operator request');
  };
  const fail = (request: FastifyRequest, reply: FastifyReply, error: unknown): FastifyReply => {
    // If the error comes from the request's own stream, the client has left.
    if (error !== null && error === request.raw.errored) {
      ended(request, clientLeft, reply.elapsedTime);
      return reply.hijack();
    }
    const problem = toProblem(error, request.token);
    if (problem.code === 'internal_error') log.error({ err: error, request_id: request.id }, 'operation failed');
    request.code = problem.code;
    if (!reply.raw.destroyed) return sendProblem(reply, problem, page());
    ended(request, clientLeft, reply.elapsedTime);
    return reply.hijack();
  };

  const authenticate = (req: IncomingMessage): OperatorsToken | undefined => {
    const [authorization, another] = req.headersDistinct['authorization'] ?? [];
    if (another !== undefined) return undefined;
    return authorization === undefined ? console.findToken(req) : findToken(authorization, state().tokens);
  };
  const app = fastify({
    serverFactory: (handle) => createServer(handle, authenticate, { ...dependencies, unparsed }),
    clientErrorHandler: (error, socket) => unparsed.refuse(error, socket),
    bodyLimit,
    // The router must not limit the length of parameters, because each endpoint validates its own parameters.
    routerOptions: {
      maxParamLength: limits.maxHeaderSize,
      // The query is parsed before the token is known, so the number of its parameters is limited. No valid query has that many.
      querystringParser: (query) => parseQuery(query, '&', '=', { maxKeys: maxParameters }),
    },
    exposeHeadRoutes: false,
    genReqId: ({ headers }) => chooseRequestId(headers['x-request-id']),
    // Called if the router cannot decode the path.
    frameworkErrors: (_error, request, reply) => void fail(request, reply, noEndpoint()),
  });
  const connections = new ConnectionLimit(app.server, maxConnections);
  const readTurns = new ReadTurns(app.server);
  if (tls !== undefined) onHandshakeFailures(app.server, onHandshakeFailure, clock);
  app.setErrorHandler((error, request, reply) => fail(request, reply, error));
  app.setNotFoundHandler((request, reply) => fail(request, reply, noEndpoint()));
  // Remove Fastify's own parser for text/plain, because browsers allow pages of other sites to send text/plain.
  app.removeAllContentTypeParsers();
  // The JSON is parsed later, when it is the request's turn.
  app.addContentTypeParser('application/json', { parseAs: 'string' }, async (_request: unknown, text: string) => text);
  for (const fact of ['token', 'account', 'code']) app.decorateRequest(fact, undefined);
  const turns = new OwnerQueues();
  const console = new Console({ state, log, clock, secure: tls !== undefined, access });
  app.addHook('onRequest', async (request, reply) => {
    void reply.headers(commonHeaders(request));
    if (!isKnownHost(request.raw.headersDistinct['host'], state().hosts)) {
      throw new ApiProblem('unknown_host', 'Use an IP address, localhost or a name that operators.hosts lists.');
    }
    const token = authenticate(request.raw);
    if (token === undefined && !isOfConsole(request.routeOptions.url))
      throw new ApiProblem('unauthorized', 'Send a token as "Authorization: Bearer <token>".');
    request.token = token;
    if (token === undefined) return;
    connections.keep(request.raw.socket, ownerOf(token));
    readTurns.identify(request.raw.socket, token);
  });
  const complete = completeWhenClosing(app);
  app.addHook('onResponse', async (request, reply) => ended(request, reply.statusCode, reply.elapsedTime));

  const routes = new Routes(state, authenticate, clock, turns);
  for (const endpoint of endpoints.filter(({ rawBody }) => !rawBody)) app.route(routes.of(endpoint));
  await app.register(async (raw) => {
    raw.removeAllContentTypeParsers();
    raw.addContentTypeParser('*', async (_request: unknown, body: Readable) => body);
    for (const endpoint of endpoints.filter(({ rawBody }) => rawBody)) raw.route(routes.of(endpoint));
  });
  let description: string | undefined;
  app.get(`${apiRoot}/openapi.json`, { config: { operation: 'describe_api' } }, async (_request, reply) => {
    // The description is built only once, because building it takes milliseconds.
    description ??= JSON.stringify(openApi());
    return reply.type('application/json; charset=utf-8').send(description);
  });
  await console.serve(app);
  await app.ready();
  limitParser(app.server);
  app.server.setTimeout(idleTimeout);
  return {
    listener: app.server,
    configure: () => console.configure(),
    configurationChanged: (hash) => access.configurationChanged(hash),
    async close() {
      await complete();
      await access.flush();
    },
  };
}

/**
 * Tracks requests with a valid token. Returns a function that closes the listener and, once the requests in progress have been answered,
 * closes all connections.
 */
function completeWhenClosing(app: FastifyInstance): () => Promise<void> {
  const inProgress = new Set<FastifyRequest>();
  let isClosing = false;
  app.addHook('onRequest', async (request, reply) => {
    if (request.token === undefined) return;
    inProgress.add(request);
    reply.raw.once('close', () => inProgress.delete(request));
  });
  app.addHook('onSend', async (_request, reply) => {
    if (isClosing) void reply.header('Connection', 'close');
  });
  return async () => {
    isClosing = true;
    // Node's own `close` for HTTP would cut off responses that clients have not read yet.
    NetServer.prototype.close.call(app.server);
    await waitUntil(() => inProgress.size === 0, closingPatience);
    app.server.close();
    app.server.closeAllConnections();
  };
}

/** Why a request was refused, if its token or its host was the reason. */
function classifyRefusal({ code, headers }: FastifyRequest, operation: string): OperatorRefusal | undefined {
  if (code === 'forbidden' || code === 'unknown_host') return code;
  if (code !== 'unauthorized') return undefined;
  return headers.authorization !== undefined || operation === 'sign_in' ? 'unknown_token' : 'no_token';
}

function noEndpoint(): ApiProblem {
  return new ApiProblem('not_found', 'No endpoint has this path and method.');
}

function commonHeaders({ id }: FastifyRequest): Readonly<Record<string, string>> {
  return {
    'X-Request-Id': id,
    'Cache-Control': 'no-store',
    'X-Content-Type-Options': 'nosniff',
    'Cross-Origin-Resource-Policy': 'same-origin',
  };
}

function sendProblem(reply: FastifyReply, problem: ApiProblem, page: string | undefined): FastifyReply {
  const { status, retryAfter } = problems[problem.code];
  if (status === 401) void reply.header('WWW-Authenticate', 'Bearer');
  if (retryAfter !== undefined) void reply.header('Retry-After', retryAfter);
  return reply
    .code(status)
    .headers(commonHeaders(reply.request))
    .header('Content-Type', 'application/problem+json')
    .send(Buffer.from(JSON.stringify(problemBody(problem, page, reply.request.id))));
}

/** Keeps the client's own request id if it is safe to log; otherwise creates a new one. */
function chooseRequestId(sent: unknown): string {
  return typeof sent === 'string' && /^[A-Za-z0-9._-]{1,128}$/.test(sent) ? sent : randomUUID();
}

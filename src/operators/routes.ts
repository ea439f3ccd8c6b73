import type { IncomingMessage } from 'node:http';
import type { Readable } from 'node:stream';
import type { FastifyReply, FastifyRequest, RouteOptions } from 'fastify';
import type { OperatorsToken } from '../config/config.ts';
import { ByteBudget } from './byte-budget.ts';
import { whenLeft } from './client-left.ts';
import type { Caller, Endpoint, Parts, RawRequest } from './endpoint.ts';
import { apiRoot } from './endpoints.ts';
import { SealedBody } from './endpoints/seal.ts';
import { readBody, readIdempotencyKey, readInput } from './input.ts';
import { ApiProblem } from './problems.ts';
import { checkPermission, isOneOfMany, ownerOf } from './tokens.ts';
import type { OwnerQueues } from './owner-queues.ts';
import type { EpochMs } from '../times.ts';

/**
 * Maximum number of bytes in long responses that clients have not read yet. One token, or all tokens of one account together, may hold half
 * of that, which is more than two pages.
 */
const maxUnread = 8 * 1_048_576;
/** Responses up to this length do not count as long, so changes are answered even while many long responses are unread. */
const maxShort = 65_536;

/**
 * How long an urgent request waits, in milliseconds, if an earlier urgent request of the same owner is waiting for a locked account. An
 * urgent request is given up after a few seconds, so only a few are tried at once, and connections are left for other requests. For a token
 * of one account, an urgent request waits until the earlier one is over, because both concern the same account.
 */
const urgentAfter = 1_000;

/** The path or query parameters that permissions depend on. */
interface Named {
  readonly account?: string;
  readonly environment?: string;
}

/** Finds the token of a request or of its session; undefined if no token is accepted now. */
type FindToken = (request: IncomingMessage) => OperatorsToken | undefined;

/** The endpoints as routes of the listener. */
export class Routes {
  readonly #state: () => Parts;
  readonly #findToken: FindToken;
  readonly #clock: () => EpochMs;
  readonly #queues: OwnerQueues;
  readonly #unread = new ByteBudget(() => maxUnread);

  /**
   * @param state called when a request is carried out
   * @param findToken called when a request is carried out, and again before its change is written
   */
  constructor(state: () => Parts, findToken: FindToken, clock: () => EpochMs, queues: OwnerQueues) {
    this.#state = state;
    this.#findToken = findToken;
    this.#clock = clock;
    this.#queues = queues;
  }

  of(endpoint: Endpoint): RouteOptions {
    return {
      method: endpoint.method,
      url: apiRoot + endpoint.path.replaceAll(/\{(\w+)\}/g, ':$1'),
      config: { operation: endpoint.operation },
      // Permissions are checked before the body is read.
      onRequest: async (request) => permit(endpoint, request),
      handler: async (request, reply) => {
        const begun = signedIn(request);
        const { hash } = begun;
        const owner = ownerOf(begun);
        const ofAccount = begun.account !== undefined;
        const queue = queueFor(endpoint, owner, ofAccount);
        const left = whenLeft(reply.raw);
        const maxWait = endpoint.urgent && !ofAccount ? urgentAfter : undefined;
        const changes = endpoint.role !== 'viewer' && endpoint.rawBody === undefined;
        // By the time the body has arrived and the request has its turn, the token may have been removed or given another role, or its
        // session may have ended.
        const check = (): Parts => {
          const token = this.#findToken(request.raw);
          if (token?.hash !== hash) throw new ApiProblem('unauthorized', 'This token is no longer accepted.');
          request.token = token;
          permit(endpoint, request);
          return this.#state();
        };
        // All work that takes longer for a larger request or result is done during the request's turn.
        const work = async (): Promise<readonly [Parts, object | string]> => {
          const state = check();
          const result = await carryOut(endpoint, request, state, check, { now: this.#clock(), left });
          if (!changes) check();
          return [state, changes || result instanceof SealedBody ? result : this.#text(result, reply, owner)];
        };
        const [state, result] = await (queue === undefined
          ? work()
          : this.#queues.run(
              { queue, token: hash, isOneOfMany: isOneOfMany(begun), lane: laneFor(endpoint, begun) },
              left,
              work,
              maxWait,
            ));
        void reply.code(endpoint.response.status);
        if (result instanceof SealedBody) {
          void reply.headers({ 'Content-Type': 'application/json', 'Envelope-Credentials': result.fingerprint });
          return result.envelope;
        }
        if (typeof result === 'string') return result;
        // The response to a change is formatted after the turn, because `isServed` waits. The result of a change is short.
        const inForce = await state.isServed(request.account ?? '', { urgent: endpoint.urgent, ofAccount });
        if (endpoint.makesSecret) check();
        return this.#text({ ...result, in_force: inForce }, reply, owner);
      },
    };
  }

  /**
   * Formats a response as JSON. The bytes of a long response are charged to the owner until the client has read it.
   *
   * @throws ApiProblem `overloaded`
   */
  #text(result: object, reply: FastifyReply, owner: string): string {
    const text = JSON.stringify(result);
    const bytes = Buffer.byteLength(text);
    if (bytes > maxShort && !reply.raw.destroyed) {
      if (!this.#unread.hold(bytes, owner))
        throw new ApiProblem('overloaded', 'Read the responses to earlier requests.');
      void reply.raw.once('close', () => this.#unread.release(bytes, owner));
    }
    void reply.header('Content-Type', 'application/json; charset=utf-8');
    return text;
  }
}

/** Refuses a request that its token does not permit. @throws ApiProblem `forbidden` */
function permit(endpoint: Endpoint, request: FastifyRequest): void {
  const { account: accountInPath, environment } = request.params as Named;
  const { account: accountInQuery } = request.query as Named;
  checkPermission(endpoint, signedIn(request), { accountInPath, accountInQuery, environment });
}

/**
 * The queue in which a request waits for earlier requests of its owner, so that no owner can delay the revocations of other owners.
 * Requests that read a lot of data share one queue; every other operation has a queue of its own. For a token of one account, the
 * operations that only take something away share one queue, because they lock the same account, and the account has few connections to the
 * database. Undefined if the request does not wait.
 */
function queueFor(
  { takesTurns, rawBody, urgent, makesSecret, operation }: Endpoint,
  owner: string,
  ofAccount: boolean,
): string | undefined {
  if (rawBody) return undefined;
  if (takesTurns) return owner;
  return `${owner} ${urgent && ofAccount && !makesSecret ? 'urgent' : operation}`;
}

/**
 * Reads by viewers and by tokens of accounts run one at a time, because many at once would leave the database little time for revocations.
 * Lists have a lane of their own, because they may take seconds.
 */
function laneFor({ role, takesTurns }: Endpoint, token: OperatorsToken): string | undefined {
  if (role !== 'viewer' || !isOneOfMany(token)) return undefined;
  return `${takesTurns === true ? 'lists' : 'reads'} by ${token.account === undefined ? 'viewers' : 'tokens of accounts'}`;
}

async function carryOut(
  endpoint: Endpoint,
  request: FastifyRequest,
  parts: Parts,
  check: () => void,
  { now, left }: Pick<RawRequest, 'now' | 'left'>,
): Promise<object> {
  const { params, query, body, headers } = request;
  const inBody = typeof body === 'string' ? (readBody(body) ?? {}) : {};
  const sent = endpoint.method === 'GET' ? query : inBody;
  const input = readInput(endpoint.input, params as Readonly<Record<string, unknown>>, sent);
  const account = (input['account'] ?? input['id']) as string | undefined;
  request.account = account;
  const token = signedIn(request);
  const idempotencyKey = endpoint.makesSecret
    ? readIdempotencyKey(headers['idempotency-key'], endpoint.operation, input, token.account)
    : undefined;
  const caller: Caller = {
    actor: `token:${token.name}`,
    ofAccount: token.account !== undefined,
    origin: request.ip,
    requestId: request.id,
    idempotencyKey,
    check() {
      check();
      // `mayAcceptPlaintextInLive` depends on the role that the token had before the request waited.
      if (signedIn(request).role !== token.role)
        throw new ApiProblem('forbidden', 'The role of this token has changed.');
    },
    mayAcceptPlaintextInLive: token.role === 'admin',
    token,
  };
  const raw: RawRequest = { now, body: endpoint.rawBody ? (body as Readable | undefined) : undefined, left };
  const result = await endpoint.run(parts, input as never, caller, raw);
  // Omit the unreadable rows, because they belong to other accounts.
  return 'unreadable' in result && token.account !== undefined ? { ...result, unreadable: [] } : result;
}

/** The token of a request. Requests without a token have already been refused. */
function signedIn({ token }: FastifyRequest): OperatorsToken {
  if (token === undefined) throw new Error('a request without a token');
  return token;
}

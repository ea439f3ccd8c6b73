import { randomUUID } from 'node:crypto';
import type { ServerResponse } from 'node:http';
import type { Socket } from 'node:net';
import { endUnparsed } from '../http.ts';
import { ApiProblem, problemBody, problems } from './problems.ts';

/** Sends a problem document for each request that Node's parser rejects, and closes the connection. */
export class UnparsedRequests {
  readonly #page: () => string | undefined;
  readonly #refused: (problem: ApiProblem, requestId: string, address: string | undefined) => void;
  /** For each connection, the response to the last request whose head was parsed. */
  readonly #last = new WeakMap<Socket, ServerResponse>();

  /**
   * @param page the address of the page that explains the codes
   * @param refused called for each refusal
   */
  constructor(
    page: () => string | undefined,
    refused: (problem: ApiProblem, requestId: string, address: string | undefined) => void,
  ) {
    this.#page = page;
    this.#refused = refused;
  }

  /** Called when the head of a request has been parsed. @returns the response to the previous request on the connection */
  begin(response: ServerResponse): ServerResponse | undefined {
    const { socket } = response.req;
    const before = this.#last.get(socket);
    this.#last.set(socket, response);
    return before;
  }

  refuse(error: Error, socket: Socket): void {
    const problem = toProblem(error);
    const last = this.#last.get(socket);
    // Nothing is sent if an earlier request is complete and still in progress, because the client would mistake a refusal for its response.
    // Nothing is sent either if the request has its response already.
    const isPending = last !== undefined && !last.writableFinished && (last.req.complete || last.headersSent);
    const isAnswered = last?.writableFinished === true && !last.req.complete;
    if (problem === undefined || isPending || isAnswered) {
      socket.destroy();
    } else if (socket.writable) {
      const requestId = randomUUID();
      this.#refused(problem, requestId, socket.remoteAddress);
      const body = JSON.stringify(problemBody(problem, this.#page(), requestId));
      endUnparsed(socket, { ...problems[problem.code], body, requestId });
    }
  }
}

/** The problem for a parser error; undefined if the client has left or TLS failed. */
function toProblem({ code }: Error & { readonly code?: string }): ApiProblem | undefined {
  if (code === 'ERR_HTTP_REQUEST_TIMEOUT') {
    return new ApiProblem('request_timeout', 'The request did not arrive in time.');
  }
  if (code === 'HPE_HEADER_OVERFLOW')
    return new ApiProblem('headers_too_large', 'The head of the request is too large.');
  if (code === 'COSTLY_REQUEST')
    return new ApiProblem(
      'malformed_request',
      'The request comes in too many small pieces, or has too many bytes that are not part of its body.',
    );
  if (code === 'HPE_INVALID_EOF_STATE' || code?.startsWith('HPE_') !== true) return undefined;
  return new ApiProblem('malformed_request', 'The request is not valid HTTP/1.1.');
}

import { randomUUID } from 'node:crypto';
import type { ServerResponse } from 'node:http';
import type { Socket } from 'node:net';
import { endUnparsed } from '../http.ts';
import { ApiProblem, problemBody, problems } from './problems.ts';

/** Refuses what Node's parser rejects, with a problem document, and closes the connection. */
export class UnparsedRequests {
  readonly #page: () => string | undefined;
  readonly #refused: (problem: ApiProblem, requestId: string, address: string | undefined) => void;
  /** The response to the last parsed head of each connection. */
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

  /** Called when a head has been parsed. @returns the response to the previous head on its connection */
  begin(response: ServerResponse): ServerResponse | undefined {
    const { socket } = response.req;
    const before = this.#last.get(socket);
    this.#last.set(socket, response);
    return before;
  }

  refuse(error: Error, socket: Socket): void {
    const problem = toProblem(error);
    const last = this.#last.get(socket);
    // An earlier, complete request is carried out all the same: a refusal would be taken for its response.
    const isPending = last !== undefined && !last.writableFinished && (last.req.complete || last.headersSent);
    if (problem === undefined || isPending) {
      socket.destroy();
    } else if (socket.writable) {
      const requestId = randomUUID();
      this.#refused(problem, requestId, socket.remoteAddress);
      const body = JSON.stringify(problemBody(problem, this.#page(), requestId));
      endUnparsed(socket, { ...problems[problem.code], body, requestId });
    }
  }
}

/** The problem for an error of the parser; undefined if the client has left, or TLS failed. */
function toProblem({ code }: Error & { readonly code?: string }): ApiProblem | undefined {
  if (code === 'ERR_HTTP_REQUEST_TIMEOUT') {
    return new ApiProblem('request_timeout', 'The request did not arrive in time.');
  }
  if (code === 'HPE_HEADER_OVERFLOW')
    return new ApiProblem('headers_too_large', 'The head of the request is too large.');
  if (code === 'HPE_INVALID_EOF_STATE' || code?.startsWith('HPE_') !== true) return undefined;
  return new ApiProblem('malformed_request', 'The request is not valid HTTP/1.1.');
}

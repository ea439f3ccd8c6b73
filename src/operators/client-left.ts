import type { ServerResponse } from 'node:http';
import { ApiProblem } from './problems.ts';

/** Returns a signal that aborts when the client has left or has its response. From then on, the result of the request is not needed. */
export function whenLeft(response: ServerResponse): AbortSignal {
  const controller = new AbortController();
  const abort = (): void => controller.abort(new ApiProblem('request_timeout', 'The client has left.'));
  if (response.destroyed) abort();
  else response.once('close', abort);
  return controller.signal;
}

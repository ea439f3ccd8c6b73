import type { ServerResponse } from 'node:http';
import { ApiProblem } from './problems.ts';

/** Aborts when the client has left, or has its response: then nobody waits for the work of the request any more. */
export function whenLeft(response: ServerResponse): AbortSignal {
  const controller = new AbortController();
  const abort = (): void => controller.abort(new ApiProblem('request_timeout', 'The client has left.'));
  if (response.destroyed) abort();
  else response.once('close', abort);
  return controller.signal;
}

import { setImmediate as turn } from 'node:timers/promises';
import { onTestFinished } from 'vitest';
import type { ResponseHandler, UpstreamCall, UpstreamRequest } from '../../src/upstream/call.ts';
import { Upstream } from '../../src/upstream/upstream.ts';
import { targetOf } from './sidecar.ts';

/** An upstream client, closed after the test. @param connectTimeout milliseconds */
export function upstreamAt(origin: string, connectTimeout = 1_000): Upstream {
  const upstream = new Upstream(targetOf(origin), connectTimeout, () => {});
  onTestFinished(() => upstream.close());
  return upstream;
}

/** A handler that ignores the response; a test adds `onError` and the methods that it watches. */
export const ignored: Omit<ResponseHandler, 'onError'> = {
  onInformation: () => {},
  onHead: () => {},
  onData: () => {},
  onEnd: () => {},
  onFailure: () => {},
};

export interface Asked {
  readonly call: UpstreamCall;
  /** The status, once the connection may be reused, or the cause of the failure. */
  readonly outcome: Promise<number | string>;
}

/** Resolves when connections that are idle now have rested. */
async function rested(): Promise<void> {
  for (let i = 0; i < 3; i += 1) await turn();
}

/** Sends a request with the upstream client alone. @param heard called with the events of the response */
export function ask(
  upstream: Upstream,
  method = 'GET',
  body?: UpstreamRequest['body'],
  target = '/',
  heard: (event: 'head' | 'data', call: UpstreamCall) => void = () => {},
): Asked {
  const { promise, resolve, reject } = Promise.withResolvers<number | string>();
  let status = 0;
  const headers = ['Host', 'localhost'];
  if (Buffer.isBuffer(body)) headers.push('Content-Length', String(body.length));
  const call: UpstreamCall = upstream.send(
    { method, target, headers, body },
    {
      ...ignored,
      onHead: (code) => {
        status = code;
        heard('head', call);
      },
      onData: () => heard('data', call),
      onEnd: () => void rested().then(() => resolve(status)),
      onFailure: ({ cause }) => resolve(cause),
      onError: reject,
    },
  );
  return { call, outcome: promise };
}

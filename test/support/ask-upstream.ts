import { setImmediate as turn } from 'node:timers/promises';
import { onTestFinished } from 'vitest';
import type { ResponseHandler, UpstreamCall, UpstreamRequest } from '../../src/upstream/call.ts';
import { Upstream } from '../../src/upstream/upstream.ts';
import { targetOf } from './sidecar.ts';

/** Creates an upstream client that is closed after the test. @param connectTimeout in milliseconds */
export function upstreamAt(origin: string, connectTimeout = 1_000): Upstream {
  const upstream = new Upstream(targetOf(origin), connectTimeout, () => {});
  onTestFinished(() => upstream.close());
  return upstream;
}

/** A handler that ignores the response. A test adds `onError` and the methods that it checks. */
export const ignored: Omit<ResponseHandler, 'onError'> = {
  onInformation: () => {},
  onHead: () => {},
  onData: () => {},
  onEnd: () => {},
  onFailure: () => {},
};

export interface Asked {
  readonly call: UpstreamCall;
  /** Resolves with the status once the connection can be reused, or with the cause of the failure. */
  readonly outcome: Promise<number | string>;
}

/** Resolves when connections that have just become idle can be reused. */
async function rested(): Promise<void> {
  for (let i = 0; i < 3; i += 1) await turn();
}

/** Sends a request with the upstream client, without a sidecar. @param heard called at each event of the response */
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

import type { Encryption } from '../accounts/account.ts';
import { hintForBody } from '../envelope/hints.ts';
import { hasEnvelopeShape, openEnvelope } from '../envelope/envelope.ts';
import type { Metrics } from '../telemetry/metrics.ts';
import type { GatewayRequest } from './gateway-request.ts';
import type { FailureLimiter } from './failure-limiter.ts';
import { PlainResponse } from './plain-response.ts';
import { isEncoded, readBody } from './request-body.ts';
import type { RequestHead } from './request-head.ts';
import type { ServedEnvironment } from './rules.ts';
import { SealedResponse } from './sealed-response.ts';
import { chooseByOpener, plain } from './sealing.ts';
import { upstreamHeaders } from './upstream-headers.ts';

/** What the exchange needs beside the request. */
export interface ExchangeDependencies {
  readonly metrics: Metrics;
  /** Failed decryptions by API key. */
  readonly openFailures: FailureLimiter;
}

/**
 * The enveloped exchange: the request's envelope is opened, the plaintext forwarded byte for byte, the response sealed.
 * What cannot be opened is not forwarded.
 */
export async function exchange(
  request: GatewayRequest,
  head: RequestHead,
  environment: ServedEnvironment,
  encryption: Encryption,
  dependencies: ExchangeDependencies,
): Promise<void> {
  let body: Buffer | undefined;
  if (head.hasBody) {
    if (isEncoded(head)) {
      request.refuse('unsupported_content_encoding');
      return;
    }
    const sent = await readBody(request, head);
    if (typeof sent === 'string') {
      request.refuse(sent);
      return;
    }
    if (sent.length > 0) {
      body = open(request, environment, encryption, sent, dependencies);
      if (body === undefined) return;
    }
  }
  forward(request, head, environment, body, dependencies.metrics);
}

/** Opens what was sent and settles how it is answered; undefined where it is refused. */
function open(
  request: GatewayRequest,
  environment: ServedEnvironment,
  encryption: Encryption,
  sent: Buffer,
  { metrics, openFailures }: ExchangeDependencies,
): Buffer | undefined {
  // Whether a grace is on was decided at the head: one that ends now does not end in the middle of a request.
  const grace = request.grace === undefined || encryption.kind === 'ending' ? undefined : encryption.grace;
  const takesPlaintext = encryption.kind === 'ending' || (grace !== undefined && grace.previous === undefined);
  if (takesPlaintext && !hasEnvelopeShape(sent)) {
    request.choose(plain);
    return sent;
  }
  // In test the responses help anyway; in live, whoever may ask often enough learns from responses that never differ.
  const { failedKeys } = request.rules.limits;
  const subject = environment.name === 'live' ? request.holder?.key.id : undefined;
  const before = performance.now();
  const wait = subject === undefined ? undefined : openFailures.limited(subject, failedKeys.attempts, before);
  if (wait !== undefined) {
    request.refuse('too_many_attempts', { retryAfter: wait });
    return undefined;
  }

  const openers = encryption.kind === 'ending' ? [encryption.previous] : [encryption.current];
  if (grace?.previous !== undefined) openers.push(grace.previous);
  const opened = openEnvelope(sent, openers);
  const duration = performance.now() - before;
  request.envelopeTime += duration;
  if (!('code' in opened)) {
    request.opened = true;
    metrics.envelope(environment.name, 'open', 'ok', duration / 1_000);
    request.choose(chooseByOpener(opened.openedBy, encryption, grace));
    return opened.plaintext;
  }
  // A body that is no envelope at all is refused, but nothing has failed to open.
  if (opened.code === 'decryption_failed') {
    metrics.envelope(environment.name, 'open', 'failed', duration / 1_000);
    if (subject !== undefined) openFailures.failed(subject, failedKeys.window, before);
  }
  request.reason = opened.reason;
  // In live there is one response to all that may be wrong with a ciphertext: differences are a padding oracle.
  request.refuse(opened.code, environment.name === 'test' ? { hint: hintForBody(sent, opened.code) } : {});
  return undefined;
}

function forward(
  request: GatewayRequest,
  head: RequestHead,
  environment: ServedEnvironment,
  body: Buffer | undefined,
  metrics: Metrics,
): void {
  const { sealer } = request;
  const headers = upstreamHeaders(request, head, environment);
  if (sealer === undefined) {
    headers.push(...head.plainHeaders);
  } else {
    headers.push('Accept-Encoding', 'identity');
    if (body !== undefined) headers.push('Content-Type', 'application/json');
  }
  if (head.hasBody || head.contentLength !== undefined) headers.push('Content-Length', String(body?.length ?? 0));
  const response =
    sealer === undefined ? new PlainResponse(request) : new SealedResponse(request, sealer, environment.name, metrics);
  request.forward(environment.upstream, { method: head.method, target: head.target, headers, body }, response);
}

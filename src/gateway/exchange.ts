import type { Encryption } from '../accounts/account.ts';
import type { Credentials } from '../envelope/credentials.ts';
import { hasEnvelopeShape, openEnvelope, type Opened } from '../envelope/envelope.ts';
import type { Metrics } from '../telemetry/metrics.ts';
import type { GatewayRequest } from './gateway-request.ts';
import { PlainAnswer } from './plain-answer.ts';
import { isEncoded, readBody } from './request-body.ts';
import type { RequestHead } from './request-head.ts';
import type { ServedEnvironment } from './rules.ts';
import { SealedAnswer } from './sealed-answer.ts';
import { upstreamHeaders } from './upstream-headers.ts';

/**
 * The enveloped exchange: the request's envelope is opened, the plaintext forwarded byte for byte, the answer sealed.
 * What cannot be opened is not forwarded.
 */
export async function exchange(
  request: GatewayRequest,
  head: RequestHead,
  environment: ServedEnvironment,
  encryption: Encryption,
  metrics: Metrics,
  now: number,
): Promise<void> {
  const grace = encryption.grace !== undefined && now < encryption.grace.until ? encryption.grace : undefined;
  chooseBeforeBody(request, head, encryption, grace !== undefined, grace?.previous);

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
      body = sent;
      const isPlaintext = grace !== undefined && grace.previous === undefined && !hasEnvelopeShape(sent);
      if (!isPlaintext) {
        const candidates =
          grace?.previous === undefined ? [encryption.credentials] : [encryption.credentials, grace.previous];
        const opened = open(request, environment, sent, candidates, metrics);
        if (opened === undefined) return;
        body = opened.plaintext;
        if (grace !== undefined) answerWith(request, encryption, opened.credentials);
      }
    }
  }
  forward(request, head, environment, body, metrics);
}

/**
 * With what a request is answered before its body says so: without a grace the current credentials; during one the
 * previous ones (or none), because whoever has the current ones already can say so.
 */
function chooseBeforeBody(
  request: GatewayRequest,
  head: RequestHead,
  encryption: Encryption,
  inGrace: boolean,
  previous: Credentials | undefined,
): void {
  if (!inGrace || head.credentialsWish?.toLowerCase() === 'current') {
    request.sealing = { credentials: encryption.credentials, encoding: encryption.encoding };
    if (inGrace) request.grace = 'current';
  } else if (previous === undefined) {
    request.sealing = undefined;
    request.grace = 'none';
  } else {
    answerWith(request, encryption, previous);
  }
}

function answerWith(request: GatewayRequest, encryption: Encryption, credentials: Credentials): void {
  request.sealing = { credentials, encoding: encryption.encoding };
  request.grace = credentials === encryption.credentials ? 'current' : 'previous';
}

function open(
  request: GatewayRequest,
  environment: ServedEnvironment,
  body: Buffer,
  candidates: readonly Credentials[],
  metrics: Metrics,
): Opened | undefined {
  const before = performance.now();
  const opened = openEnvelope(body, candidates);
  const duration = performance.now() - before;
  request.envelopeTime += duration;
  metrics.envelope(environment.name, 'open', 'code' in opened ? 'failed' : 'ok', duration / 1_000);
  if (!('code' in opened)) return opened;
  request.reason = opened.reason;
  // In live there is one answer to all that may be wrong with a ciphertext: differences are a padding oracle.
  request.refuse(opened.code, environment.name === 'test' ? { hint: opened.hint } : {});
  return undefined;
}

function forward(
  request: GatewayRequest,
  head: RequestHead,
  environment: ServedEnvironment,
  body: Buffer | undefined,
  metrics: Metrics,
): void {
  const { sealing } = request;
  const headers = upstreamHeaders(request, head, environment.name);
  if (sealing === undefined) {
    headers.push(...head.plainHeaders);
  } else {
    headers.push('Accept-Encoding', 'identity');
    if (body !== undefined) headers.push('Content-Type', 'application/json');
  }
  if (body !== undefined || head.contentLength !== undefined) headers.push('Content-Length', String(body?.length ?? 0));
  const answer =
    sealing === undefined ? new PlainAnswer(request) : new SealedAnswer(request, sealing, environment.name, metrics);
  request.forward(environment.upstream, { method: head.method, target: head.target, headers, body }, answer);
}

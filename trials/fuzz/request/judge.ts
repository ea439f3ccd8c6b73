import { findRefusal, refusals, type RefusalCode } from '../../../src/errors.ts';
import { unsealed, verdictOf, type Secrets } from '../envelope/oracle.ts';
import { isLast, type Response } from '../http/responses.ts';
import { valuesOf } from '../http/message.ts';
import type { Request, Requests } from '../http/requests.ts';
import { ensure, Violation, type Tally } from '../part.ts';
import { keyIn, type KnownKey } from './accounts.ts';
import type { Seen } from './upstream.ts';

/**
 * The events on a connection: the strictly parsed requests, the responses, and the requests that reached the upstream.
 */
export interface Exchanged {
  readonly sent: Requests;
  /** The final responses, in order. */
  readonly responses: readonly Response[];
  readonly seen: readonly Seen[];
  /** The client's address. */
  readonly address: string;
  /** Whether the client waited for the responses and received all of the last one. */
  readonly waited: boolean;
  /** Whether the sidecar only reports violations of route rules. */
  readonly reports: boolean;
}

/** Checks the events against every property. */
export function judge(exchanged: Exchanged, tally: Tally): void {
  const { sent, responses, address, waited, reports } = exchanged;
  const answered = new Set(responses.flatMap((response) => valuesOf(response, 'x-seen')));
  const seen = exchanged.seen.filter(
    (each, index, all) => answered.has(each.number) || !isRepeated(each, all[index + 1]),
  );
  const { requests } = sent;
  const clean = sent.rest === '';
  ensure(responses.length <= requests.length + (clean ? 0 : 1), 'there is at most one response to a request');
  let next = 0;
  for (const [index, response] of responses.entries()) {
    const request = requests[index];
    const [number] = valuesOf(response, 'x-seen');
    if (number === undefined) {
      judgeOwn(response, request ?? sent.broken, tally);
      // A request that timed out may have reached the upstream nonetheless.
      const forwarded = seen[next];
      const timedOut = response.status === 504 && request !== undefined && forwarded !== undefined;
      if (timedOut && !answered.has(forwarded.number) && mayBeOf(request, forwarded.request, address)) next += 1;
      continue;
    }
    const forwarded = seen[next];
    next += 1;
    ensure(request !== undefined, 'nothing is forwarded that is no request', forwarded?.request);
    ensure(forwarded?.number === number, 'responses come in the order of their requests', forwarded, number);
    judgeForwarded(request, forwarded.request, address);
    ensure(reports || isPermitted(request), 'what the rules of its route refuse is refused', request);
    judgeResponse(request, forwarded, response, tally);
  }
  const unanswered = seen.slice(next);
  const shown = responses.map(({ startLine, headers, body }) => [startLine, headers, body]);
  ensure(
    !waited || unanswered.length === 0,
    'what is refused is not forwarded, and what is forwarded is answered',
    seen,
    shown,
  );
  // The requests of a client that disconnected may have been forwarded or refused.
  let from = responses.length;
  for (const { request: forwarded } of unanswered) {
    const of = requests.findIndex((request, index) => index >= from && mayBeOf(request, forwarded, address));
    ensure(of !== -1, 'nothing is forwarded that is no request', requests, forwarded);
    from = of + 1;
  }
  const last = responses.at(-1);
  if (waited && last !== undefined && last.status !== 101 && !isLast(last)) {
    ensure(!clean || responses.length === requests.length, 'every request on an open connection is answered');
  }
  for (const [index, response] of responses.entries()) {
    if (index < responses.length - 1) ensure(!isLast(response), 'nothing comes behind a response that is the last');
    const request = requests[index];
    // These statuses depend on how fast the machine is.
    if (request === undefined || [408, 503, 504].includes(response.status) || !isExemplary(request)) continue;
    ensure(valuesOf(response, 'x-seen').length === 1, 'what is as it should be is forwarded', request, response);
  }
}

/**
 * Whether a request was sent again because its connection had ended, which is allowed for safe requests without a body.
 */
function isRepeated({ request }: Seen, next: Seen | undefined): boolean {
  const { method, body } = request;
  return (
    next !== undefined &&
    ['GET', 'HEAD', 'OPTIONS'].includes(method) &&
    body === '' &&
    valuesOf(request, 'x-request-id').join() === valuesOf(next.request, 'x-request-id').join()
  );
}

/** Fields that decide how a request is treated. Two fields of the same name make it ambiguous. */
const singleFields = ['origin', 'access-control-request-method', 'expect', 'upgrade', 'envelope-credentials'];

/** Whether a request is so clearly correct that it must not be refused. */
function isExemplary(request: Request): boolean {
  const key = soleKey(request);
  if (!isEnveloped(request) || key?.kind !== 'secret' || !key.active || key.environment !== 'test') return false;
  const secrets = secretsOf(key);
  return (
    request.method === 'POST' &&
    request.target === '/api/s2s/pay' &&
    request.version === '1.1' &&
    valuesOf(request, 'host').join() === 'sandbox.pay.example' &&
    valuesOf(request, 'content-encoding').length === 0 &&
    singleFields.every((name) => valuesOf(request, name).length < 2) &&
    valuesOf(request, 'transfer-encoding').length === 0 &&
    request.body.length > 0 &&
    JSON.stringify(request.headers).length < 8_000 &&
    'plaintext' in verdictOf(Buffer.from(request.body, 'latin1'), secrets)
  );
}

/** Checks a response that the sidecar made itself: a refusal, or the response of a test endpoint. */
function judgeOwn(response: Response, request: Request | undefined, tally: Tally): void {
  const key = request === undefined ? undefined : soleKey(request);
  const isSealed = valuesOf(response, 'envelope').length > 0;
  const body = isSealed ? opened(response, key) : response.body;
  if (response.status === 200 && request !== undefined && isCipherTest(request)) {
    ensure(!isSealed, 'a test endpoint answers in plain', response);
    tally.count('200 of a test endpoint');
    return;
  }
  ensure(response.status >= 400, 'a response of its own is a refusal', response);
  if (body === '') {
    ensure(request === undefined || request.method === 'HEAD', 'a refusal says what it is', response);
    tally.count(`${response.status} to HEAD`);
    return;
  }
  const { code } = JSON.parse(body) as { readonly code: string };
  ensure(Object.hasOwn(refusals, code), 'a refusal is one of the table', body);
  const row = findRefusal(code as RefusalCode);
  ensure(row.status === response.status, 'a refusal has the status of its row', response);
  ensure(response.status < 500 || late.has(code), 'nothing fails inside', response, body);
  ensure(row.sealed || !isSealed, 'a refusal that all may read is plain', response);
  if (request !== undefined && row.sealed && isEnveloped(request) && key?.encryption?.grace !== 'plaintext') {
    ensure(isSealed, 'a refusal that only its caller may read is sealed', request, response);
  }
  tally.count(code);
}

/** Refusals that may happen on a busy machine, because the database or the upstream may respond late. */
const late: ReadonlySet<string> = new Set(['overloaded', 'accounts_unavailable', 'upstream_timeout']);

function mayBeOf(request: Request, forwarded: Request, address: string): boolean {
  try {
    judgeForwarded(request, forwarded, address);
    return true;
  } catch (error) {
    if (error instanceof Violation) return false;
    throw error;
  }
}

/** Checks the request that the upstream received, and its identity headers. */
function judgeForwarded(request: Request, forwarded: Request, address: string): void {
  const shown = [request, forwarded];
  ensure(
    forwarded.method === request.method && forwarded.target === request.target,
    'the request line stays',
    ...shown,
  );
  const key = soleKey(request);
  ensure(key?.active !== false, 'an inactive account is refused', ...shown);
  const isPreflight =
    request.method === 'OPTIONS' &&
    valuesOf(request, 'origin').length > 0 &&
    valuesOf(request, 'access-control-request-method').length > 0 &&
    valuesOf(forwarded, 'x-account-id').length === 0;
  ensure(key !== undefined || isPreflight, 'what has no key is refused', ...shown);
  const identity: Record<string, string | undefined> = {
    'x-account-id': isPreflight ? undefined : key?.account,
    'x-api-key-id': isPreflight ? undefined : key?.keyId,
    'x-api-key-kind': isPreflight ? undefined : key?.kind,
    'x-environment': isPreflight ? undefined : key?.environment,
    'x-forwarded-for': address,
  };
  for (const [name, value] of Object.entries(identity)) {
    const said = forwarded.headers.flatMap(([each, is]) => (each.replaceAll(/[^a-z0-9]/g, '-') === name ? [is] : []));
    ensure(said.join('|') === (value ?? ''), `${name} is the sidecar's own, and once`, ...shown);
  }
  ensure(valuesOf(forwarded, 'host').length === 1, 'there is one Host', ...shown);
  ensure(valuesOf(forwarded, 'x-request-id').length === 1, 'there is one request id', ...shown);
  for (const hop of [
    'connection',
    'upgrade',
    'te',
    'keep-alive',
    'expect',
    'proxy-connection',
    'x-real-ip',
    'envelope',
    'envelope-credentials',
  ]) {
    if (hop !== 'connection' && hop !== 'upgrade') {
      ensure(valuesOf(forwarded, hop).length === 0, `${hop} is not passed on`, ...shown);
    }
  }
  // Only the upstream of the live environment is configured to receive this header.
  const bearer = key?.environment === 'live' && !isPreflight ? valuesOf(request, 'authorization') : [];
  ensure(
    valuesOf(forwarded, 'authorization').join() === bearer.join(),
    'Authorization is passed on as configured',
    ...shown,
  );
  const body = isEnveloped(request) && request.body !== '' ? plaintextOf(request, key) : request.body;
  ensure(body === forwarded.body, 'the body is the plaintext, or untouched', ...shown);
}

/** The body that the upstream must receive on an enveloped route; undefined if it must receive nothing. */
function plaintextOf(request: Request, key: KnownKey | undefined): string | undefined {
  const verdict = verdictOf(Buffer.from(request.body, 'latin1'), secretsOf(key));
  if ('plaintext' in verdict) return verdict.plaintext.toString('latin1');
  return key?.encryption?.grace === 'plaintext' ? request.body : undefined;
}

/** Checks the upstream's response as the client received it. */
function judgeResponse(request: Request, seen: Seen, response: Response, tally: Tally): void {
  const shown = [request, seen, response];
  const { status, body } = seen;
  ensure(response.status === status, 'the status stays', ...shown);
  ensure(valuesOf(response, 'x-request-id').length === 1, 'every response has one request id', ...shown);
  ensure(status !== 101 || isHandshake(request), 'only a handshake on its route is upgraded', ...shown);
  const key = soleKey(request);
  const [says = ''] = valuesOf(response, 'envelope');
  const label = isEnveloped(request) ? labelOf(request, key) : undefined;
  ensure(
    valuesOf(response, 'envelope-credentials').join() === (label ?? ''),
    `it is answered with: ${label}`,
    ...shown,
  );
  if (!isEnveloped(request) || body === '' || label === 'none') {
    ensure(says === '' && response.body === body, 'the body stays', ...shown);
  } else {
    ensure(says === 'sealed', 'what an encrypting account gets is sealed', ...shown);
    ensure(opened(response, key) === body, 'what is sealed is the body', ...shown);
  }
  tally.count(says === '' ? 'forwarded, answered as it is' : 'forwarded, answered sealed');
}

/** The credentials with which the response to a forwarded request must be sealed during a grace period. */
function labelOf(request: Request, key: KnownKey | undefined): 'current' | 'previous' | 'none' | undefined {
  const grace = key?.encryption?.grace;
  if (grace === undefined) return undefined;
  if (request.body === '') {
    if (valuesOf(request, 'envelope-credentials').at(-1)?.toLowerCase() === 'current') return 'current';
    return grace === 'plaintext' ? 'none' : 'previous';
  }
  const verdict = verdictOf(Buffer.from(request.body, 'latin1'), secretsOf(key));
  if ('plaintext' in verdict) return verdict.by === 0 ? 'current' : 'previous';
  return 'none';
}

/** Opens the body of a sealed response. It must open with the credentials that the response names. */
function opened(response: Response, key: KnownKey | undefined): string {
  const encryption = key?.encryption;
  ensure(encryption !== undefined, 'only an encrypting account gets anything sealed', response, key);
  const isPrevious = valuesOf(response, 'envelope-credentials').join() === 'previous';
  const secrets = isPrevious ? encryption.grace : encryption.current;
  ensure(typeof secrets === 'object', 'it is sealed with credentials there are', response);
  const body = unsealed(response.body, secrets, encryption.encoding);
  ensure(body !== undefined, 'what is sealed opens', response, key);
  return body;
}

function secretsOf(key: KnownKey | undefined): readonly Secrets[] {
  if (key?.encryption === undefined) return [];
  const { current, grace } = key.encryption;
  return typeof grace === 'object' ? [current, grace] : [current];
}

function soleKey(request: Request): KnownKey | undefined {
  const values = valuesOf(request, 'authorization');
  return values.length === 1 ? keyIn(values[0]) : undefined;
}

/** Whether a request is enveloped if it is forwarded. */
function isEnveloped(request: Request): boolean {
  const key = soleKey(request);
  if (key?.environment === 'test' && isCipherTest(request)) return false;
  return /^\/api\/s2s(?:[/?]|$)/i.test(request.target) && key?.encryption !== undefined;
}

/** Whether the routes that `everyFeature` configures allow the request. */
function isPermitted(request: Request): boolean {
  const path = request.target
    .toLowerCase()
    .replace(/\?.*$/, '')
    .replace(/(.)\/$/, '$1');
  const isPost = request.method === 'POST';
  if (path === '/only/post') return isPost && soleKey(request)?.kind === 'secret';
  if (path === '/api/v1/transactions/initialize') return isPost || request.method === 'OPTIONS';
  return soleKey(request)?.kind === 'secret';
}

function isHandshake(request: Request): boolean {
  const isAsked = valuesOf(request, 'upgrade').join().toLowerCase() === 'websocket';
  const { method, target, body, version } = request;
  return isAsked && method === 'GET' && version === '1.1' && body === '' && /^\/socket\/?(?:\?|$)/i.test(target);
}

function isCipherTest({ target }: Request): boolean {
  return /^\/api\/s2s\/aes-(?:en|de)crypt\/?(?:\?|$)/i.test(target);
}

import { hintForBody } from '../envelope/hints.ts';
import { hasEnvelopeShape, openEnvelope } from '../envelope/envelope.ts';
import type { Metrics } from '../telemetry/metrics.ts';
import { continueWith } from '../promises.ts';
import { forward } from './forward.ts';
import type { FailureLimiter } from './limits.ts';
import { PlainResponse } from './plain-response.ts';
import { Refusal } from './refusal.ts';
import type { Reply } from './reply.ts';
import { isEncoded, readBody } from './request-body.ts';
import type { RequestHead } from './request-head.ts';
import type { ServedEnvironment } from './rules.ts';
import { SealedResponse } from './sealed-response.ts';
import { openersOf, sealingWith, takesPlaintext, type ActiveEncryption } from './sealing.ts';

/** The dependencies of the exchange. */
export interface ExchangeDependencies {
  readonly metrics: Metrics;
  /** Failed decryptions by API key. */
  readonly openFailures: FailureLimiter;
}

/**
 * The enveloped exchange: the request's envelope is opened, the plaintext forwarded byte for byte, the response sealed.
 * What cannot be opened is not forwarded.
 */
export function exchange(
  reply: Reply,
  head: RequestHead,
  environment: ServedEnvironment,
  encryption: ActiveEncryption,
  dependencies: ExchangeDependencies,
): Refusal | undefined | Promise<Refusal | undefined> {
  if (head.body.kind === 'none') return forwardToBeSealed(reply, head, environment, undefined, dependencies.metrics);
  if (isEncoded(head)) return new Refusal('unsupported_content_encoding');
  return continueWith(readBody(reply, head), (sent) => {
    if (sent instanceof Refusal) return sent;
    const opened = sent.length === 0 ? undefined : open(reply, environment, encryption, sent, dependencies);
    if (opened instanceof Refusal) return opened;
    return forwardToBeSealed(reply, head, environment, opened, dependencies.metrics);
  });
}

/** @param body plaintext */
function forwardToBeSealed(
  reply: Reply,
  head: RequestHead,
  environment: ServedEnvironment,
  body: Buffer | undefined,
  metrics: Metrics,
): Refusal | undefined {
  const sealer = reply.sealing?.sealer;
  if (sealer === undefined) {
    return forward(reply, head, environment, head.plainHeaders, body, new PlainResponse(reply));
  }
  const headers = ['Accept-Encoding', 'identity'];
  if (body !== undefined) headers.push('Content-Type', 'application/json');
  return forward(reply, head, environment, headers, body, new SealedResponse(reply, sealer, environment.name, metrics));
}

/** Opens the envelope and decides how the response is sealed. */
function open(
  reply: Reply,
  environment: ServedEnvironment,
  encryption: ActiveEncryption,
  sent: Buffer,
  { metrics, openFailures }: ExchangeDependencies,
): Buffer | Refusal {
  if (takesPlaintext(encryption) && !hasEnvelopeShape(sent)) {
    reply.seal(sealingWith(undefined, encryption));
    return sent;
  }
  const { holder, rules, stats } = reply.request;
  // Counted in live only: in test hints reveal more anyway. In live even equal responses leak to very many attempts.
  const { failedKeys } = rules.limits;
  const subject = environment.name === 'live' ? holder?.key.id : undefined;
  const before = performance.now();
  const retryAfter = subject === undefined ? undefined : openFailures.limited(subject, failedKeys.attempts, before);
  if (retryAfter !== undefined) return new Refusal('too_many_attempts', { retryAfter });

  const openers = openersOf(encryption);
  const opened = openEnvelope(sent, openers);
  const duration = performance.now() - before;
  stats.envelope += duration;
  if (!('code' in opened)) {
    stats.opened = true;
    metrics.envelope(environment.name, 'open', 'ok', duration / 1_000);
    reply.seal(sealingWith(opened.openedBy, encryption));
    return opened.plaintext;
  }
  // A body that is not an envelope is refused, but does not count as a failed decryption.
  if (opened.code === 'decryption_failed') {
    metrics.envelope(environment.name, 'open', 'failed', duration / 1_000);
    if (subject !== undefined) openFailures.failed(subject, failedKeys.window, before);
  }
  stats.reason = opened.reason;
  // In live every fault of a ciphertext gets the same response: differences would be a padding oracle.
  return new Refusal(
    opened.code,
    environment.name === 'test' ? { hint: hintForBody(sent, opened.code, openers[0]) } : {},
  );
}

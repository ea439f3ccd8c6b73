import { hintForBody } from '../envelope/hints.ts';
import { hasEnvelopeShape, openEnvelope } from '../envelope/envelope.ts';
import type { Metrics } from '../telemetry/metrics.ts';
import { continueWith } from '../promises.ts';
import type { Admitted, Served } from './admitted.ts';
import { forward } from './forward.ts';
import { FailureLimiter } from './limits.ts';
import { PlainRelay } from './plain-relay.ts';
import { Refusal } from './refusal.ts';
import { isEncoded, readBody } from './request-body.ts';
import { SealingRelay } from './sealing-relay.ts';
import { openersOf, sealingWith, takesPlaintext, type ActiveEncryption } from './sealing.ts';

/**
 * The enveloped exchange: the request's envelope is opened, the plaintext forwarded byte for byte, the response sealed.
 * What cannot be opened is not forwarded.
 */
export class Exchange {
  readonly #metrics: Metrics;
  /** Failed decryptions by API key. */
  readonly #openFailures = new FailureLimiter();

  constructor(metrics: Metrics) {
    this.#metrics = metrics;
  }

  serve(admitted: Admitted, encryption: ActiveEncryption): Served {
    const { head } = admitted;
    if (head.body.type === 'none') return this.#forward(admitted, undefined);
    if (isEncoded(head)) return new Refusal('unsupported_content_encoding');
    return continueWith(readBody(admitted), (sent) => {
      if (sent instanceof Refusal) return sent;
      const opened = sent.length === 0 ? undefined : this.#open(admitted, encryption, sent);
      return opened instanceof Refusal ? opened : this.#forward(admitted, opened);
    });
  }

  /** @param body plaintext */
  #forward(admitted: Admitted, body: Buffer | undefined): Refusal | undefined {
    const { reply, head } = admitted;
    const sealer = reply.sealing?.sealer;
    if (sealer === undefined) return forward(admitted, head.plainHeaders, body, new PlainRelay(reply));
    const headers = ['Accept-Encoding', 'identity'];
    if (body !== undefined) headers.push('Content-Type', 'application/json');
    return forward(admitted, headers, body, new SealingRelay(admitted, sealer, this.#metrics));
  }

  /** Opens the envelope and decides how the response is sealed. */
  #open({ reply, environment }: Admitted, encryption: ActiveEncryption, sent: Buffer): Buffer | Refusal {
    if (takesPlaintext(encryption) && !hasEnvelopeShape(sent)) {
      reply.sealing = sealingWith(undefined, encryption);
      return sent;
    }
    const { holder, rules, stats } = reply.request;
    // Counted in live only: in test, hints reveal more anyway. In live, very many attempts learn even from equal responses.
    const { failedKeys } = rules.limits;
    const subject = environment.name === 'live' ? holder?.key.id : undefined;
    const before = performance.now();
    const retryAfter =
      subject === undefined ? undefined : this.#openFailures.limited(subject, failedKeys.attempts, before);
    if (retryAfter !== undefined) return new Refusal('too_many_attempts', { retryAfter });

    const openers = openersOf(encryption);
    const opened = openEnvelope(sent, openers);
    const duration = performance.now() - before;
    stats.envelope += duration;
    if (!('code' in opened)) {
      stats.opened = true;
      this.#metrics.envelope(environment.name, 'open', 'ok', duration / 1_000);
      reply.sealing = sealingWith(opened.openedBy, encryption);
      return opened.plaintext;
    }
    // A body that is not an envelope is refused, but does not count as a failed decryption.
    if (opened.code === 'decryption_failed') {
      this.#metrics.envelope(environment.name, 'open', 'failed', duration / 1_000);
      if (subject !== undefined) this.#openFailures.failed(subject, failedKeys.window, before);
    }
    stats.reason = opened.reason;
    // In live every fault of a ciphertext gets the same response: differences would be a padding oracle.
    return new Refusal(
      opened.code,
      environment.name === 'test' ? { hint: hintForBody(sent, opened.code, openers[0]) } : {},
    );
  }
}

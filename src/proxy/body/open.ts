import { hintForPlaintext } from '../../envelope/hints/accepted-hints.ts';
import { hasEnvelopeShape, openEnvelope } from '../../envelope/envelope.ts';
import { hintForBody } from '../../envelope/hints/hints.ts';
import { Refusal } from '../../errors.ts';
import { continueWith } from '../../promises.ts';
import type { Metrics } from '../../telemetry/metrics.ts';
import type { UpstreamRequest } from '../../upstream/call.ts';
import type { Admitted } from '../admit/exchange.ts';
import { listOpeners, sealingWith, takesPlaintext, waitsToOpen, type ActiveEncryption } from '../admit/sealing.ts';
import { FailureLimiter } from '../capacity/attempts.ts';
import type { Responder } from '../respond/responder.ts';
import type { FormatMemories } from './format-memories.ts';
import { isEncoded, readBody, type LongBodies } from './read.ts';

/** A request that is ready to be sent to the upstream. */
export interface Outgoing {
  readonly exchange: Admitted;
  readonly body: UpstreamRequest['body'];
  /** Flat list of the fields that describe the body, except its length. */
  readonly bodyFields: readonly string[];
}

const plaintextFields = ['Accept-Encoding', 'identity', 'Content-Type', 'application/json'];
const noBodyFields = ['Accept-Encoding', 'identity'];

/** Methods whose requests usually have a body. */
const usuallyWithBody = /^(?:POST|PUT|PATCH)$/;

/** The request to send to the upstream, or the refusal. A promise if the body has not arrived yet or is long. */
export type Opening = Outgoing | Refusal | Promise<Outgoing | Refusal>;

/** Opens the envelopes in requests. A request whose envelope cannot be opened is not forwarded. */
export class EnvelopeOpener {
  readonly #metrics: Metrics;
  /** Counts the envelopes that could not be opened, by API key. */
  readonly #failures = new FailureLimiter();
  readonly #longBodies: LongBodies;
  readonly #memories: FormatMemories;

  constructor(metrics: Metrics, longBodies: LongBodies, memories: FormatMemories) {
    this.#metrics = metrics;
    this.#longBodies = longBodies;
    this.#memories = memories;
  }

  /** Reads the body and opens its envelope. A request without a body is forwarded unchanged. */
  open(responder: Responder, exchange: Admitted, encryption: ActiveEncryption): Opening {
    const { head } = exchange;
    if (head.framing.type !== 'none' && isEncoded(head)) return new Refusal('unsupported_content_encoding');
    const { requestBody } = responder.snapshot.limits;
    return continueWith(readBody(responder, head, requestBody, waitsToOpen(encryption)), (sent) => {
      if (sent instanceof Refusal) return sent;
      if (sent.length === 0) return withoutBody(responder, exchange);
      return this.#longBodies.run(responder.reservation, sent, (body) =>
        this.#open(responder, exchange, encryption, body),
      );
    });
  }

  #open(responder: Responder, exchange: Admitted, encryption: ActiveEncryption, sent: Buffer): Opening {
    if (!takesPlaintext(encryption)) return this.#openEnvelope(responder, exchange, encryption, sent);
    return continueWith(hasEnvelopeShape(sent), (isEnvelope) => {
      if (isEnvelope) return this.#openEnvelope(responder, exchange, encryption, sent);
      const sealing = sealingWith(undefined, encryption);
      return { exchange: { ...exchange, sealing }, body: Buffer.from(sent), bodyFields: exchange.head.plainFields };
    });
  }

  #openEnvelope(responder: Responder, exchange: Admitted, encryption: ActiveEncryption, sent: Buffer): Opening {
    const { principal } = exchange;
    const environment = exchange.environment.name;
    // Failures are counted only in live. In test, the hints reveal more than failures do. In live, an attacker with very many attempts can
    // learn something even though all failures get the same response.
    const { failedKeys } = responder.snapshot.limits;
    const subject = environment === 'live' ? principal?.key : undefined;
    const before = performance.now();
    const retryAfter =
      subject === undefined ? undefined : this.#failures.limited(subject.id, failedKeys.attempts, before);
    const tooMany = retryAfter === undefined ? undefined : new Refusal('too_many_attempts', { retryAfter });
    // Anyone can read a public key, so one client's failures must not keep out the envelopes of another client with the same key.
    if (tooMany !== undefined && exchange.tier === 'secret') return tooMany;

    const openers = listOpeners(encryption);
    const context = this.#memories.of(environment, principal?.account.id ?? '');
    return continueWith(openEnvelope(sent, openers, context), (opened) => {
      const duration = performance.now() - before;
      responder.timing.envelope += duration;
      if (!('code' in opened)) {
        this.#metrics.envelope(environment, 'open', 'ok', duration / 1_000);
        const sealing = sealingWith(opened.openedBy, encryption);
        if (environment === 'test') responder.hint = hintForPlaintext(opened.plaintext);
        return {
          exchange: { ...exchange, opened: true, sealing },
          body: opened.plaintext,
          bodyFields: plaintextFields,
        };
      }
      // A body that is not an envelope is refused, but does not count as a failed decryption.
      if (opened.code === 'decryption_failed') {
        this.#metrics.envelope(environment, 'open', 'failed', duration / 1_000);
        if (subject !== undefined) this.#failures.failed(subject.id, failedKeys.window, before);
        if (retryAfter !== undefined) return new Refusal('too_many_attempts', { retryAfter, reason: opened.reason });
      }
      // In live, every fault in a ciphertext gets the same response, because differences would be a padding oracle.
      const hint = environment === 'test' ? hintForBody(sent, opened.code, openers[0]) : undefined;
      return new Refusal(opened.code, { hint, reason: opened.reason });
    });
  }
}

function withoutBody(responder: Responder, exchange: Admitted): Outgoing {
  const { environment, head, sealing } = exchange;
  if (environment.name === 'test' && usuallyWithBody.test(head.method)) {
    responder.hint = `the ${head.method} arrived without a body: if your code sent one, it was lost on the way`;
  }
  return { exchange, body: undefined, bodyFields: sealing?.sealer === undefined ? head.plainFields : noBodyFields };
}

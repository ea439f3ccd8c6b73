import { isEnvelope } from '../envelope/envelope.ts';
import { isWhiteSpace } from '../envelope/json.ts';
import { forward } from './forward.ts';
import { PlainResponse } from './plain-response.ts';
import { Refusal } from './refusal.ts';
import type { Reply } from './reply.ts';
import { collect, concat, isEncoded, PassingBody } from './request-body.ts';
import type { RequestHead } from './request-head.ts';
import type { ServedEnvironment } from './rules.ts';

/**
 * Untouched traffic: bodies of any size stream both ways. Only an encrypting account's JSON is looked at before, because
 * an envelope on a route that does not open it would reach the upstream as nonsense.
 */
export async function passThrough(
  reply: Reply,
  head: RequestHead,
  environment: ServedEnvironment,
): Promise<Refusal | undefined> {
  const { encryption, reported, reservation, rules } = reply.request;
  let lookedAt: readonly Buffer[] = [];
  let body: Buffer | PassingBody | undefined;
  if (head.body.kind !== 'none') {
    const { requestBody } = rules.limits;
    const isLookedAt = encryption !== undefined && !isEncoded(head) && (head.body.contentLength ?? 0) <= requestBody;
    if (!isLookedAt && !reservation.takeSlot()) return new Refusal('overloaded');
    if (head.expectsContinue) reply.raw.writeContinue();
    if (isLookedAt) {
      reply.wait('request_timeout');
      const collected = await collect(reply, requestBody, (chunk, index) => {
        reply.wait('request_timeout');
        return index > 0 || mayBeJsonObject(chunk);
      });
      // It may have been refused for what stands behind.
      if (reply.begun) return undefined;
      if (collected instanceof Refusal) return collected;
      if (collected.whole) {
        const whole = concat(collected.chunks);
        if (isEnvelope(whole)) {
          if (!rules.report.has('encryption_not_supported')) return new Refusal('encryption_not_supported');
          reported.push('encryption_not_supported');
        }
        body = whole;
      }
      lookedAt = collected.chunks;
    }
    body ??= new PassingBody(reply, lookedAt);
  }
  return forward(reply, head, environment, head.plainHeaders, body, new PlainResponse(reply));
}

/** Whether a body begins like a JSON object. */
function mayBeJsonObject(first: Buffer): boolean {
  for (const byte of first) {
    if (!isWhiteSpace(byte)) return byte === 0x7b;
  }
  return true;
}

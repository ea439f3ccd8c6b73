import { beginsLikeEnvelope, isEnvelope } from '../envelope/envelope.ts';
import { isWhiteSpace } from '../envelope/json.ts';
import { continueWith } from '../promises.ts';
import type { Admitted, Served } from './admitted.ts';
import { forward } from './forward.ts';
import { PlainRelay } from './plain-relay.ts';
import { Refusal } from './refusal.ts';
import type { Reply } from './reply.ts';
import { collect, concat, isEncoded, PassingBody } from './request-body.ts';

/**
 * Forwards requests unchanged; bodies of any size stream in both directions. JSON of an encrypting account is inspected
 * first, because the upstream could not read an envelope. Envelopes of other accounts are forwarded, and counted.
 */
export function passThrough(admitted: Admitted): Served {
  const { reply, head, enveloped } = admitted;
  const { request } = reply;
  const { encryption, reservation } = request;
  const pass = (body: Buffer | PassingBody | undefined): Refusal | undefined =>
    forward(admitted, head.plainHeaders, body, new PlainRelay(reply));
  if (head.body.type === 'none') return pass(undefined);

  const { requestBody } = request.rules.limits;
  if (encryption === undefined || isEncoded(head) || (head.body.contentLength ?? 0) > requestBody) {
    if (!reservation.takeSlot()) return new Refusal('overloaded');
    if (head.expectsContinue) reply.raw.writeContinue();
    const isWatched = enveloped && encryption === undefined && !isEncoded(head);
    return pass(new PassingBody(reply, [], isWatched ? noteEnvelope : undefined));
  }
  if (head.expectsContinue) reply.raw.writeContinue();
  reply.setDeadline('request_timeout');
  const collected = collect(reply, requestBody, (chunk, index) => {
    reply.setDeadline('request_timeout');
    return index > 0 || mayBeJsonObject(chunk);
  });
  return continueWith(collected, (read) => {
    if (read instanceof Refusal) return read;
    // The bytes after it may have been refused.
    if (reply.begun) return undefined;
    if (!read.whole) return pass(new PassingBody(reply, read.chunks));
    const body = concat(read.chunks);
    const isRefused = isEnvelope(body) && !request.report('encryption_not_supported');
    return isRefused ? new Refusal('encryption_not_supported') : pass(body);
  });
}

/** Records a body that begins like an envelope. */
function noteEnvelope(first: Buffer, { request }: Reply): void {
  if (beginsLikeEnvelope(first)) request.stats.unexpectedEnvelope = true;
}

/** Whether the first bytes of a body may begin a JSON object. */
function mayBeJsonObject(first: Buffer): boolean {
  for (const byte of first) {
    if (!isWhiteSpace(byte)) return byte === 0x7b;
  }
  return true;
}

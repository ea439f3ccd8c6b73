import { beginsLikeEnvelope, isEnvelope } from '../envelope/envelope.ts';
import { isWhiteSpace } from '../envelope/json.ts';
import { continueWith } from '../continue-with.ts';
import { forward } from './forward.ts';
import { PlainResponse } from './plain-response.ts';
import { Refusal } from './refusal.ts';
import type { Reply } from './reply.ts';
import { collect, concat, isEncoded, PassingBody } from './request-body.ts';
import type { RequestHead } from './request-head.ts';
import type { ServedEnvironment } from './rules.ts';

/**
 * Untouched traffic: bodies of any size stream both ways. Only an encrypting account's JSON is looked at before, because
 * an envelope on a route that does not open it would reach the upstream as nonsense. An account that no longer encrypts may
 * still send envelopes: they are forwarded, and counted by how they begin.
 */
export function passThrough(
  reply: Reply,
  head: RequestHead,
  environment: ServedEnvironment,
  enveloped: boolean,
): Refusal | undefined | Promise<Refusal | undefined> {
  const { encryption, reported, reservation, rules } = reply.request;
  const pass = (body: Buffer | PassingBody | undefined): Refusal | undefined =>
    forward(reply, head, environment, head.plainHeaders, body, new PlainResponse(reply));
  if (head.body.kind === 'none') return pass(undefined);

  const { requestBody } = rules.limits;
  if (encryption === undefined || isEncoded(head) || (head.body.contentLength ?? 0) > requestBody) {
    if (!reservation.takeSlot()) return new Refusal('overloaded');
    if (head.expectsContinue) reply.raw.writeContinue();
    const isWatched = enveloped && encryption === undefined && !isEncoded(head);
    return pass(new PassingBody(reply, [], isWatched ? noteEnvelope : undefined));
  }
  if (head.expectsContinue) reply.raw.writeContinue();
  reply.wait('request_timeout');
  const collected = collect(reply, requestBody, (chunk, index) => {
    reply.wait('request_timeout');
    return index > 0 || mayBeJsonObject(chunk);
  });
  return continueWith(collected, (read) => {
    if (read instanceof Refusal) return read;
    // The bytes after it may have been refused.
    if (reply.begun) return undefined;
    if (!read.whole) return pass(new PassingBody(reply, read.chunks));
    const body = concat(read.chunks);
    if (isEnvelope(body)) {
      if (!rules.report.has('encryption_not_supported')) return new Refusal('encryption_not_supported');
      reported.push('encryption_not_supported');
    }
    return pass(body);
  });
}

/** Takes note of a body that begins like an envelope. */
function noteEnvelope(first: Buffer, { request }: Reply): void {
  if (beginsLikeEnvelope(first)) request.stats.unexpectedEnvelope = true;
}

/** Whether a body may be a JSON object by its first bytes. */
function mayBeJsonObject(first: Buffer): boolean {
  for (const byte of first) {
    if (!isWhiteSpace(byte)) return byte === 0x7b;
  }
  return true;
}

import type { Encryption } from '../accounts/account.ts';
import { isEnvelope } from '../envelope/envelope.ts';
import { isWhiteSpace } from '../envelope/json.ts';
import type { GatewayRequest } from './gateway-request.ts';
import { PlainResponse } from './plain-response.ts';
import { collect, concat, isEncoded, PassingBody } from './request-body.ts';
import type { RequestHead } from './request-head.ts';
import type { ServedEnvironment } from './rules.ts';
import { upstreamHeaders } from './upstream-headers.ts';

/**
 * Untouched traffic: bodies of any size stream both ways. Only an encrypting account's JSON is looked at before, because
 * an envelope on a route that does not open it would reach the upstream as nonsense.
 *
 * @param encryption of the account in this environment, if it is enabled or still accepted
 */
export async function passThrough(
  request: GatewayRequest,
  head: RequestHead,
  environment: ServedEnvironment,
  encryption: Encryption | undefined,
): Promise<void> {
  let lookedAt: readonly Buffer[] = [];
  let body: Buffer | PassingBody | undefined;
  if (head.hasBody) {
    const { requestBody } = request.rules.limits;
    const isLookedAt = encryption !== undefined && !isEncoded(head) && (head.contentLength ?? 0) <= requestBody;
    if (!isLookedAt && !request.takePlace()) return;
    if (head.expectsContinue) request.res.writeContinue();
    if (isLookedAt) {
      request.wait('request_timeout');
      const collected = await collect(request, requestBody, (chunk, index) => {
        request.wait('request_timeout');
        return index > 0 || mayBeJsonObject(chunk);
      });
      // It may have been refused for what stands behind.
      if (request.answered) return;
      if (collected.refusal !== undefined) {
        request.refuse(collected.refusal);
        return;
      }
      if (collected.whole) {
        const whole = concat(collected.chunks);
        if (isEnvelope(whole)) {
          if (!request.rules.report.has('encryption_not_supported')) {
            request.refuse('encryption_not_supported');
            return;
          }
          request.reported.push('encryption_not_supported');
        }
        body = whole;
      }
      lookedAt = collected.chunks;
      if (!request.takePlace()) return;
    }
    body ??= new PassingBody(request, lookedAt);
  }
  const headers = upstreamHeaders(request, head, environment);
  headers.push(...head.plainHeaders);
  // A body that is here in whole has a length, even if it came in chunks.
  const length = Buffer.isBuffer(body) ? body.length : head.contentLength;
  if (length !== undefined) headers.push('Content-Length', String(length));
  request.forward(
    environment.upstream,
    { method: head.method, target: head.target, headers, body },
    new PlainResponse(request),
  );
}

/** Whether a body begins like a JSON object. */
function mayBeJsonObject(first: Buffer): boolean {
  for (const byte of first) {
    if (!isWhiteSpace(byte)) return byte === 0x7b;
  }
  return true;
}

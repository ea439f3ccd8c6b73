import type { Readable } from 'node:stream';
import { z } from 'zod';
import type { AccountWithoutKeys } from '../../accounts/accounts.ts';
import { AccountsError } from '../../accounts/accounts-error.ts';
import type { EnvironmentName } from '../../accounts/api-key.ts';
import { keysFor, masterKeyMissing } from '../../accounts/master-key.ts';
import type { EnvelopeCodec, SealStream } from '../../envelope/codec.ts';
import { encryptionAt, usualSealer } from '../../proxy/admit/sealing.ts';
import { account, endpoint, environment, type Parts } from '../endpoint.ts';
import { ApiProblem } from '../problems.ts';
import { ownerOf } from '../tokens.ts';
import type { EpochMs } from '../../times.ts';

/** How long a whole body may take to arrive, in milliseconds. A body that arrives slowly takes up room that other bodies need. */
const bodyTimeout = 5_000;

/** The response of an endpoint with a raw body. */
export class SealedBody {
  /** The whole envelope. */
  readonly envelope: string;
  /** The fingerprint of the credentials that sealed the envelope. */
  readonly fingerprint: string;

  constructor(envelope: string, fingerprint: string) {
    this.envelope = envelope;
    this.fingerprint = fingerprint;
  }
}

export const sealEndpoint = endpoint({
  method: 'POST',
  path: '/accounts/{account}/encryption/{environment}/seal',
  operation: 'seal_body',
  summary:
    'Seal a body, such as a webhook, for an account, the way the sidecar would now seal a response to that account',
  role: 'core',
  input: z.strictObject({ account, environment }),
  rawBody: true,
  response: { status: 200, view: 'Envelope' },
  run: async (parts, { account: id, environment }, { token }, { now, body, left }) => {
    const found = await parts.find(id);
    if (found === undefined) throw new AccountsError('account_unknown', `account ${id} does not exist`);
    if (keysFor(environment, parts.sidecar().settings.store.masterKeys) === undefined)
      throw masterKeyMissing(environment);
    const codec = chooseCodec(found, environment, now);
    if (body === undefined) throw empty();
    // All bodies for test are charged to one owner, which may hold only half of the budget, so they never keep out bodies for live. In
    // live, the bodies of one account cannot keep out the bodies of another account.
    const owner = environment === 'live' ? ownerOf(token) : environment;
    return new SealedBody(await sealed(body, codec.stream(), parts, owner, left), codec.fingerprint);
  },
});

/** The codec that seals for an account now. @throws AccountsError `encryption_disabled`, `master_key_wrong` */
function chooseCodec(
  { id, encryption, unwrapError }: AccountWithoutKeys,
  environment: EnvironmentName,
  now: EpochMs,
): EnvelopeCodec {
  // An account whose credentials cannot be unwrapped must not be taken for one that does not encrypt.
  if (unwrapError !== undefined) throw new AccountsError('master_key_wrong', unwrapError);
  // Seal the body like a response whose request does not determine the credentials.
  const active = encryptionAt(encryption[environment], now);
  const codec = active && usualSealer(active);
  if (codec !== undefined) return codec;
  throw new AccountsError('encryption_disabled', `account ${id} gets plaintext in ${environment}`);
}

/**
 * Seals a body as it arrives, and returns its envelope. Each piece is charged to the owner before it is sealed, and stays charged until
 * `left` aborts or sealing fails.
 */
async function sealed(
  body: Readable,
  stream: SealStream,
  { sealing, sidecar }: Parts,
  owner: string,
  left: AbortSignal,
): Promise<string> {
  const limit = sidecar().settings.limits.requestBody;
  const pieces: string[] = [];
  let length = 0;
  const late = Promise.withResolvers<never>();
  const timer = setTimeout(
    () => late.reject(new ApiProblem('request_timeout', 'The body took too long to arrive.')),
    bodyTimeout,
  );
  // With `destroyOnReturn`, the connection would be closed before a refusal could be sent.
  const chunks = body.iterator({ destroyOnReturn: false }) as AsyncIterator<Buffer, undefined>;
  try {
    for (;;) {
      const { value: chunk } = await Promise.race([chunks.next(), late.promise]);
      if (chunk === undefined) break;
      if (length + chunk.length > limit)
        throw new ApiProblem('body_too_large', `A body of at most ${limit} bytes can be sealed.`);
      if (!sealing.hold(chunk.length, owner)) throw new ApiProblem('overloaded', 'Too many bodies are being sealed.');
      length += chunk.length;
      pieces.push(stream.update(chunk));
    }
    if (length === 0) throw empty();
    left.throwIfAborted();
  } catch (error) {
    sealing.release(length, owner);
    // Node discards the rest of a body only if nothing has read from that body. If the rest were not discarded here, the next request on
    // the connection would have to wait.
    void chunks.return?.().then(
      () => body.resume(),
      () => {},
    );
    throw error;
  } finally {
    clearTimeout(timer);
  }
  left.addEventListener('abort', () => sealing.release(length, owner), { once: true });
  pieces.push(stream.end());
  return pieces.join('');
}

function empty(): ApiProblem {
  return new ApiProblem('invalid_request', 'There is no body to seal.');
}

import type { EnvelopeCodec, OpenContext } from '../../envelope/codec.ts';
import { createCodec, parseCredentials } from '../../envelope/formats.ts';
import { hintForDocument, hintForPlaintext } from '../../envelope/hints/accepted-hints.ts';
import { hintForHeaders, hintForMissing, hintForTestBody, longestExamined } from '../../envelope/hints/hints.ts';
import { isJsonInSlices, minifyJson } from '../../envelope/json/json.ts';
import { stringMember } from '../../envelope/json/members.ts';
import { findCause } from '../../envelope/hints/diagnosis.ts';
import { inSlices, sliceLength } from '../../slices.ts';
import { Refusal } from '../../errors.ts';
import type { ServerExchange } from '../../http1/exchange.ts';
import { ambiguousBecause } from '../admit/ambiguity.ts';
import type { Admitted } from '../admit/exchange.ts';
import type { CipherTest } from '../admit/target.ts';
import type { OwnTickQueue } from '../../tick-queue.ts';
import { waitingBytes } from '../capacity/reservation.ts';
import type { Responder } from '../respond/responder.ts';
import { isEncoded, readBody, type LongBodies } from './read.ts';

/**
 * How many bytes of a `key` or `iv` header are read. No key or IV is that long, so one with quotes or spaces around it is still recognised.
 */
const maxFieldLength = 256;

/** Maximum time that processing a slice takes, in milliseconds. Between the slices of a body, the process does other work. */
const sliceTime = 1.5;

/** Serves a test endpoint with the key, IV and data that the caller has sent. Nothing is looked up or forwarded. */
export async function runCipherTest(
  responder: Responder,
  { head, environment }: Admitted,
  test: CipherTest,
  queue: OwnTickQueue,
  longBodies: LongBodies,
  context: OpenContext,
): Promise<Refusal | undefined> {
  const { client, http, reservation, snapshot } = responder;
  if (head.method !== 'POST') return new Refusal('method_not_allowed', { allow: 'POST' });
  const [key, iv] = [fieldText(http, 'key'), fieldText(http, 'iv')];
  if (key === undefined || iv === undefined) {
    const twice = key === undefined ? 'key' : 'iv';
    return ambiguousBecause(() => `there are two ${twice} headers: send one`, environment);
  }
  const credentials = parseCredentials(key, iv, 'text');
  // `parseCredentials` accepts an IV in quotes, because it is long enough, so the quotes must be detected here.
  const slip = hintForHeaders(key, iv);
  if (Array.isArray(credentials)) {
    const rules = credentials.map(({ member, message }) => `the ${member} header ${message}`).join('; ');
    return new Refusal('invalid_cipher_test', { hint: slip ?? rules });
  }
  const codec = createCodec(credentials, 'hex');
  if (isEncoded(head)) return new Refusal('unsupported_content_encoding');
  // The body may be evicted until its turn comes, because anyone may send any number of bodies.
  client.letGiveWay(true);
  const read = await readBody(responder, head, snapshot.limits.requestBody, true);
  if (read instanceof Refusal) return read;
  // The request takes no slot, because nothing is sent to the core. Instead, it waits for a turn, and the memory that it takes up meanwhile
  // is charged. If the body is longer than that, only the body is charged, because a body of the maximum length would not fit otherwise.
  const held = waitingBytes(http.head);
  const { promise: turn, resolve } = Promise.withResolvers<void>();
  if (!reservation.waitIn(queue, read.length < held ? held : 0, resolve)) return new Refusal('overloaded');
  await turn;
  let began: number | undefined;
  try {
    const result = await longBodies.run(reservation, read, (body) => {
      client.letGiveWay(false);
      began = performance.now();
      if (test === 'encrypt') return encrypt(body, codec);
      return decrypt(body, codec, context, (data) => slip ?? findCause(examined(data), credentials, key, iv));
    });
    if (responder.settled || result instanceof Refusal) return result instanceof Refusal ? result : undefined;
    const { response, hint } = result;
    if (environment.name === 'test') responder.hint = slip ?? hint;
    responder.send(200, ['Content-Type', 'application/json', 'Cache-Control', 'no-store'], response);
    return undefined;
  } finally {
    const slices = Math.ceil(read.length / sliceLength);
    if (began !== undefined) queue.restAfter(began, slices === 1 ? undefined : slices * sliceTime);
  }
}

interface TestResult {
  readonly response: string | Buffer;
  /** Sent only in the test environment. */
  readonly hint: string | undefined;
}

/** Minifies a document and encrypts it. */
async function encrypt(document: Buffer, codec: EnvelopeCodec): Promise<TestResult | Refusal> {
  if (!(await isJsonInSlices(document))) {
    return new Refusal('invalid_cipher_test', { hint: hintForTestBody(document, 'encrypt') });
  }
  const hint = hintForDocument(document);
  const minified = await minifyJson(document);
  const stream = codec.stream();
  let response = '';
  await inSlices(minified.length, (from, to) => void (response += stream.update(minified.subarray(from, to))));
  return { response: response + stream.end(), hint };
}

/** Decrypts the member `encrypted_data`. @param why explains why a ciphertext did not decrypt to JSON */
async function decrypt(
  body: Buffer,
  codec: EnvelopeCodec,
  context: OpenContext,
  why: (data: Buffer) => string | undefined,
): Promise<TestResult | Refusal> {
  if (!(await isJsonInSlices(body))) {
    return new Refusal('invalid_cipher_test', { hint: hintForTestBody(body, 'decrypt') });
  }
  const data = await stringMember(body, 'encrypted_data');
  if (data === undefined) return new Refusal('invalid_cipher_test', { hint: hintForMissing(body) });
  const opened = await codec.open(data, context);
  if (!Buffer.isBuffer(opened)) return new Refusal('decryption_failed', { hint: why(data) });
  return { response: opened, hint: hintForPlaintext(opened) };
}

/** As much of a ciphertext as decides its hint. The whole text may be long, and would be built in one turn of the event loop. */
function examined(data: Buffer): string {
  return data.toString('utf8', 0, longestExamined + 1);
}

/**
 * The value of a header; empty if there is none, undefined if there are several. The parser reads a head as ISO 8859-1, but the lengths of
 * a key and an IV are counted in UTF-8, so the value is decoded again. Bytes after the first `maxFieldLength` are dropped, because no key
 * or IV is that long.
 */
function fieldText({ head }: ServerExchange, name: string): string | undefined {
  const { fields = [] } = head ?? {};
  const values = fields.filter((_, index) => index % 2 === 1 && fields[index - 1]?.toLowerCase() === name);
  return values.length > 1 ? undefined : Buffer.from((values[0] ?? '').slice(0, maxFieldLength), 'latin1').toString();
}

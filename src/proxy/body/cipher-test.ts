import { codecOf, parseCredentials } from '../../envelope/formats.ts';
import { hintForDocument, hintForPlaintext } from '../../envelope/accepted-hints.ts';
import { hintForHeaders, hintForMissing, hintForTestBody } from '../../envelope/hints.ts';
import { isJson, minifyJson } from '../../envelope/json.ts';
import { stringMember } from '../../envelope/members.ts';
import { tryToDecrypt, type Trial } from '../../envelope/diagnosis.ts';
import { Refusal } from '../../errors.ts';
import type { ServerExchange } from '../../http1/exchange.ts';
import { ambiguousBecause } from '../admit/ambiguity.ts';
import type { Admitted } from '../admit/exchange.ts';
import type { CipherTest } from '../admit/target.ts';
import type { TickQueue } from '../capacity/queues.ts';
import type { Responder } from '../respond/responder.ts';
import { isEncoded, readBody } from './read.ts';

/**
 * The most bytes of a body. A body is processed in one turn of the event loop. A MiB would block live requests for 50
 * milliseconds; 64 KiB take less than 5. Each body waits for its turn.
 */
export const maxCipherTestBytes = 65_536;

/** Test bodies rest for this many times as long as each took, so that they take a quarter of the time at most. */
const restFactor = 3;

/** Serves a test endpoint with the caller's own key, IV and data; nothing is looked up or forwarded. */
export async function runCipherTest(
  responder: Responder,
  { head, environment }: Admitted,
  test: CipherTest,
  queue: TickQueue,
): Promise<Refusal | undefined> {
  const { http, reservation, snapshot } = responder;
  if (head.method !== 'POST') return new Refusal('method_not_allowed', { allow: 'POST' });
  const [key, iv] = [fieldText(http, 'key'), fieldText(http, 'iv')];
  if (key === undefined || iv === undefined) {
    return ambiguousBecause(`there are two ${key === undefined ? 'key' : 'iv'} headers: send one`, environment);
  }
  const credentials = parseCredentials(key, iv, 'text');
  // Quotes around an IV leave it long enough.
  const slip = hintForHeaders(key, iv);
  if (Array.isArray(credentials)) {
    const rules = credentials.map(({ member, message }) => `the ${member} header ${message}`).join('; ');
    return new Refusal('invalid_cipher_test', { hint: slip ?? rules });
  }
  if (isEncoded(head)) return new Refusal('unsupported_content_encoding');
  reservation.givesWay = true;
  const read = await readBody(responder, head, Math.min(maxCipherTestBytes, snapshot.limits.requestBody), true);
  reservation.givesWay = false;
  if (read instanceof Refusal) return read;
  // Because no key is needed here.
  if (!reservation.takeAnonymousSlot(environment.name)) return new Refusal('overloaded');
  await reservation.wait(queue);
  const before = performance.now();
  try {
    if (!isJson(read)) return new Refusal('invalid_cipher_test', { hint: hintForTestBody(read, test) });
    const result =
      test === 'encrypt' ? minifyJson(read) : decrypt(read, slip, (data) => tryToDecrypt(data, credentials, key, iv));
    if (result instanceof Refusal) return result;
    if (environment.name === 'test') {
      responder.hint = slip ?? (test === 'encrypt' ? hintForDocument(read) : hintForPlaintext(result));
    }
    responder.send(
      200,
      ['Content-Type', 'application/json', 'Cache-Control', 'no-store'],
      test === 'encrypt' ? codecOf(credentials, 'hex').seal(result) : result,
    );
    return undefined;
  } finally {
    queue.rest(restFactor * (performance.now() - before));
  }
}

function decrypt(body: Buffer, slip: string | undefined, attempt: (data: string) => Trial): Buffer | Refusal {
  const data = stringMember(body, 'encrypted_data');
  if (data === undefined) {
    return new Refusal('invalid_cipher_test', { hint: hintForMissing(body) });
  }
  const trial = attempt(data);
  return 'plaintext' in trial ? trial.plaintext : new Refusal('decryption_failed', { hint: slip ?? trial.cause });
}

/**
 * The value of a field, empty without one; undefined if there are several. The bytes of a head are read as ISO 8859-1; the text
 * format counts UTF-8.
 */
function fieldText({ head }: ServerExchange, name: string): string | undefined {
  const { fields = [] } = head ?? {};
  const values = fields.filter((_, index) => index % 2 === 1 && fields[index - 1]?.toLowerCase() === name);
  return values.length > 1 ? undefined : Buffer.from(values[0] ?? '', 'latin1').toString();
}

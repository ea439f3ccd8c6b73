import { codecOf, parseCredentials } from '../envelope/formats.ts';
import { hintForHeaders } from '../envelope/hints.ts';
import { isJson, minifyJson } from '../envelope/json.ts';
import { tryToDecrypt, type Trial } from '../envelope/diagnosis.ts';
import type { Admitted, CipherTest } from './admitted.ts';
import { Refusal } from './refusal.ts';
import { isEncoded, readBody } from './request-body.ts';
import type { Turns } from './turns.ts';

/** The test endpoints by lower-case path. */
const endpoints: Readonly<Record<string, CipherTest | undefined>> = {
  '/api/s2s/aes-encrypt': 'encrypt',
  '/api/s2s/aes-decrypt': 'decrypt',
};

/**
 * The most bytes of a body. A body is processed in one turn of the event loop. A MiB would block live requests for 50
 * milliseconds; 64 KiB take less than 5. Each body waits for its turn.
 */
const maxBytes = 65_536;

/** The test endpoint of a path, in any letter case and with or without a trailing slash, as routes match. */
export function cipherTestOf(path: string): CipherTest | undefined {
  return endpoints[path.toLowerCase().replace(/\/$/, '')];
}

/** Serves a test endpoint with the caller's own key, IV and data; nothing is looked up or forwarded. */
export async function runCipherTest(admitted: Admitted, test: CipherTest, turns: Turns): Promise<Refusal | undefined> {
  const { reply, head } = admitted;
  if (head.method !== 'POST') return new Refusal('method_not_allowed', { allow: 'POST' });
  const { raw, reservation } = reply.request;
  // Node decodes header bytes as ISO 8859-1; the text format counts UTF-8.
  const [key, iv] = [utf8(raw.headers['key']), utf8(raw.headers['iv'])];
  const credentials = parseCredentials(key, iv, 'text');
  if (Array.isArray(credentials)) {
    const rules = credentials.map(({ member, message }) => `the ${member} header ${message}`).join('; ');
    return new Refusal('invalid_cipher_test', { hint: hintForHeaders(key, iv) ?? rules });
  }
  if (isEncoded(head)) return new Refusal('unsupported_content_encoding');
  const body = await readBody(admitted, maxBytes);
  if (body instanceof Refusal) return body;
  // Always charged as keyless, because no key is needed here.
  if (!reservation.takeSlot('keyless')) return new Refusal('overloaded');
  await turns.next();
  if (reply.over || reply.begun) return undefined;
  if (!isJson(body)) return new Refusal('invalid_cipher_test', { hint: 'the body is not JSON' });
  const result =
    test === 'encrypt'
      ? codecOf(credentials, 'hex').seal(minifyJson(body))
      : decrypt(body, (data) => tryToDecrypt(data, credentials, key, iv));
  if (result instanceof Refusal) return result;
  reply.send(200, ['Content-Type', 'application/json', 'Cache-Control', 'no-store'], result);
  return undefined;
}

function decrypt(body: Buffer, attempt: (data: string) => Trial): Buffer | Refusal {
  const document: unknown = JSON.parse(body.toString());
  const data =
    document !== null && typeof document === 'object' && 'encrypted_data' in document
      ? document.encrypted_data
      : undefined;
  if (typeof data !== 'string') {
    return new Refusal('invalid_cipher_test', { hint: 'the body has no "encrypted_data" string' });
  }
  const trial = attempt(data);
  return 'plaintext' in trial ? trial.plaintext : new Refusal('decryption_failed', { hint: trial.cause });
}

function utf8(header: string | string[] | undefined): string {
  return typeof header === 'string' ? Buffer.from(header, 'latin1').toString() : '';
}

import { parseCredentials, type Credentials } from '../envelope/credentials.ts';
import { decodeCiphertext } from '../envelope/encoding.ts';
import { AesCbc } from '../envelope/aes-cbc.ts';
import { diagnose } from '../envelope/diagnosis.ts';
import { hintForData, hintForHeaders, slipOfData } from '../envelope/hints.ts';
import { isJson, minifyJson } from '../envelope/json.ts';
import type { GatewayRequest } from './gateway-request.ts';
import { isEncoded, readBody } from './request-body.ts';
import type { RequestHead } from './request-head.ts';

/** The two endpoints with which merchants try their own code, by lower-case path. */
const endpoints: Readonly<Record<string, 'encrypt' | 'decrypt' | undefined>> = {
  '/api/s2s/aes-encrypt': 'encrypt',
  '/api/s2s/aes-decrypt': 'decrypt',
};

/**
 * Bytes of a body. Whatever a stranger sends is worked on in one piece, and a MiB would keep live requests waiting for 50
 * milliseconds: this takes less than 5.
 */
const mostBytes = 65_536;

/** The test endpoint a path names, in any case and with or without a trailing slash, as routes match. */
export function cipherTestOf(path: string): 'encrypt' | 'decrypt' | undefined {
  return endpoints[path.toLowerCase().replace(/\/$/, '')];
}

/** Answers a test endpoint: the caller's own key and IV, its own data; nothing is looked up and nothing forwarded. */
export async function answerCipherTest(
  request: GatewayRequest,
  head: RequestHead,
  test: 'encrypt' | 'decrypt',
): Promise<void> {
  if (head.method !== 'POST') {
    request.refuse('method_not_allowed', { allow: 'POST' });
    return;
  }
  // Node hands header bytes out as ISO 8859-1; the text format counts UTF-8.
  const [key, iv] = [utf8(request.req.headers['key']), utf8(request.req.headers['iv'])];
  const credentials = parseCredentials(key, iv, 'text');
  if (Array.isArray(credentials)) {
    const rules = credentials.map(({ member, message }) => `the ${member} header ${message}`).join('; ');
    request.refuse('invalid_cipher_test', { hint: hintForHeaders(key, iv) ?? rules });
    return;
  }
  if (isEncoded(head)) {
    request.refuse('unsupported_content_encoding');
    return;
  }
  const body = await readBody(request, head, mostBytes);
  if (typeof body === 'string') {
    request.refuse(body);
    return;
  }
  // Whatever key was sent, none is needed here.
  if (!request.takePlace('keyless')) return;
  if (!isJson(body)) request.refuse('invalid_cipher_test', { hint: 'the body is not JSON' });
  else if (test === 'encrypt') answerJson(request, new AesCbc(credentials, 'hex').seal(minifyJson(body)));
  else answerDecrypt(request, credentials, body, (ciphertext) => diagnose(ciphertext, key, iv));
}

/** @param diagnose says why a ciphertext does not open: the caller holds the key here, so it may be told padding from JSON */
function answerDecrypt(
  request: GatewayRequest,
  credentials: Credentials,
  body: Buffer,
  diagnose: (ciphertext: Buffer) => string,
): void {
  const document: unknown = JSON.parse(body.toString());
  const data =
    document !== null && typeof document === 'object' && 'encrypted_data' in document
      ? document.encrypted_data
      : undefined;
  if (typeof data !== 'string') {
    request.refuse('invalid_cipher_test', { hint: 'the body has no "encrypted_data" string' });
    return;
  }
  const ciphertext = decodeCiphertext(data);
  const decrypted = ciphertext === undefined ? 'length' : credentials.cipher.decrypt(ciphertext);
  if (ciphertext === undefined || decrypted === 'length') {
    request.refuse('decryption_failed', { hint: hintForData(data) });
  } else if (!decrypted.paddingOk || !isJson(decrypted.plaintext)) {
    request.refuse('decryption_failed', { hint: slipOfData(data) ?? diagnose(ciphertext) });
  } else {
    answerJson(request, decrypted.plaintext);
  }
}

function answerJson(request: GatewayRequest, body: string | Buffer): void {
  const headers = request.responseHeaders();
  headers.push('Content-Type', 'application/json', 'Cache-Control', 'no-store');
  request.answer(200, headers, body);
}

function utf8(header: string | string[] | undefined): string {
  return typeof header === 'string' ? Buffer.from(header, 'latin1').toString() : '';
}

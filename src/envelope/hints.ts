import { hexDigits } from './ciphertext-hints.ts';
import type { EnvelopeOpener } from './codec.ts';
import { decodeBase64, decodeCiphertext } from './encoding.ts';
import type { OpenFailure } from './envelope.ts';
import { isJson } from './json.ts';
import { soleData } from './sole-member.ts';

/**
 * The likely mistake in a body that did not open, for merchants in the test environment. It depends on the body as sent only:
 * the result of decryption is not known here, so no hint can leak it.
 *
 * @param opener of the current credentials
 */
export function hintForBody(body: Buffer, code: OpenFailure['code'], opener: EnvelopeOpener): string {
  const text = body.toString();
  if (code === 'envelope_required') return requiredHint(JSON.parse(text));
  if (code === 'envelope_malformed') return isJson(body) ? shapeHint(text) : notJsonHint(body);
  return opener.hint(soleData(text) ?? '');
}

const asEnvelope = 'send {"data":"<ciphertext>"}';

function notJsonHint(body: Buffer): string {
  const text = body.toString('latin1');
  if (text.startsWith('\xef\xbb\xbf')) return 'the body begins with a byte order mark: send UTF-8 without one';
  if (/^(?:\xff\xfe|\xfe\xff)/.test(text) || /^\{\0|^\0\{/.test(text)) return 'the body is UTF-16: send UTF-8';
  if (/^\s*data=/.test(text)) return `the body is a form: ${asEnvelope} as JSON`;
  if (/\S/.test(text) && decodeCiphertext(text.trim()) !== undefined)
    return `the body is the bare ciphertext: ${asEnvelope}`;
  if (/^\s*\{[^{}]*\}\s*$/.test(text) && isJson(Buffer.from(text.replace(/[\r\n\t]/g, ''), 'latin1')))
    return 'a string contains a line break or a tab: encode the ciphertext without line breaks';
  return `the body is not JSON: ${asEnvelope}`;
}

/** @param value a JSON value without a member `data` */
function requiredHint(value: unknown): string {
  if (typeof value === 'string') {
    if (soleData(value) !== undefined) return 'the envelope was serialised twice: send the object itself';
    return `the body is a JSON string: ${asEnvelope}`;
  }
  if (typeof value !== 'object' || value === null || Array.isArray(value)) return `not a JSON object: ${asEnvelope}`;
  const names = Object.keys(value);
  if (names.some((name) => name.toLowerCase() === 'data')) return 'the member must be named "data", in lower case';
  if (names.includes('encrypted_data')) return 'the member must be named "data"; "encrypted_data" is for aes-decrypt';
  return `this account has encryption on: ${asEnvelope}`;
}

/** @param text a JSON object with a member `data` that is not its only one, or not a string */
function shapeHint(text: string): string {
  const { data } = JSON.parse(text) as { readonly data: unknown };
  if (data === null || data === false || data === '') return '"data" is empty: your encryption failed';
  if (typeof data !== 'string') return '"data" must be a string: the ciphertext in hex or base64';
  return '"data" must be the only member and appear once: put other members into the plaintext';
}

/** The likely mistake in the `key` and `iv` headers of the test endpoints. Never a value. */
export function hintForHeaders(key: string, iv: string): string | undefined {
  const headers = Object.entries({ key, iv });
  const missing = headers.filter(([, value]) => value === '').map(([name]) => name);
  if (missing.length > 0)
    return `the ${missing.join(' header and the ')} header ${missing.length > 1 ? 'are' : 'is'} missing`;
  const quoted = headers.find(([, value]) => /^(["']).*\1$/.test(value));
  if (quoted !== undefined) return `the ${quoted[0]} header is in quotes: remove the quotes`;
  const [keyBytes, ivBytes] = [Buffer.byteLength(key), Buffer.byteLength(iv)];
  if (keyBytes < 32 && keyBytes >= 16 && ivBytes === 32) return 'key and iv seem to be swapped';
  if (keyBytes === 44 && decodeBase64(key)?.length === 32) return notDecoded('base64');
  if (keyBytes === 64 && hexDigits.test(key)) return notDecoded('hex');
  return undefined;
}

function notDecoded(encoding: string): string {
  return `the key header looks like ${encoding} of 32 bytes: send the 32 characters as you received them`;
}

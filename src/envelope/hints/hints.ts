import { isWholeBlocks } from '../aes-cbc.ts';
import { hexDigits } from '../ciphertext-hints.ts';
import type { EnvelopeOpener } from '../codec.ts';
import { decodeBase64, decodeCiphertext } from '../encoding.ts';
import type { OpenFailure } from '../envelope.ts';
import { isJson, jsonFaultAt, quote } from '../json/json.ts';
import { MemberReader, memberAt, skipWhiteSpace, stringAt } from '../json/members.ts';
import { faultInJson } from './plaintext-hints.ts';
import { readDataMember } from '../json/sole-member.ts';

/** Maximum length in bytes of a body, ciphertext or plaintext that is examined. This is enough for people who are trying things out. */
export const longestExamined = 65_536;

export const noHint = 'no hint for a body above 64 KiB: try a shorter one';

/**
 * The likely mistake in a body that could not be opened, for merchants in the test environment. The hint depends only on the body as sent.
 * The result of decryption is not known here, so no hint can leak it.
 *
 * @param opener the opener with the current credentials
 */
export function hintForBody(body: Buffer, code: OpenFailure['code'], opener: EnvelopeOpener): string {
  if (body.length > longestExamined) return noHint;
  if (code === 'envelope_required') return requiredHint(body);
  if (code === 'envelope_malformed') return isJson(body) ? shapeHint(body) : notJsonHint(body, asEnvelope);
  return opener.hint(readData(body)?.toString() ?? '');
}

/** Like `readDataMember`, for a body that is short enough not to be read in slices. */
function readData(body: Buffer): Buffer | undefined {
  const data = readDataMember(body);
  return data instanceof Promise ? undefined : data;
}

const asEnvelope = 'send {"data":"<ciphertext>"}';

/** @param remedy what to send instead */
function notJsonHint(body: Buffer, remedy: string): string {
  const text = body.toString('latin1');
  if (text.startsWith('\xef\xbb\xbf')) return 'the body begins with a byte order mark: send UTF-8 without one';
  if (/^(?:\xff\xfe|\xfe\xff)/.test(text) || /^\{\0|^\0\{/.test(text)) return 'the body is UTF-16: send UTF-8';
  if (/^\s*(?:encrypted_)?data=/.test(text)) return `the body is a form: ${remedy} as JSON`;
  if (/^--.*\r?\ncontent-disposition:/i.test(text)) return `the body is a multipart form: ${remedy} as JSON`;
  if (/^\s*<[?!\w]/.test(text)) return `the body looks like XML: ${remedy} as JSON`;
  if (isCiphertext(text.trim())) return `the body looks like the bare ciphertext: ${remedy}`;
  if (/^\s*\{[^{}]*\}\s*$/.test(text) && isJson(Buffer.from(text.replace(/[\r\n\t]/g, ''), 'latin1')))
    return 'a string contains a line break or a tab: encode the ciphertext without line breaks';
  const at = jsonFaultAt(body);
  const fault = faultInJson(body, at);
  return `the body is not JSON at byte ${at}${fault === undefined ? '' : `, ${fault}`}: ${remedy}`;
}

/** Whether `text` decodes to one or more whole blocks. */
function isCiphertext(text: string): boolean {
  const ciphertext = decodeCiphertext(text);
  return ciphertext !== undefined && isWholeBlocks(ciphertext);
}

const asEncrypted = 'send {"encrypted_data":"<ciphertext>"}';

/** The likely mistake in a body that was sent to a test endpoint and is not JSON. */
export function hintForTestBody(body: Buffer, test: 'encrypt' | 'decrypt'): string {
  if (body.length > longestExamined) return noHint;
  if (!/[^ \t\r\n]/.test(body.toString('latin1'))) {
    return `the body is empty: ${test === 'encrypt' ? 'send a JSON document' : asEncrypted}`;
  }
  return notJsonHint(body, test === 'encrypt' ? 'send a JSON document' : asEncrypted);
}

/** The likely mistake in a JSON body that has no string in `encrypted_data`. */
export function hintForMissing(body: Buffer): string {
  if (body.length > longestExamined) return noHint;
  const from = skipWhiteSpace(body, 0);
  if (body[from] === quote) return `the body is a JSON string: ${asEncrypted}`;
  const names: (string | undefined)[] = [];
  new MemberReader((name) => names.push(name)).read(body, 0, body.length);
  if (names.includes('encrypted_data')) return '"encrypted_data" must be a string: the ciphertext in hex or base64';
  if (names.includes('data')) return 'the member must be named "encrypted_data" here; "data" is for envelopes';
  const alike = names.find((name) => name?.toLowerCase().replace(/[^a-z]/g, '') === 'encrypteddata');
  if (alike !== undefined) return 'the member must be named "encrypted_data", in lower case and with an underscore';
  return 'the body has no "encrypted_data" string';
}

/** @param body JSON without a member `data` */
function requiredHint(body: Buffer): string {
  const from = skipWhiteSpace(body, 0);
  if (/^(?:\{\s*\}|\[\s*\]|null|"")\s*$/.test(body.toString('latin1', from, from + longestEmpty)))
    return 'the body is empty JSON: send no body if there is nothing to send, as with GET and DELETE';
  if (body[from] === quote) {
    if (readData(Buffer.from(stringAt(body, from))) !== undefined)
      return 'the envelope was serialised twice: send the object itself';
    return `the body is a JSON string: ${asEnvelope}`;
  }
  if (body[from] !== 0x7b) {
    const isInList = body[from] === 0x5b && /^\[\s*\{\s*"data"\s*:\s*"/.test(body.toString('latin1', from));
    return isInList ? 'the envelope is in a list: send the object itself' : `not a JSON object: ${asEnvelope}`;
  }
  const names: (string | undefined)[] = [];
  const members = new MemberReader((name) => names.push(name));
  members.read(body, 0, body.length);
  if (names.some((name) => name?.toLowerCase() === 'data')) return 'the member must be named "data", in lower case';
  if (names.includes('encrypted_data')) return 'the member must be named "data"; "encrypted_data" is for aes-decrypt';
  const [name] = names;
  if (names.length === 1 && name !== undefined) {
    const sole = body.subarray(memberAt(body, name));
    if (/^\{\s*"data"\s*:\s*"/.test(sole.toString('latin1')))
      return 'the envelope is within another object: send it alone';
    if (sole[0] === quote && isCiphertext(stringAt(sole, 0)))
      return 'if this is a ciphertext, its member must be named "data"; if not, encrypt the document';
  }
  return `encryption is on for this account: ${asEnvelope}`;
}

/** Maximum length of an empty JSON value with some white space, in bytes. */
const longestEmpty = 64;

/** @param body a JSON object with a member `data` that is not its only member, or that is not a string */
function shapeHint(body: Buffer): string {
  const value = body.toString('latin1', memberAt(body, 'data'));
  if (/^(?:null|false|"")/.test(value)) return '"data" is empty: your encryption failed';
  if (/^(?:\[\s*\d|\{\s*"type"\s*:\s*"Buffer")/.test(value))
    return '"data" looks like a list of byte values: write the ciphertext in hex or base64';
  if (/^[{[]/.test(value))
    return '"data" is not encrypted: anyone who sees it can read it; send the ciphertext in hex or base64';
  if (!value.startsWith('"')) return '"data" must be a string: the ciphertext in hex or base64';
  return '"data" must be the only member and appear once: put other members into the plaintext';
}

/** The likely mistake in the `key` and `iv` headers of the test endpoints. Never contains a value. */
export function hintForHeaders(key: string, iv: string): string | undefined {
  const headers = Object.entries({ key, iv });
  const missing = headers.filter(([, value]) => value === '').map(([name]) => name);
  if (missing.length > 0)
    return `the ${missing.join(' header and the ')} header ${missing.length > 1 ? 'are' : 'is'} missing`;
  const quoted = headers.find(([, value]) => /^(["']).*\1$/.test(value));
  if (quoted !== undefined) return `the ${quoted[0]} header is in quotes: remove the quotes`;
  const [keyBytes, ivBytes] = [Buffer.byteLength(key), Buffer.byteLength(iv)];
  if (/\b[ps]k_(?:test|live)_/.test(key)) return 'the key header is an API key: send the encryption key';
  if (keyBytes < 32 && keyBytes >= 16 && ivBytes === 32) return 'key and iv seem to be swapped';
  if (keyBytes === 44 && decodeBase64(key)?.length === 32) return notDecoded('base64');
  if (keyBytes === 64 && hexDigits.test(key)) return notDecoded('hex');
  if (keyBytes !== 32 && /%[0-9A-F]{2}/i.test(key))
    return 'the key header looks percent-encoded: send it without percent-encoding';
  return undefined;
}

function notDecoded(encoding: string): string {
  return `the key header looks like ${encoding} of 32 bytes: send the 32 characters as you received them`;
}

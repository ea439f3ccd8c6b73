import { isWholeBlocks } from '../aes-cbc.ts';
import { decodeCiphertext } from '../encoding.ts';
import { longestExamined } from './hints.ts';
import { isJson, quote } from '../json/json.ts';
import { MemberReader, memberAt, skipWhiteSpace, stringAt } from '../json/members.ts';
import { findPadding } from './paddings.ts';

/**
 * JSON white space that may also be padding. Tabs, line feeds and carriage returns may be PKCS#7 padding of 9, 10 or 13 bytes. Spaces may
 * be padding with spaces, or PKCS#7 padding of 32 bytes to a larger block.
 */
const paddings = new Set(Buffer.from('\t\n\r '));

/**
 * The likely mistake in a plaintext that is JSON and therefore accepted, for merchants in the test environment. The hint has at most 200
 * characters, all ASCII, and quotes nothing from the plaintext.
 */
export function hintForPlaintext(plaintext: Buffer): string | undefined {
  if (plaintext.length > longestExamined) return undefined;
  return hintForValue(plaintext) ?? hintForPadding(plaintext);
}

function hintForValue(plaintext: Buffer): string | undefined {
  const from = skipWhiteSpace(plaintext, 0);
  if (plaintext[from] === quote) return hintForText(stringAt(plaintext, from));
  const beginning = plaintext.toString('latin1', from, from + 64);
  return /^\{\s*"data"/.test(beginning) ? hintForSoleData(plaintext) : undefined;
}

function hintForText(text: string): string | undefined {
  const document = /^\s*[[{"]/.test(text) && isJson(Buffer.from(text));
  return document
    ? 'the plaintext is a JSON string that contains JSON: it was serialised twice; encrypt the document itself'
    : undefined;
}

function hintForSoleData(plaintext: Buffer): string | undefined {
  let members = 0;
  new MemberReader(() => (members += 1)).read(plaintext, 0, plaintext.length);
  if (members !== 1) return undefined;
  const at = memberAt(plaintext, 'data');
  if (at === undefined) return undefined;
  const text = plaintext[at] === quote ? stringAt(plaintext, at) : '';
  const ciphertext = text === '' ? undefined : decodeCiphertext(text);
  if (ciphertext !== undefined && isWholeBlocks(ciphertext)) {
    return 'the plaintext looks like an envelope itself: it was sealed twice; seal it once';
  }
  return 'the plaintext is an object with only "data", which the API gets unchanged: encrypt only its value, unless "data" is intended';
}

function hintForPadding(plaintext: Buffer): string | undefined {
  if (!paddings.has(plaintext.at(-1) ?? 0) || !isWholeBlocks(plaintext)) return undefined;
  const padding = findPadding(plaintext, isJson);
  if (padding?.name === '')
    return 'the white space after the JSON is PKCS#7 padding: the plaintext was padded twice; remove your padding, because your library adds its own';
  const spaces = plaintext.length - plaintext.toString('latin1').trimEnd().length;
  return spaces > 1 && plaintext.at(-1) === 0x20
    ? 'spaces after the JSON fill the last block: the plaintext was padded twice; remove your padding, because your library adds its own'
    : undefined;
}

/** The likely mistake in a document that was sent to aes-encrypt. */
export function hintForDocument(document: Buffer): string | undefined {
  if (document.length > longestExamined) return undefined;
  const at = memberAt(document, 'encrypted_data');
  if (at !== undefined && document[at] === quote) {
    return 'the document has "encrypted_data", and all of it was encrypted: that member is for aes-decrypt';
  }
  return hintForPlaintext(document);
}

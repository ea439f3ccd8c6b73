import { isUtf8 } from 'node:buffer';
import { blockLength, isWholeBlocks } from './aes-cbc.ts';
import { decodeBase64, decodeCiphertext } from './encoding.ts';
import { MemberReader } from './json/members.ts';
import { isJson } from './json/json.ts';

export const wrongCredentials =
  'wrong key or IV, or the plaintext is not JSON; check that the key and the IV are used as text, that the padding is PKCS#7, ' +
  'and that there is no byte order mark; /api/s2s/aes-decrypt names the cause';

export const hexDigits = /^[0-9A-Fa-f]+$/;

/** Returns a hint about the likely mistake in an envelope's string. */
export function hintForCiphertext(data: string): string {
  return findCiphertextMistake(data) ?? wrongCredentials;
}

/** Returns a hint about the form of the string; undefined if the string may be a ciphertext. The hint has at most 200 characters. */
export function findCiphertextMistake(data: string): string | undefined {
  if (data === '') return 'the string is empty: your encryption failed';
  const word = words.find(([form]) => form.test(data));
  if (word !== undefined) return word[1];
  const ciphertext = decodeCiphertext(data);
  if (ciphertext === undefined) return encodingHint(data);
  return findBytesMistake(ciphertext, hexDigits.test(data) ? 'hex' : 'base64');
}

/** Strings that programs write for a missing value, or for an object instead of its bytes. Some of these strings are also base64. */
const words: readonly (readonly [RegExp, string])[] = [
  [/^(?:undefined|null|None|nil|NULL|NaN|false|true|False|True)$/, 'a word for "no value": your encryption failed'],
  [
    /^(?:\[object [A-Za-z]+\]|\[B@[0-9a-f]+|System\.Byte\[\]|Array|<Buffer .*|<?memory at .*|#<.*)$/s,
    'the name of an object, not its bytes: write the bytes in hex or base64',
  ],
];

/** Formats of other libraries, by their first bytes. The probability that a ciphertext begins like one of these is 2^-32 or less. */
const foreign: readonly (readonly [beginning: string, hint: string])[] = [
  // OpenSSL's format for passphrases, which CryptoJS uses if the key is a string.
  ['Salted__', 'looks like passphrase encryption: pass the key as bytes, not as a string'],
  ['\x80\0\0\0\0', 'a Fernet token: use AES-256-CBC with your key and IV'],
  ['\xde\xf5\x02\0', "a ciphertext of PHP's defuse/php-encryption: use AES-256-CBC with your key and IV"],
  ['\x1f\x8b\x08\0', 'compressed with gzip: send the ciphertext uncompressed'],
  ['-----BEGIN ', 'PEM: write the ciphertext alone in hex or base64'],
];

function findBytesMistake(ciphertext: Buffer, outer: 'hex' | 'base64'): string | undefined {
  const inner = ciphertext.toString('latin1');
  const format = foreign.find(([beginning]) => inner.startsWith(beginning));
  if (format !== undefined) return format[1];
  const again = decodeCiphertext(inner.trim());
  if (again !== undefined && isWholeBlocks(again)) {
    return `looks like ${outer} of ${hexDigits.test(inner.trim()) ? 'hex' : 'base64'}`;
  }
  const text = textHint(ciphertext.toString(), outer);
  if (text !== undefined) return text;
  if (isUtf8(ciphertext) && ciphertext.includes('\ufffd')) return charsetHint;
  const asLatin1 = isUtf8(ciphertext) ? Buffer.from(ciphertext.toString(), 'latin1') : ciphertext;
  if (
    asLatin1.length < ciphertext.length &&
    asLatin1.toString('latin1') === ciphertext.toString() &&
    isWholeBlocks(asLatin1)
  )
    return 'the ciphertext was converted to UTF-8 text before it was encoded: encode its raw bytes';
  if (isWholeBlocks(ciphertext)) return undefined;
  return `the ciphertext is not a multiple of ${blockLength} bytes: perhaps it was cut, was made in a mode other than CBC, such as GCM or CTR, or is not a ciphertext`;
}

const charsetHint =
  'the bytes of the ciphertext were decoded as text, which destroyed some of them (U+FFFD): write them in hex or base64';

/** Returns a hint if the string, or the text that it encodes, is JSON; otherwise undefined. */
function textHint(text: string, encoded?: 'hex' | 'base64'): string | undefined {
  const trimmed = text.trim();
  if (!/^[[{"]/.test(trimmed)) return undefined;
  const json = Buffer.from(trimmed);
  if (!isJson(json)) return undefined;
  if (/^\[\s*-?\d+\s*(?:,\s*-?\d+\s*)*\]$/.test(trimmed)) return byteList;
  if (trimmed.startsWith('"')) return 'the string is in quotes: it was serialised twice';
  // The document is not parsed into objects, because thousands of objects with different members would take milliseconds.
  const names: (string | undefined)[] = [];
  new MemberReader((name) => names.push(name)).read(json, 0, json.length);
  if (names.join() === 'type,data') return byteList;
  if (names.join() === 'data') return 'an envelope within the envelope: "data" must be the ciphertext alone';
  if (names.includes('iv') && names.includes('value')) {
    return "the output of Laravel's encrypter: use openssl_encrypt() with your key and IV";
  }
  if (names.includes('iv') || names.includes('ct') || names.includes('ciphertext')) {
    return 'a JSON object with the ciphertext in it: send the ciphertext alone in hex or base64';
  }
  return encoded === undefined
    ? 'plain JSON, not encrypted: anyone who sees it can read it'
    : `JSON in ${encoded}, which is not encrypted: anyone who sees it can read it`;
}

const byteList = 'a list of byte values: write the bytes in hex or base64';

/** The forms that languages and libraries write instead of plain hex or base64, each with its remedy. They are tried in this order. */
const printed: readonly (readonly [RegExp, string])[] = [
  [/^[0-9A-Fa-f]{2}(?:-[0-9A-Fa-f]{2})+$/, 'dashes between the bytes, as BitConverter writes them: remove them'],
  [/^[0-9A-Fa-f]{2}(?::[0-9A-Fa-f]{2})+$/, 'colons between the bytes: remove them'],
  [/^[0-9A-Fa-f]{2}(?: [0-9A-Fa-f]{2})+ ?$/, 'spaces between the bytes: remove them'],
  [/^0[xX][0-9A-Fa-f]+$/, '"0x" before the hex digits: remove it'],
  [/^(?:0x[0-9A-Fa-f]{1,2},? ?)+$/, '"0x" before the bytes: write hex digits alone'],
  [/^(?:\\x[0-9A-Fa-f]{2})+$/, '"\\x" before the bytes: write hex digits alone'],
  [/^\\x[0-9A-Fa-f]+$/, '"\\x" before the hex digits: remove it'],
  [/^[Xx]'[0-9A-Fa-f]*'$/, "SQL's X'…': write hex digits alone"],
  [/^b(['"]).*\1$/s, "printed as Python's b'…': decode the bytes to a string first"],
  [/^(["'`]).*\1$/s, 'the string is in quotes: it was serialised twice'],
  [/^\[?-?\d{1,3}(?:,\s*-?\d{1,3})+\]?$/, byteList],
  [/^eyJ[\w-]*\.[\w.-]*$/, 'a JWT or a JWE: use AES-256-CBC with your key and IV'],
  [/^gAAAAA[\w-]*=*$/, 'a Fernet token: use AES-256-CBC with your key and IV'],
  [/^[\w+/=]+(?:--[\w+/=]+){1,2}$/, "the output of Rails' MessageEncryptor: use OpenSSL::Cipher with your key and IV"],
  [/^-----BEGIN /, 'PEM: write the ciphertext alone in hex or base64'],
  [/^data:[^,]*,/, 'a "data:" URL: send what follows its comma'],
  [/^(?:base64|hex):/i, 'the ciphertext begins with the name of its encoding: remove it'],
  [/^vault:v\d+:/, "a ciphertext of Vault's transit engine: use AES-256-CBC with your key and IV"],
  [/^ENC\(.*\)$/s, "Jasypt's ENC(…): use AES-256-CBC with your key and IV"],
  [/^\$[\w-]+\$/, 'the hash of a password, not a ciphertext'],
  [/%[0-9A-Fa-f]{2}/, 'percent-encoded: send the string without percent-encoding'],
  [/&(?:#\w+|amp|quot);/, 'escaped for HTML: send the string without HTML escapes'],
  [/\\\//, 'the slashes were escaped twice: remove the backslashes'],
  [/\\[rn]/, 'line breaks were escaped into the string: encode without line breaks'],
  [/\ufffd/, charsetHint],
];

/** Matches parts joined by separators: a ciphertext and an IV, and perhaps a tag or MAC. */
const joint = /^([0-9A-Za-z+/=]+)[:.,;|$]([0-9A-Za-z+/=]+)(?:[:.,;|$][0-9A-Za-z+/=]+)?$/;

function encodingHint(data: string): string {
  if (hexDigits.test(data)) return 'odd number of hex digits';
  for (const [form, hint] of printed) if (form.test(data)) return hint;
  const text = textHint(data);
  if (text !== undefined) return text;
  const [, first = '', second = ''] = joint.exec(data) ?? [];
  if (decodeCiphertext(first) !== undefined && decodeCiphertext(second) !== undefined && second !== '') {
    return 'parts joined by a separator, such as an IV and a ciphertext: send the ciphertext alone, with the IV you were given';
  }
  if (/[^\s!-~]/.test(data)) return 'not ASCII, perhaps the bytes themselves: write them in hex or base64';
  if (/\s/.test(data)) return whiteSpaceHint(data);
  return alphabetHint(data);
}

function whiteSpaceHint(data: string): string {
  const plus = data.includes(' ') && decodeBase64(data.replaceAll(' ', '+')) !== undefined;
  if (plus && decodeBase64(data.replaceAll(' ', '')) === undefined) {
    return 'there is a space where base64 has "+": the string was decoded as a form; percent-encode "+", or send JSON';
  }
  return 'the string contains white space or a line break';
}

function alphabetHint(data: string): string {
  if (/^[A-Z2-7]{8,}={3,6}$/.test(data)) return 'looks like base32: use hex or base64';
  const standard = withoutPadding(data.replaceAll('-', '+').replaceAll('_', '/'));
  const bytes = Buffer.from(standard, 'base64');
  const isBase64 = withoutPadding(bytes.toString('base64')) === standard;
  if (isBase64 && isWholeBlocks(bytes)) {
    if (/[-_]/.test(data)) return 'looks like url-safe base64: use the standard alphabet';
    return data.endsWith('=')
      ? 'base64 with wrong padding: pad it as RFC 4648 requires'
      : 'looks like base64 without its padding';
  }
  return 'neither hex nor base64';
}

/**
 * Removes the padding. The regular expression `/=+$/` would take quadratic time for text with many "=" that are followed by other
 * characters.
 */
function withoutPadding(base64: string): string {
  let end = base64.length;
  while (base64.charCodeAt(end - 1) === 0x3d) end -= 1;
  return base64.slice(0, end);
}

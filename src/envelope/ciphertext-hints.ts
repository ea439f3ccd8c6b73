import { blockLength, isWholeBlocks } from './aes-cbc.ts';
import { decodeBase64, decodeCiphertext } from './encoding.ts';

export const wrongCredentials =
  'wrong key or IV, or the plaintext is not JSON; check that the key and IV are used as text, not decoded from base64, that ' +
  'the padding is PKCS#7, that the plaintext is UTF-8 without a byte order mark, and try the string on /api/s2s/aes-decrypt';

export const hexDigits = /^[0-9A-Fa-f]+$/;

/** The likely mistake in the string of an envelope. */
export function hintForCiphertext(data: string): string {
  return slipOfCiphertext(data) ?? wrongCredentials;
}

/** The mistake in the form of the string; undefined if it may be a ciphertext. */
export function slipOfCiphertext(data: string): string | undefined {
  const ciphertext = decodeCiphertext(data);
  if (ciphertext === undefined) return encodingHint(data);
  if (ciphertext.length === 0) return 'the string is empty: your encryption failed';
  const outer = hexDigits.test(data) ? 'hex' : 'base64';
  const inner = ciphertext.toString('latin1');
  // OpenSSL's format for passphrases, which CryptoJS uses if the key is a string.
  if (inner.startsWith('Salted__')) return 'looks like passphrase encryption: pass the key as bytes, not as a string';
  if (hexDigits.test(inner)) return `looks like ${outer} of hex`;
  if (decodeBase64(inner) !== undefined) return `looks like ${outer} of base64`;
  if (!isWholeBlocks(ciphertext)) return `the ciphertext is not a multiple of ${blockLength} bytes`;
  return undefined;
}

/** Texts that languages print for bytes, each with the remedy. In the order in which they are tried. */
const printed: readonly (readonly [RegExp, string])[] = [
  [/^[0-9A-Fa-f]{2}(?:-[0-9A-Fa-f]{2})+$/, 'dashes between the bytes, as BitConverter writes them: remove them'],
  [/^[0-9A-Fa-f]{2}(?::[0-9A-Fa-f]{2})+$/, 'colons between the bytes: remove them'],
  [/^0[xX][0-9A-Fa-f]+$/, '"0x" before the hex digits: remove it'],
  [/^(?:\\x[0-9A-Fa-f]{2})+$/, '"\\x" before the bytes: write hex digits alone'],
  [/^\\x[0-9A-Fa-f]+$/, '"\\x" before the hex digits: remove it'],
  [/^b(['"]).*\1$/s, "printed as Python's b'…': decode the bytes to a string first"],
  [/%[0-9A-Fa-f]{2}/, 'percent-encoded: send the string as it is'],
];

function encodingHint(data: string): string {
  if (hexDigits.test(data)) return 'odd number of hex digits';
  for (const [form, hint] of printed) if (form.test(data)) return hint;
  if (/\s/.test(data)) return 'the string contains white space or a line break';
  if (/^[\w-]+=*$/.test(data) && /[_-]/.test(data)) return 'looks like url-safe base64: use the standard alphabet';
  if (/^[A-Za-z0-9+/]+$/.test(data) && data.length % 4 !== 1) return 'looks like base64 without its padding';
  return 'neither hex nor base64';
}

import { blockLength, isWholeBlocks } from './cipher.ts';
import { decodeBase64, decodeCiphertext } from './encoding.ts';

/**
 * What may be wrong with the string of an envelope that did not open. It is told from that string alone: what came of
 * decrypting it is not known here and so cannot leak.
 */
export function hintFor(data: string): string {
  const ciphertext = decodeCiphertext(data);
  if (ciphertext === undefined) return encodingHint(data);
  if (ciphertext.length === 0) return 'the string is empty';
  const outer = hexDigits.test(data) ? 'hex' : 'base64';
  const inner = ciphertext.toString('latin1');
  // OpenSSL's format for passphrases, which CryptoJS falls into when it is given the key as a string.
  if (inner.startsWith('Salted__')) return 'looks like passphrase encryption: the key must go in as bytes';
  if (hexDigits.test(inner)) return `looks like ${outer} of hex`;
  if (decodeBase64(inner) !== undefined) return `looks like ${outer} of base64`;
  if (!isWholeBlocks(ciphertext)) return `the ciphertext is not whole blocks of ${blockLength} bytes`;
  return 'wrong key or IV, or the plaintext is not JSON';
}

const hexDigits = /^[0-9A-Fa-f]+$/;

function encodingHint(data: string): string {
  if (hexDigits.test(data)) return 'odd number of hex digits';
  if (/\s/.test(data)) return 'white space or a line break in the string';
  if (/^[\w-]+=*$/.test(data) && /[_-]/.test(data)) return 'looks like url-safe base64: use the standard alphabet';
  if (/^[A-Za-z0-9+/]+$/.test(data) && data.length % 4 !== 1) return 'looks like base64 without its padding';
  return 'neither hex nor base64';
}

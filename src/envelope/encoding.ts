/** How ciphertext is written in an envelope. `hex` is lower case when written, either case when read. */
export const encodings = ['hex', 'base64'] as const;
export type Encoding = (typeof encodings)[number];

/**
 * Decodes the ciphertext of an envelope: a string of hex digits only is hex, any other is base64. Returns undefined if it is
 * neither; an empty string is an empty ciphertext.
 */
export function decodeCiphertext(text: string): Buffer | undefined {
  return decodeHex(text) ?? decodeBase64(text);
}

/** Strict base64 (RFC 4648 §4): standard alphabet, padded, no line breaks, unused bits zero. Otherwise undefined. */
export function decodeBase64(text: string): Buffer | undefined {
  // Node's decoder skips unknown characters; only a canonical text is the same after decoding and encoding.
  const bytes = Buffer.from(text, 'base64');
  return bytes.toString('base64') === text ? bytes : undefined;
}

function decodeHex(text: string): Buffer | undefined {
  // Node's decoder stops at the first unknown character and drops an odd last digit, so the length reveals both (text of
  // odd length is not base64 either). But it reads characters above U+00FF as their low byte: U+0130 as "0".
  const bytes = Buffer.from(text, 'hex');
  return bytes.length * 2 === text.length && Buffer.byteLength(text) === text.length ? bytes : undefined;
}

import { inSlices, sliceLength } from '../slices.ts';

/** How ciphertext is written in an envelope. `hex` is written in lower case and read in either case. */
export const encodings = ['hex', 'base64'] as const;
export type Encoding = (typeof encodings)[number];

/**
 * Decodes the ciphertext of an envelope. A string of only hex digits is hex; any other string is base64. Returns undefined if the string is
 * neither. An empty string is an empty ciphertext.
 */
export function decodeCiphertext(text: string): Buffer | undefined {
  return decodeHex(text) ?? decodeBase64(text);
}

/** Like `decodeCiphertext`, but takes the bytes of the string and works in slices. */
export function decodeInSlices(text: Buffer): Buffer | undefined | Promise<Buffer | undefined> {
  return text.length <= sliceLength ? decodeCiphertext(text.toString('latin1')) : decodeLong(text);
}

async function decodeLong(text: Buffer): Promise<Buffer | undefined> {
  return (await decodeSlices(text, decodeHex, 2, 1)) ?? decodeSlices(text, decodeBase64, 4, 3);
}

/** @param digits how many digits of the encoding stand for `bytes` bytes */
async function decodeSlices(
  text: Buffer,
  decode: (text: string) => Buffer | undefined,
  digits: number,
  bytes: number,
): Promise<Buffer | undefined> {
  const decoded = Buffer.allocUnsafe(Math.ceil(text.length / digits) * bytes);
  let length = 0;
  const isWhole = await inSlices(text.length, (from, to) => {
    const slice = decode(text.toString('latin1', from, to));
    if (slice === undefined) return false;
    length += slice.copy(decoded, length);
    // Padding is allowed only at the end.
    return to === text.length || length * digits === to * bytes;
  });
  return isWhole ? decoded.subarray(0, length) : undefined;
}

/**
 * Decodes strict base64 (RFC 4648 §4): standard alphabet, padded, no line breaks, unused bits zero. Returns undefined for any other text.
 */
export function decodeBase64(text: string): Buffer | undefined {
  // Node's decoder skips unknown characters. Only a canonical string is the same after decoding and encoding.
  const bytes = Buffer.from(text, 'base64');
  return bytes.toString('base64') === text ? bytes : undefined;
}

function decodeHex(text: string): Buffer | undefined {
  // Node's decoder stops at the first unknown character and drops an odd last digit, so the length reveals both (a string of odd length is
  // not base64 either). But the decoder reads characters above U+00FF as their low byte, for instance U+0130 as "0".
  const bytes = Buffer.from(text, 'hex');
  return bytes.length * 2 === text.length && Buffer.byteLength(text) === text.length ? bytes : undefined;
}

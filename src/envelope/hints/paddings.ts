import { blockLength, paddingLength } from '../aes-cbc.ts';

/** A padding: what is wrong with it (empty for PKCS#7), and the content before it. */
interface Padding {
  readonly name: string;
  readonly content: Buffer;
}

const iso10126 = 'the padding is ISO 10126: use PKCS#7';

/**
 * Finds the padding that a library may have added to a plaintext.
 *
 * @param padded whole blocks
 * @param isContent whether the bytes before a padding may be the plaintext
 */
export function findPadding(padded: Buffer, isContent: (bytes: Buffer) => boolean): Padding | undefined {
  for (const [name, length] of lengths(padded)) {
    const content = padded.subarray(0, padded.length - length);
    if (length <= padded.length && isContent(content)) return { name, content };
  }
  return undefined;
}

function* lengths(padded: Buffer): Generator<readonly [name: string, length: number]> {
  const last = padded.at(-1) ?? 0;
  const standard = paddingLength(padded);
  if (standard > 0) yield ['', standard];
  if (last === 0) {
    const nuls = padded.length - endBefore(padded, 0);
    yield ['the padding is NUL bytes: use PKCS#7', nuls];
    if (padded.at(-nuls - 1) === 0x80) yield ['the padding is ISO 7816-4 (80 00 …): use PKCS#7', nuls + 1];
  }
  if (last === 0x80) yield ['the padding is ISO 7816-4 (80 00 …): use PKCS#7', 1];
  if (last > 0 && last <= blockLength) {
    const filler = padded.subarray(-last, -1);
    const isZero = filler.every((byte) => byte === 0);
    if (isZero) yield ['the padding is X9.23: use PKCS#7', last];
    // ISO 10126 pads with random bytes. A single block proves nothing, because another IV may have changed some bytes of PKCS#7 padding.
    else if (new Set(filler).size > filler.length / 2 && padded.length > blockLength) yield [iso10126, last];
  }
  if (last > blockLength && last <= 2 * blockLength && padded.subarray(-last).every((byte) => byte === last)) {
    yield ['the padding fills blocks of 32 bytes: AES has blocks of 16', last];
  }
  yield [last === 0x20 ? 'the padding is spaces: use PKCS#7' : 'the padding is missing: use PKCS#7', 0];
}

function endBefore(bytes: Buffer, fill: number): number {
  let end = bytes.length;
  while (end > 0 && bytes[end - 1] === fill) end -= 1;
  return end;
}

import { isUtf8 } from 'node:buffer';
import { createCipheriv } from 'node:crypto';
import type { Random } from './random.ts';
import { apiKey, credentials } from './sidecar.ts';

/** Classes of envelopes that do not open: whether their padding is good, and where their plaintext is not JSON. */
export const classes = {
  'bad padding': { padding: 'bad', fault: 'none' },
  'fault at the last byte': { padding: 'good', fault: 'last' },
  'fault at the first byte': { padding: 'good', fault: 'first' },
  /** To test the padding, an attacker changes a recorded envelope, which garbles the block before the padding. */
  'bad padding, block before it garbled': { padding: 'bad', fault: 'block' },
  'block before good padding garbled': { padding: 'good', fault: 'block' },
  /**
   * Like the fault at the last byte, but longer, and therefore easy to tell apart. This shows that the measurement would detect a
   * difference.
   */
  longer: { padding: 'good', fault: 'last' },
} as const;

export type ClassName = keyof typeof classes;
export const classNames = Object.keys(classes) as ClassName[];

export const blockLength = 16;

/** The length of a class's plaintext. `longer` is a quarter longer than the other classes, but by at least 2 KiB. */
export function lengthOf(name: ClassName, length: number): number {
  return name === 'longer' ? length + Math.max(2_048, length / 4) : length;
}

/** The padded plaintext. @param length the length of all classes except `longer`: a multiple of 16, at least 64 */
export function paddedPlaintext(name: ClassName, length: number, random: Random): Buffer {
  const { padding, fault } = classes[name];
  const paddingLength = 1 + random.below(blockLength);
  const whole = Buffer.alloc(lengthOf(name, length), paddingLength);
  const end = whole.length - paddingLength;
  documentOf(end, random).copy(whole);

  if (fault === 'first') whole[0] = 0xff;
  if (fault === 'last') whole[end - 1] = 0xff;
  if (fault === 'block') {
    do random.bytes(blockLength).copy(whole, whole.length - 2 * blockLength);
    while (isUtf8(whole));
  }
  // The value is larger than a block and different from the padding, so it is wrong at each position.
  if (padding === 'bad') whole[end + random.below(paddingLength)] = blockLength + 1 + random.below(127 - blockLength);
  return whole;
}

/** A JSON document of this length, with strings and structure. */
function documentOf(length: number, random: Random): Buffer {
  const word = random.bytes(6).toString('hex');
  const item = `{"note":"${word}","a":[1]},`;
  const items = Math.floor((length - 3) / item.length);
  return Buffer.from(`[${item.repeat(items)}0${' '.repeat(length - 3 - items * item.length)}]`);
}

/** A complete request with an envelope of this class. The content of each request is different. */
export function requestOf(name: ClassName, length: number, random: Random): Buffer {
  const cipher = createCipheriv('aes-256-cbc', credentials.key, credentials.iv).setAutoPadding(false);
  const body = `{"data":"${cipher.update(paddedPlaintext(name, length, random)).toString('hex')}"}`;
  const head = [
    'POST /api/s2s/charge HTTP/1.1',
    'Host: localhost',
    `Authorization: Bearer ${apiKey}`,
    'Content-Type: application/json',
    `Content-Length: ${body.length}`,
  ];
  return Buffer.from(`${head.join('\r\n')}\r\n\r\n${body}`);
}

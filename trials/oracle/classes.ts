import { isUtf8 } from 'node:buffer';
import { createCipheriv } from 'node:crypto';
import type { Random } from './random.ts';
import { apiKey, credentials } from './sidecar.ts';

/**
 * Classes of envelopes that do not open. Wrong padding is tried on a plaintext that is text and on one that is not,
 * because an attacker who changes a recorded envelope to test its padding garbles the block before it.
 */
export const classes = {
  'bad padding': { utf8: true, padding: 'bad', blocks: 22 },
  'bad JSON': { utf8: true, padding: 'good', blocks: 22 },
  'bad padding, not UTF-8': { utf8: false, padding: 'bad', blocks: 22 },
  'not UTF-8': { utf8: false, padding: 'good', blocks: 22 },
  /** Also bad JSON, but easy to tell apart: it shows that the measurement would detect a difference. */
  longer: { utf8: true, padding: 'good', blocks: 22 + 128 },
} as const;

export type ClassName = keyof typeof classes;
export const classNames = Object.keys(classes) as ClassName[];

const blockLength = 16;

/** The padded plaintext: a document damaged in one place, so that it is not JSON. */
export function paddedPlaintext(name: ClassName, random: Random): Buffer {
  const { utf8, padding, blocks } = classes[name];
  const paddingLength = 1 + random.below(blockLength);
  const whole = Buffer.alloc(blocks * blockLength, paddingLength);
  const end = whole.length - paddingLength;
  const [head, tail] = ['{"amount":1000,"currency":"NGN","note":"', '"}'];
  whole.write(head);
  whole.write(tail, end - tail.length);
  for (let at = head.length; at < end - tail.length; at += 1) whole[at] = 0x61 + random.below(26);

  if (utf8) {
    // The position of the error in the JSON varies, in every class alike.
    whole[head.length + random.below(end - tail.length - head.length - blockLength)] = 0x22;
  } else {
    do random.bytes(blockLength).copy(whole, whole.length - 2 * blockLength);
    while (isUtf8(whole));
  }
  // A value larger than a block and different from the padding, so that it is wrong at each position.
  if (padding === 'bad') whole[end + random.below(paddingLength)] = blockLength + 1 + random.below(127 - blockLength);
  return whole;
}

/** A complete request with an envelope of this class. Each request has different content. */
export function requestOf(name: ClassName, random: Random): Buffer {
  const cipher = createCipheriv('aes-256-cbc', credentials.key, credentials.iv).setAutoPadding(false);
  const body = `{"data":"${cipher.update(paddedPlaintext(name, random)).toString('hex')}"}`;
  const head = [
    'POST /api/s2s/charge HTTP/1.1',
    'Host: localhost',
    `Authorization: Bearer ${apiKey}`,
    'Content-Type: application/json',
    `Content-Length: ${body.length}`,
  ];
  return Buffer.from(`${head.join('\r\n')}\r\n\r\n${body}`);
}

import { createDecipheriv } from 'node:crypto';
import { blockLength, isWholeBlocks } from '../aes-cbc.ts';
import { ivsFor, keysFor, type Candidate } from './candidates.ts';
import { isJson } from '../json/json.ts';
import { findPadding } from './paddings.ts';

/** Finds another IV under which a ciphertext decrypts to JSON; undefined if no common mistake yields one. The key must be the right one. */
export function findOtherIv(ciphertext: Buffer, key: string, iv: string): string | undefined {
  const blocks = decrypt('cbc', Buffer.from(key), Buffer.alloc(blockLength), ciphertext);
  return ivUnder(blocks, ivsFor(iv, key).slice(1))?.name;
}

/** Finds another key, IV or mode under which a ciphertext decrypts to JSON; undefined if no common mistake yields one. */
export function findMisuse(ciphertext: Buffer, key: string, iv: string): string | undefined {
  const ivs = ivsFor(iv, key);
  const all = keysFor(key, iv);
  const likely = all.slice(0, frequent);
  if (isWholeBlocks(ciphertext)) {
    for (const usedKey of ciphertext.length > long ? likely : all) {
      const found = inBlocks(usedKey, ivs, ciphertext);
      if (found !== undefined) return found;
    }
  }
  for (const usedKey of likely) {
    const found = inStream(usedKey, ivs, ciphertext, iv);
    if (found !== undefined) return found;
  }
  return undefined;
}

/**
 * Stream modes and long ciphertexts are tried with only this many of the likeliest keys, because all attempts are made in one turn of the
 * event loop.
 */
const frequent = 8;

/** A ciphertext longer than this, in bytes, is tried with only the `frequent` keys. */
const long = 8_192;

/** Layouts with other data around the ciphertext: how many blocks precede and follow the ciphertext, and which block is its IV. */
const layouts: readonly { name: string; before: number; behind: number; ivAt: number }[] = [
  {
    name: '16 bytes too many at the beginning, perhaps an IV: encrypt only the JSON, with the IV you were given',
    before: 1,
    behind: 0,
    ivAt: 0,
  },
  { name: 'an IV follows the ciphertext: send only the ciphertext', before: 0, behind: 1, ivAt: -1 },
  {
    name: 'an IV and a MAC precede the ciphertext: send only the ciphertext',
    before: 3,
    behind: 0,
    ivAt: 0,
  },
  {
    name: 'the ciphertext has an IV before it and a MAC after it: send only the ciphertext',
    before: 1,
    behind: 2,
    ivAt: 0,
  },
];

/**
 * The IV under which the blocks are JSON, and the name of their padding. If a short document is JSON under several IVs, no IV is named.
 *
 * @param blocks decrypted with an IV of zeros
 */
function ivUnder(blocks: Buffer, ivs: readonly Candidate[]): { name: string; padding: string } | undefined {
  const [found, ...others] = ivs.filter(({ bytes }) => paddingOfJson(blocks, bytes) !== undefined);
  if (found === undefined) return undefined;
  const padding = paddingOfJson(blocks, found.bytes) ?? '';
  if (found.name === '') return { name: '', padding };
  if (others.some(({ name }) => name !== found.name))
    return { name: 'a different IV was used: pass the first 16 characters of yours as bytes', padding };
  // For a single block, ECB and CBC with an IV of zeros give the same result.
  const isEcbToo = blocks.length === blockLength && found.bytes.every((byte) => byte === 0);
  return {
    name: isEcbToo ? 'no IV or an all-zero IV was used: use CBC with the IV you were given' : found.name,
    padding,
  };
}

function inBlocks(usedKey: Candidate, ivs: readonly Candidate[], ciphertext: Buffer): string | undefined {
  const { bytes: key } = usedKey;
  // With an IV of zeros, the first decrypted block is the first block of plaintext XORed with the real IV.
  const blocks = decrypt('cbc', key, Buffer.alloc(blockLength), ciphertext);
  const ivOf = ivUnder(blocks, usedKey.name === '' ? ivs.filter(({ name }) => name !== '') : ivs);
  if (ivOf !== undefined) return named(usedKey.name, ivOf.name, ivOf.padding);
  const first = blocks.subarray(0, blockLength);
  for (const { name, before, behind, ivAt } of layouts) {
    const [from, to] = [before * blockLength, blocks.length - behind * blockLength];
    if (from >= to) continue;
    const at = ivAt < 0 ? to : 0;
    const iv = ciphertext.subarray(at, at + blockLength);
    // In blocks after the first one, decryption has XORed in the previous block of ciphertext. The mask undoes that.
    const mask = from === 0 ? iv : xor(ciphertext.subarray(from - blockLength, from), iv);
    const padding = paddingOfJson(blocks.subarray(from, to), mask);
    // The bytes at the end are taken for a MAC only if padding precedes them, and the first block for an IV only if it is not text.
    const isLayout = padding === '' || (padding !== undefined && behind === 0);
    if (isLayout && (before === 0 || !ivs.some((each) => mayBeginJson(xor(first, each.bytes)))))
      return named(usedKey.name, name, padding);
  }
  const beforeMac = blocks.subarray(0, Math.max(0, blocks.length - macLength));
  const macIv = ivs.find(({ bytes: iv }) => paddingOfJson(beforeMac, iv) === '');
  if (macIv !== undefined) {
    return named(usedKey.name, macIv.name, 'a 32-byte MAC follows the ciphertext: send only the ciphertext');
  }
  if (!mayBeginJson(first)) return undefined;
  const padding = paddingOfJson(decrypt('ecb', key, null, ciphertext), Buffer.alloc(blockLength));
  return padding === undefined ? undefined : named(usedKey.name, 'the mode is ECB: use CBC', padding);
}

/** The length of an HMAC with SHA-256 in bytes. */
const macLength = 32;

/** The modes that do not need whole blocks, with the lengths in bytes of the IV and of the tag after the ciphertext. */
const streams: readonly { name: string; mode: string; ivBytes: number; tagBytes: number }[] = [
  { name: 'GCM', mode: 'gcm', ivBytes: 12, tagBytes: 16 },
  { name: 'GCM', mode: 'gcm', ivBytes: 16, tagBytes: 16 },
  { name: 'GCM', mode: 'gcm', ivBytes: 12, tagBytes: 0 },
  { name: 'CTR', mode: 'ctr', ivBytes: 16, tagBytes: 0 },
  { name: 'CFB', mode: 'cfb', ivBytes: 16, tagBytes: 0 },
  { name: 'CFB8', mode: 'cfb8', ivBytes: 16, tagBytes: 0 },
  { name: 'OFB', mode: 'ofb', ivBytes: 16, tagBytes: 0 },
];

function inStream(usedKey: Candidate, ivs: readonly Candidate[], ciphertext: Buffer, iv: string): string | undefined {
  for (const { name, mode, ivBytes, tagBytes } of streams) {
    const whole = ciphertext.subarray(0, Math.max(0, ciphertext.length - tagBytes));
    const cause = named(usedKey.name, `the mode is ${name}: use CBC`);
    const decoded = Buffer.from(iv, 'base64');
    const used = [...ivs.slice(0, 3).map(({ bytes }) => bytes), ...(decoded.length === ivBytes ? [decoded] : [])];
    if (used.some((each) => isStream(mode, usedKey.bytes, each.subarray(0, ivBytes), whole))) return cause;
    if (isStream(mode, usedKey.bytes, whole.subarray(0, ivBytes), whole.subarray(ivBytes))) return cause;
  }
  return undefined;
}

/** Minimum length of a ciphertext, in bytes. A shorter ciphertext may decrypt to JSON by accident. */
const shortestStream = 8;

function isStream(mode: string, key: Buffer, iv: Buffer, ciphertext: Buffer): boolean {
  if (ciphertext.length < shortestStream) return false;
  const beginning = decrypt(mode, key, iv, ciphertext.subarray(0, blockLength));
  return mayBeginJson(beginning) && isJson(decrypt(mode, key, iv, ciphertext));
}

/** Joins at most two causes, so that the hint stays short. */
function named(...causes: readonly string[]): string {
  return causes
    .filter((cause) => cause !== '')
    .slice(0, 2)
    .join('; and ');
}

/**
 * The name of the padding that follows the JSON, or an empty string for PKCS#7; undefined if the blocks are not JSON.
 *
 * @param blocks decrypted with an IV of zeros
 */
function paddingOfJson(blocks: Buffer, iv: Buffer): string | undefined {
  // Most guesses fail at the first byte.
  if (!beginnings.has((blocks[0] ?? 0) ^ (iv[0] ?? 0)) || !mayEndJson(blocks)) return undefined;
  const first = xor(blocks.subarray(0, blockLength), iv);
  if (!mayBeginJson(first)) return undefined;
  return findPadding(Buffer.concat([first, blocks.subarray(blockLength)]), isJson)?.name;
}

/** The bytes with which JSON may begin. */
const beginnings = new Set(Buffer.from(' \t\r\n[{"-0123456789tfn'));

/** Whether the last block may end in padding or in JSON. This rules out most wrong guesses before the other checks. */
function mayEndJson(blocks: Buffer): boolean {
  const last = blocks.at(-1) ?? 0;
  // If there is only one block, the IV changes the last block too.
  return (
    blocks.length === blockLength ||
    last <= 2 * blockLength ||
    last === 0x80 ||
    /[\]}"\d\w]/.test(String.fromCharCode(last))
  );
}

/**
 * Whether this block may be the beginning of JSON. The check also rejects some valid JSON, because its strings may contain the odd
 * characters that a wrong IV produces. Most wrong guesses fail here, before the whole document is checked.
 */
function mayBeginJson(block: Buffer): boolean {
  return /^[ \t\r\n]*[[{"\-0-9tfn][\w\s"{}[\]:,.+/@\\\u00a0-\ufffc-]*[\ufffd\0-\x20]*$/.test(block.toString());
}

function xor(block: Buffer, iv: Buffer): Buffer {
  return block.map((byte, at) => byte ^ (iv[at] ?? 0)) as Buffer;
}

/** Decrypts without checking the padding or a tag. */
export function decrypt(mode: string, key: Buffer, iv: Buffer | null, ciphertext: Buffer): Buffer {
  const decipher = createDecipheriv(`aes-${key.length * 8}-${mode}` as 'aes-256-cbc', key, iv);
  return decipher.setAutoPadding(false).update(ciphertext);
}

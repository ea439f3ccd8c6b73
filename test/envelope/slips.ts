import { createCipheriv, createHash } from 'node:crypto';

export const key = 'demo+key/that+is/base64+too+3232';
export const iv = 'ZGVtby1pdi1vZi0xNi1ieQ==';
export const json = '{"amount":1000,"currency":"EUR","note":"é"}';

/** Encrypts a plaintext with the mistakes that the options describe. */
export function encrypt(
  plaintext: Buffer | string,
  {
    algorithm = 'aes-256-cbc',
    usedKey = Buffer.from(key),
    usedIv = Buffer.from(iv.slice(0, 16)),
  }: { algorithm?: string; usedKey?: Buffer; usedIv?: Buffer | null } = {},
  padded = true,
): Buffer {
  const cipher = createCipheriv(algorithm, usedKey, usedIv).setAutoPadding(padded);
  return Buffer.concat([cipher.update(plaintext), cipher.final()]);
}

function paddedBy(fill: number, last = fill, block = 16): Buffer {
  const length = block - (Buffer.byteLength(json) % block);
  const padding = Buffer.alloc(length, fill);
  padding[length - 1] = last;
  return Buffer.concat([Buffer.from(json), padding]);
}

const missing = 16 - (Buffer.byteLength(json) % 16);
const sha256 = createHash('sha256').update(key).digest();
export const random = Buffer.from('f00dcafe00112233445566778899aabb', 'hex');

/** Slips in merchants' code: a name, the ciphertext that the code sends, and a part of the diagnosis. */
export const slips: readonly (readonly [name: string, ciphertext: Buffer, cause: string])[] = [
  ['an empty plaintext', encrypt(''), 'the plaintext is empty'],
  ['a byte order mark', encrypt(`\ufeff${json}`), 'byte order mark'],
  ['UTF-16', encrypt(Buffer.from(json, 'utf16le')), 'UTF-16'],
  ['UTF-16 with its mark', encrypt(Buffer.from(`\ufeff${json}`, 'utf16le')), 'UTF-16'],
  ['UTF-16 in the other order', encrypt(Buffer.from(json, 'utf16le').swap16()), 'UTF-16'],
  ['Latin-1', encrypt(Buffer.from(json, 'latin1')), 'Latin-1'],
  ['padding twice', encrypt(paddedBy(missing)), 'padded twice'],
  ['NUL padding', encrypt(paddedBy(0), {}, false), 'NUL bytes'],
  ['space padding', encrypt(paddedBy(0x20), {}, false), 'spaces'],
  ['X9.23 padding', encrypt(paddedBy(0, missing), {}, false), 'X9.23'],
  ['no padding', encrypt('{"amount":10000}', {}, false), 'the padding is missing'],
  ['padding to 32 bytes', encrypt(paddedBy(20, 20, 32), {}, false), 'blocks of 32 bytes'],
  [
    'a key decoded from base64',
    encrypt(json, { algorithm: 'aes-192-cbc', usedKey: Buffer.from(key, 'base64') }),
    'the key was decoded from base64, so AES-192 was used',
  ],
  ['an IV decoded from base64', encrypt(json, { usedIv: Buffer.from(iv, 'base64') }), 'the IV was decoded from base64'],
  [
    'both decoded from base64',
    encrypt(json, {
      algorithm: 'aes-192-cbc',
      usedKey: Buffer.from(key, 'base64'),
      usedIv: Buffer.from(iv, 'base64'),
    }),
    'AES-192 was used: pass its 32 characters as bytes; and the IV was decoded',
  ],
  ['a hashed key', encrypt(json, { usedKey: sha256 }), 'hashed with SHA-256: pass'],
  [
    'a hashed key in hex',
    encrypt(json, { usedKey: Buffer.from(sha256.toString('hex').slice(0, 32)) }),
    'hashed with SHA-256 and written in hex',
  ],
  ['a zero IV', encrypt(json, { usedIv: Buffer.alloc(16) }), 'the IV was all zero bytes'],
  [
    'an IV in front of the ciphertext',
    Buffer.concat([random, encrypt(json, { usedIv: random })]),
    '16 bytes too many at the beginning, perhaps an IV',
  ],
  ['ECB', encrypt(json, { algorithm: 'aes-256-ecb', usedIv: null }), 'the mode is ECB'],
  [
    'AES-128',
    encrypt(json, { algorithm: 'aes-128-cbc', usedKey: Buffer.from(key.slice(0, 16)) }),
    'AES-128 was used with the first 16 characters',
  ],
  ['a wrong IV alone', encrypt(json, { usedIv: random }), 'only the first 16 bytes are not text; the rest is'],
  ['text', encrypt('amount=1'), 'not JSON at byte 0, it looks like a form'],
  ['a key that is another', encrypt(json, { usedKey: Buffer.alloc(32, 'k') }), 'produce JSON'],
];

const good = encrypt(json);
const pairs = good.toString('hex').match(/../g) ?? [];

/** Slips in how the bytes are written: a name, the string that is sent, and a part of the diagnosis. */
export const misspelt: readonly (readonly [name: string, data: string, cause: string])[] = [
  ['dashes between the bytes', pairs.join('-'), 'dashes between the bytes'],
  ['colons between the bytes', pairs.join(':'), 'colons between the bytes'],
  ['0x before the digits', `0x${pairs.join('')}`, '"0x" before the hex digits'],
  ['\\x before each byte', `\\x${pairs.join('\\x')}`, '"\\x" before the bytes'],
  ['\\x before the digits', `\\x${pairs.join('')}`, '"\\x" before the hex digits'],
  ["Python's b'…'", `b'${good.toString('base64')}'`, "printed as Python's b'…'"],
  ['percent-encoding', `${encodeURIComponent(good.toString('base64'))}%3D`, 'percent-encoded'],
  ['line breaks', `${pairs.slice(0, 32).join('')}\n${pairs.slice(32).join('')}`, 'line break'],
  ['url-safe base64', Buffer.from('??>>'.repeat(8)).toString('base64url'), 'url-safe base64'],
  ['base64 without its padding', good.subarray(0, 16).toString('base64').replace(/=+$/, ''), 'without its padding'],
  ['an odd digit', pairs.join('').slice(1), 'odd number of hex digits'],
  ['a cut', pairs.slice(1).join(''), 'not a multiple of 16'],
  ['twice encoded', Buffer.from(pairs.join('')).toString('base64'), 'looks like base64 of hex'],
  [
    'a passphrase',
    Buffer.concat([Buffer.from('Salted__'), good]).toString('base64'),
    'looks like passphrase encryption',
  ],
];

import { createCipheriv, createHash, createHmac } from 'node:crypto';
import { deflateSync, gzipSync } from 'node:zlib';
import type { Part } from './claims.ts';
import { encrypt, iv, json, key, misspelt, random, slips } from './slips.ts';

/** A slip in a merchant's code: its name, what it sends, which parts are wrong, and what the hint must say. */
type Slip<Sent> = readonly [name: string, sent: Sent, wrong: readonly Part[], cause: RegExp];

const good = encrypt(json);
const [hex, base64] = [good.toString('hex'), good.toString('base64')];

function hash(name: string, text: string, cut = 64): Buffer {
  return createHash(name).update(text).digest().subarray(0, cut);
}

function hexHash(name: string, text: string, length: number): Buffer {
  return Buffer.from(hash(name, text).toString('hex').slice(0, length));
}

/** Cuts or pads bytes as PHP's openssl_encrypt() does with a key or an IV of the wrong length. */
function php(bytes: Buffer | string, length: number): Buffer {
  const result = Buffer.alloc(length);
  Buffer.from(bytes as string).copy(result);
  return result;
}

const withKey = (usedKey: Buffer, algorithm = 'aes-256-cbc'): Buffer => encrypt(json, { usedKey, algorithm });
const withIv = (usedIv: Buffer): Buffer => encrypt(json, { usedIv });
const ivText = iv.slice(0, 16);

function gcm(nonce: Buffer, text = json, usedKey: Buffer | string = key): Buffer {
  const cipher = createCipheriv('aes-256-gcm', usedKey, nonce);
  return Buffer.concat([cipher.update(text), cipher.final(), cipher.getAuthTag()]);
}

const stream = (mode: string): Buffer => encrypt(json, { algorithm: `aes-256-${mode}` });
const mac = createHmac('sha256', key).update(good).digest();
const padded = (last: Buffer): Buffer => encrypt(Buffer.concat([Buffer.from(json), last]), {}, false);
const missing = 16 - (Buffer.byteLength(json) % 16);

const keySlips: readonly (readonly [name: string, ciphertext: Buffer, cause: RegExp])[] = [
  [
    'PHP: a key decoded from base64',
    withKey(php(Buffer.from(key, 'base64'), 32)),
    /key was decoded from base64 and padded/,
  ],
  ["PHP: hex2bin() of a key that isn't hex", withKey(Buffer.alloc(32)), /hex2bin/],
  ["PHP: hash('sha256', $key)", withKey(hexHash('sha256', key, 32)), /key was hashed with SHA-256 and written in hex/],
  ["PHP: hash('sha256', $key, true)", withKey(hash('sha256', key)), /key was hashed with SHA-256/],
  ['PHP: md5($key)', withKey(hexHash('md5', key, 32)), /key was hashed with MD5 and written in hex/],
  ['PHP: md5($key, true)', withKey(php(hash('md5', key), 32)), /key was hashed with MD5/],
  ['MD5 as a key of AES-128', withKey(hash('md5', key), 'aes-128-cbc'), /key was hashed with MD5/],
  ['PHP: sha1($key)', withKey(hexHash('sha1', key, 32)), /key was hashed with SHA-1 and written in hex/],
  ['PHP: sha1($key, true)', withKey(php(hash('sha1', key), 32)), /key was hashed with SHA-1/],
  ["Java: SHA-1's first 16 bytes", withKey(hash('sha1', key, 16), 'aes-128-cbc'), /key was hashed with SHA-1/],
  ['SHA-512, cut', withKey(hash('sha512', key, 32)), /key was hashed with SHA-512/],
  ['SHA-512 in hex, cut', withKey(hexHash('sha512', key, 32)), /key was hashed with SHA-512/],
  ["SHA-256's first 16 bytes", withKey(hash('sha256', key, 16), 'aes-128-cbc'), /key was hashed with SHA-256/],
  ['a key in double quotes', withKey(Buffer.from(`"${key}"`).subarray(0, 32)), /key was in quotes/],
  ['a key in single quotes', withKey(Buffer.from(`'${key}'`).subarray(0, 32)), /key was in quotes/],
  ['a key with a leading space', withKey(Buffer.from(` ${key}`).subarray(0, 32)), /space before the key/],
  ['a key behind a line break', withKey(Buffer.from(`\n${key}`).subarray(0, 32)), /line break before the key/],
  [
    'a key behind a byte order mark',
    withKey(Buffer.from(`\ufeff${key}`).subarray(0, 32)),
    /byte order mark before the key/,
  ],
  ['a key one character short at its end', withKey(php(key.slice(0, 31), 32)), /key was one character short/],
  ['a key one character short at its start', withKey(php(key.slice(1), 32)), /key was one character short/],
  ['C#: Encoding.Unicode for the key', withKey(Buffer.from(key, 'utf16le').subarray(0, 32)), /key was UTF-16/],
  ['a key in upper case', withKey(Buffer.from(key.toUpperCase())), /key was in upper case/],
  [
    'a key encoded in base64 again',
    withKey(Buffer.from(Buffer.from(key).toString('base64').slice(0, 32))),
    /key was encoded in base64/,
  ],
  ['bin2hex($key)', withKey(Buffer.from(Buffer.from(key).toString('hex').slice(0, 32))), /key was encoded in hex/],
  ['a percent-encoded key', withKey(Buffer.from(encodeURIComponent(key).slice(0, 32))), /key was percent-encoded/],
  ['a key with a space for its plus', withKey(Buffer.from(key.replaceAll('+', ' '))), /key had spaces/],
  [
    'AES-192 with a cut key',
    withKey(Buffer.from(key.slice(0, 24)), 'aes-192-cbc'),
    /AES-192 was used with the first 24/,
  ],
  ['PHP: 16 characters of the key', withKey(php(key.slice(0, 16), 32)), /cut to its first 16/],
  [
    "MySQL's folding",
    withKey(
      Buffer.from(key)
        .subarray(0, 16)
        .map((byte, i) => byte ^ key.charCodeAt(i + 16)) as Buffer,
      'aes-128-cbc',
    ),
    /MySQL/,
  ],
];

const ivSlips: readonly (readonly [name: string, ciphertext: Buffer, cause: RegExp])[] = [
  [
    "PHP: substr(hash('sha256', $iv), 0, 16)",
    withIv(hexHash('sha256', iv, 16)),
    /IV was hashed with SHA-256 and written in hex/,
  ],
  ['the SHA-256 of the IV', withIv(hash('sha256', iv, 16)), /IV was hashed with SHA-256/],
  ['the SHA-256 of its first characters', withIv(hash('sha256', ivText, 16)), /IV was hashed with SHA-256/],
  ['PHP: md5($iv, true)', withIv(hash('md5', iv)), /IV was hashed with MD5/],
  ['PHP: substr(md5($iv), 0, 16)', withIv(hexHash('md5', iv, 16)), /IV was hashed with MD5 and written in hex/],
  ['an IV in quotes', withIv(Buffer.from(`"${iv}`).subarray(0, 16)), /IV was in quotes/],
  ['an IV in single quotes', withIv(Buffer.from(`'${iv}`).subarray(0, 16)), /IV was in quotes/],
  ['an IV with a leading space', withIv(Buffer.from(` ${iv}`).subarray(0, 16)), /space before the IV/],
  ['an IV one character short', withIv(php(iv.slice(0, 15), 16)), /IV was one character short/],
  ['an IV without its first character', withIv(Buffer.from(iv.slice(1, 17))), /IV was one character short/],
  ['an IV in UTF-16', withIv(Buffer.from(iv, 'utf16le').subarray(0, 16)), /IV was UTF-16/],
  ['the last 16 characters of the IV', withIv(Buffer.from(iv.slice(-16))), /last 16 characters of the IV/],
  ['the key as the IV', withIv(Buffer.from(key.slice(0, 16))), /IV was taken from the key/],
  ['zeros as digits', withIv(Buffer.from('0'.repeat(16))), /16 "0" digits/],
  ['an IV in lower case', withIv(Buffer.from(ivText.toLowerCase())), /IV was in lower case/],
  ['an IV in upper case', withIv(Buffer.from(ivText.toUpperCase())), /IV was in upper case/],
  [
    'an IV encoded in base64 again',
    withIv(Buffer.from(Buffer.from(iv).toString('base64').slice(0, 16))),
    /IV was encoded in base64/,
  ],
  [
    'an IV encoded in hex again',
    withIv(Buffer.from(Buffer.from(iv).toString('hex').slice(0, 16))),
    /IV was encoded in hex/,
  ],
  ['an IV of another account', withIv(Buffer.from('a8Kq0Zt5Lw2Xc9Vb')), /IV is wrong|was a different IV used/],
];

const plaintexts: readonly (readonly [name: string, plaintext: Buffer | string, cause: RegExp])[] = [
  ["Python's str()", "{'amount': 1000, 'currency': 'EUR'}", /Python's str\(\).*"\{'amount': 1000/],
  ["Python's list", "['a', 'b', True]", /Python/],
  ['PHP: serialize()', 'a:1:{s:6:"amount";i:1000;}', /serialize\(\)/],
  ["Java's Map.toString()", '{amount=1000, currency=EUR}', /Java's toString/],
  ["Java's Object.toString()", 'com.shop.Charge@1b6d3586', /object printed/],
  ["JavaScript's String(object)", '[object Object]', /object printed/],
  ["PHP's string of an array", 'Array', /object printed/],
  ["Ruby's inspect", '#<Charge amount=1000>', /object printed/],
  ["Go's %v", 'map[amount:1000]', /object printed/],
  ["C#'s ToString()", 'System.Collections.Generic.Dictionary`2[System.String,System.Object]', /object printed/],
  ['a trailing comma in an object', '{"amount":1000,}', /a comma before the closing bracket/],
  ['a trailing comma in a list', '[1,2,]', /a comma before the closing bracket/],
  ['NaN', '{"amount":NaN}', /NaN and Infinity/],
  ['Infinity', '{"amount":-Infinity}', /NaN and Infinity/],
  ['names without quotes', '{amount:1000}', /a name without double quotes/],
  ['a comment', '{"amount":1000 /* cents */}', /a comment/],
  ['a raw line break', '{"note":"a\nb"}', /line break or a tab in a string/],
  ['half a document', '{"amount":1000', /it ends too early/],
  ['a document and its repetition', '{"amount":1}{"amount":1}', /something follows the JSON/],
  ['a semicolon at the end', '{"amount":1};', /something follows the JSON/],
  ['a C string with its NUL', '{"amount":1}\0', /other padding|NUL/],
  ['a form', 'amount=1000&currency=EUR', /a form/],
  ['XML', '<?xml version="1.0"?><charge/>', /XML/],
  ['YAML', 'amount: 1000\ncurrency: EUR', /YAML/],
  ['percent-encoded JSON', encodeURIComponent(json), /percent-encoded/],
  ['base64 of JSON', Buffer.from(json).toString('base64'), /base64 of JSON/],
  ['hex of JSON', Buffer.from(json).toString('hex'), /hex of JSON/],
  ['a ciphertext again', hex, /looks like a ciphertext in hex: encrypt once/],
  ['a ciphertext in base64 again', base64, /looks like a ciphertext in base64: encrypt once/],
  ['escaped quotes', '{\\"amount\\":1000}', /quotes were escaped/],
  ['a word', 'undefined', /not JSON at byte 0.*"undefined"/],
  ['white space', '   ', /nothing but white space/],
  ['gzip', gzipSync(json), /not UTF-8 text/],
  ['zlib', deflateSync(json), /not UTF-8 text|produce JSON/],
  ['a length before the JSON', Buffer.concat([Buffer.from([0, 44]), Buffer.from(json)]), /2 bytes precede the JSON/],
  ['a type before the JSON', `charge:${json}`, /7 bytes precede the JSON/],
  ['NULs behind the JSON', Buffer.concat([Buffer.from(json), Buffer.alloc(5)]), /other padding/],
  [
    'Latin-1 that is not JSON',
    Buffer.from("{'note':'\u00e9t\u00e9','more':'text of a few bytes'}", 'latin1'),
    /not UTF-8 text from byte 9/,
  ],
  ['single quotes around everything', `'${json}'`, /Python|single quotes|not JSON at byte 0/],
];

const others: readonly Slip<Buffer>[] = [
  ['GCM with the IV', gcm(Buffer.from(ivText)), ['mode', 'form'], /mode is GCM/],
  ['GCM with 12 characters of the IV', gcm(Buffer.from(iv.slice(0, 12))), ['mode', 'form'], /mode is GCM/],
  [
    'GCM with its nonce in front',
    Buffer.concat([random.subarray(0, 12), gcm(random.subarray(0, 12))]),
    ['mode', 'form'],
    /mode is GCM/,
  ],
  ['GCM of whole blocks', gcm(Buffer.from(ivText), '{"amount":10000}'), ['mode', 'form'], /mode is GCM/],
  ['CTR', stream('ctr'), ['mode', 'form'], /mode is CTR/],
  ['CFB', stream('cfb'), ['mode', 'form'], /mode is CFB/],
  ['CFB8', stream('cfb8'), ['mode', 'form'], /mode is CFB8/],
  ['OFB', stream('ofb'), ['mode', 'form'], /mode is OFB/],
  ['CTR of whole blocks', encrypt('{"amount":10000}', { algorithm: 'aes-256-ctr' }), ['mode'], /mode is CTR/],
  [
    'ECB of a hashed key',
    encrypt(json, { algorithm: 'aes-256-ecb', usedIv: null, usedKey: hash('sha256', key) }),
    ['mode', 'key'],
    /SHA-256.*ECB/,
  ],
  [
    "MySQL's AES_ENCRYPT",
    encrypt(json, {
      algorithm: 'aes-128-ecb',
      usedIv: null,
      usedKey: Buffer.from(key)
        .subarray(0, 16)
        .map((byte, i) => byte ^ key.charCodeAt(i + 16)) as Buffer,
    }),
    ['mode', 'key'],
    /MySQL.*ECB/,
  ],
  [
    'Java: Cipher.getInstance("AES") with 16 characters',
    encrypt(json, { algorithm: 'aes-128-ecb', usedIv: null, usedKey: Buffer.from(key.slice(0, 16)) }),
    ['mode', 'key'],
    /AES-128.*ECB/,
  ],
  [
    'key and IV swapped',
    encrypt(json, { usedKey: php(iv, 32), usedIv: Buffer.from(key.slice(0, 16)) }),
    ['key', 'iv'],
    /key was taken from the IV; and the IV was taken from the key/,
  ],
  [
    'the example of many blogs: both hashed',
    encrypt(json, { usedKey: hexHash('sha256', key, 32), usedIv: hexHash('sha256', iv, 16) }),
    ['key', 'iv'],
    /key was hashed.*IV was hashed/,
  ],
  [
    'an IV behind',
    Buffer.concat([encrypt(json, { usedIv: random }), random]),
    ['iv', 'form'],
    /an IV follows the ciphertext/,
  ],
  [
    "the PHP manual's example",
    Buffer.concat([random, mac, encrypt(json, { usedIv: random })]),
    ['iv', 'form'],
    /an IV and a MAC precede the ciphertext/,
  ],
  [
    'encrypt, then MAC',
    Buffer.concat([random, encrypt(json, { usedIv: random }), mac]),
    ['iv', 'form'],
    /an IV before it and a MAC after it/,
  ],
  ['a MAC behind', Buffer.concat([good, mac]), ['form'], /a 32-byte MAC follows the ciphertext/],
  [
    'ISO 10126 padding',
    padded(Buffer.concat([random.subarray(0, missing - 1), Buffer.from([missing])])),
    ['padding'],
    /ISO 10126/,
  ],
  ['ISO 7816-4 padding', padded(php(Buffer.from([0x80]), missing)), ['padding'], /ISO 7816-4/],
  [
    'zero padding and a hashed key',
    encrypt(Buffer.concat([Buffer.from(json), Buffer.alloc(missing)]), { usedKey: hash('sha256', key) }, false),
    ['padding', 'key'],
    /SHA-256.*NUL/,
  ],
  [
    'NUL padding of a text',
    encrypt(php('amount=1000', 16), {}, false),
    ['padding', 'plaintext'],
    /"amount=1000", is followed by NULs/,
  ],
  ['cut at a block', good.subarray(0, 32), ['padding', 'form'], /no PKCS#7 padding.*cut/],
  ['cut within a block', good.subarray(0, 40), ['form'], /not a multiple of 16 bytes: perhaps it was cut/],
  ['the key of the other environment', withKey(Buffer.alloc(32, 'q')), ['key'], /pair for this environment/],
  ['DES', createDes(), ['mode', 'form'], /pair for this environment|not a multiple/],
];

function createDes(): Buffer {
  const cipher = createCipheriv('des-ede3-cbc', key.slice(0, 24), iv.slice(0, 8));
  return Buffer.concat([cipher.update(json), cipher.final()]);
}

const partsOf: Readonly<Record<string, readonly Part[]>> = {
  'an IV in front of the ciphertext': ['iv', 'form'],
  'both decoded from base64': ['key', 'iv'],
};

/** The ciphertexts in `slips.ts`. The parts that are wrong are derived from the names of the slips. */
const known = slips.map(([name, ciphertext, cause]): Slip<Buffer> => {
  const wrong: Part[] = [...(partsOf[name] ?? [])];
  if (/key|AES/.test(name)) wrong.push('key');
  if (/IV/.test(name)) wrong.push('iv');
  if (/padd/.test(name)) wrong.push('padding');
  if (/ECB/.test(name)) wrong.push('mode');
  if (/text|mark|UTF-16|Latin/.test(name)) wrong.push('plaintext');
  return [name, ciphertext, wrong, new RegExp(cause.replace(/[\\()[\].*+?^$|{}]/g, '\\$&'))];
});

export const ciphertexts: readonly Slip<Buffer>[] = [
  ...known,
  ...keySlips.map(([name, sent, cause]): Slip<Buffer> => [name, sent, ['key'], cause]),
  ...ivSlips.map(([name, sent, cause]): Slip<Buffer> => [name, sent, ['iv'], cause]),
  ...plaintexts.map(([name, text, cause]): Slip<Buffer> => [name, encrypt(text), ['plaintext', 'padding'], cause]),
  ...others,
];

/** Strings that are sent as `data` or to aes-decrypt, and whose form shows the slip. */
export const strings: readonly (readonly [name: string, data: string, cause: RegExp])[] = [
  ...misspelt.map(
    ([name, data, cause]) => [name, data, new RegExp(cause.replace(/[\\()[\].*+?^$|{}]/g, '\\$&'))] as const,
  ),
  ['a JWT', 'eyJhbGciOiJkaXIifQ.eyJhbW91bnQiOjF9.c2ln', /JWT/],
  ['a JWE', 'eyJhbGciOiJkaXIiLCJlbmMiOiJBMjU2R0NNIn0..AAAA.BBBB.CCCC', /JWE/],
  [
    "Laravel's encrypter",
    Buffer.from('{"iv":"AAAA","value":"BBBB","mac":"00","tag":""}').toString('base64'),
    /Laravel/,
  ],
  ['Fernet', `gAAAAAB${good.subarray(0, 60).toString('base64url')}`, /Fernet/],
  ['defuse/php-encryption', `def50200${hex}`, /defuse/],
  ['a passphrase in hex', Buffer.concat([Buffer.from('Salted__'), good]).toString('hex'), /passphrase/],
  ['IV and ciphertext in hex', `${random.toString('hex')}:${hex}`, /joined by a separator/],
  ['IV and ciphertext in base64', `${random.toString('base64')}:${base64}`, /joined by a separator/],
  ['IV, tag and ciphertext', `${random.toString('hex')}:${random.toString('hex')}:${hex}`, /joined by a separator/],
  ['IV and ciphertext with a dot', `${random.toString('hex')}.${hex}`, /joined by a separator/],
  ['Rails', `${base64}--${random.toString('base64')}`, /Rails/],
  ['a quoted string', `"${hex}"`, /in quotes/],
  ['a string in single quotes', `'${base64}'`, /in quotes/],
  ['a whole envelope', `{"data":"${hex}"}`, /envelope within the envelope/],
  ['a whole envelope in base64', Buffer.from(`{"data":"${hex}"}`).toString('base64'), /envelope within the envelope/],
  ['plain JSON', json, /not encrypted/],
  ['JSON in base64', Buffer.from(json).toString('base64'), /JSON in base64, which is not encrypted/],
  ['JSON in hex', Buffer.from(json).toString('hex'), /JSON in hex, which is not encrypted/],
  [
    'a space for the plus',
    Buffer.alloc(32, 0xfb).toString('base64').replaceAll('+', ' '),
    /"\+": it was decoded as a form/,
  ],
  ['bytes through a character set', good.toString(), /U\+FFFD/],
  ['bytes through a character set in base64', Buffer.from(good.toString()).toString('base64'), /U\+FFFD/],
  ['the bytes as Latin-1', good.toString('latin1'), /not ASCII/],
  [
    'the bytes as Latin-1, in hex',
    Buffer.from(good.toString('latin1')).toString('hex'),
    /encoded as UTF-8 text before/,
  ],
  ['undefined', 'undefined', /your encryption failed/],
  ['null', 'null', /your encryption failed/],
  ['false', 'false', /your encryption failed/],
  ['None', 'None', /your encryption failed/],
  ['[object Object]', '[object Object]', /name of an object/],
  ["Java's [B@…", '[B@1b6d3586', /name of an object/],
  ['System.Byte[]', 'System.Byte[]', /name of an object/],
  ['<Buffer …>', '<Buffer 12 34>', /name of an object/],
  ['a list of numbers', [...good].join(','), /list of the numbers/],
  ['a list of numbers in brackets', JSON.stringify([...good]), /list of the numbers/],
  ["Java's Arrays.toString()", `[${[...good].map((byte) => (byte << 24) >> 24).join(', ')}]`, /list of the numbers/],
  ['a Buffer as JSON', JSON.stringify(good), /list of the numbers/],
  ['spaces between the bytes', (hex.match(/../g) ?? []).join(' '), /spaces between the bytes/],
  ['HTML', base64.replaceAll('=', '&#x3D;').replaceAll('+', '&#43;').concat('&#x3D;'), /escaped for HTML/],
  ['escaped slashes', `${base64.replaceAll('/', '\\/')}\\/`, /slashes were escaped twice/],
  ['escaped line breaks', `${base64.slice(0, 40)}\\n${base64.slice(40)}`, /line breaks were escaped/],
  ['a data URL', `data:application/octet-stream;base64,${base64}`, /"data:" URL/],
  ['base64:', `base64:${base64}`, /name of the encoding/],
  ['Vault', `vault:v1:${base64}`, /Vault/],
  ['Jasypt', `ENC(${base64})`, /Jasypt/],
  ['PEM', `-----BEGIN MESSAGE-----\n${base64}\n-----END MESSAGE-----`, /PEM/],
  ["SQL's X'…'", `X'${hex}'`, /SQL/],
  ['base32', 'ORSXG5A3GEZDGNBVGY3TQOJQGEZDGNBV======', /base32/],
  ['url-safe base64 with its padding', Buffer.alloc(32, 0xfb).toString('base64url').concat('='), /url-safe/],
  ['hex of base64', Buffer.from(base64).toString('hex'), /hex of base64/],
  ['base64 of base64', Buffer.from(base64).toString('base64'), /base64 of base64/],
  ['base64 of base64 with a line break', Buffer.from(`${base64}\n`).toString('base64'), /base64 of base64/],
  ['a hash of a password', '$2y$10$abcdefghijklmnopqrstuv', /hash of a password/],
  ['gzip of the ciphertext', gzipSync(good).toString('base64'), /gzip/],
  ['an empty string', '', /is empty/],
];

const asEnvelope = /send \{"data":"<ciphertext>"\}/;

/** Complete bodies that are sent to an enveloped route. */
export const bodies: readonly (readonly [name: string, body: Buffer | string, cause: RegExp])[] = [
  ['plain JSON', json, /encryption on/],
  ['an empty object', '{}', /send no body/],
  ['an empty list', '[]', /send no body/],
  ['null', 'null', /send no body/],
  ['an empty string in quotes', '""', /send no body/],
  ['a list', '[1]', asEnvelope],
  ['an envelope serialised twice', JSON.stringify(`{"data":"${hex}"}`), /serialised twice/],
  ['a ciphertext in quotes', JSON.stringify(hex), asEnvelope],
  ['Data', `{"Data":"${hex}"}`, /lower case/],
  ['encrypted_data', `{"encrypted_data":"${hex}"}`, /"encrypted_data" is for aes-decrypt/],
  ['payload', `{"payload":"${hex}"}`, /must be named "data"/],
  ['encrypted', `{"encrypted":"${base64}"}`, /must be named "data"/],
  ['an envelope in a list', `[{"data":"${hex}"}]`, /in a list/],
  ['an envelope in an object', `{"request":{"data":"${hex}"}}`, /within another object/],
  ['a form', `data=${hex}`, /a form/],
  ['a multipart form', `--x\r\nContent-Disposition: form-data; name="data"\r\n\r\n${hex}\r\n--x--\r\n`, /multipart/],
  ['XML', '<data>00</data>', /XML/],
  ['the bare ciphertext', hex, /bare ciphertext/],
  ['the bare bytes', good, /not JSON at byte 0/],
  ['a byte order mark', `\ufeff{"data":"${hex}"}`, /byte order mark/],
  ['UTF-16', Buffer.from(`{"data":"${hex}"}`, 'utf16le'), /UTF-16/],
  ['single quotes', `{'data':'${hex}'}`, /not JSON at byte 1, single quotes/],
  ['a trailing comma', `{"data":"${hex}",}`, /not JSON at byte \d+, a comma before/],
  ['a name without quotes', `{data:"${hex}"}`, /not JSON at byte 1, a name without/],
  ['a raw line break', `{"data":"${hex.slice(0, 64)}\n${hex.slice(64)}"}`, /line break/],
  ['half an envelope', `{"data":"${hex}`, /not JSON at byte \d+, it ends too early/],
  ['two envelopes', `{"data":"${hex}"}{"data":"${hex}"}`, /something follows/],
  ['data and more', `{"data":"${hex}","amount":1}`, /only member/],
  ['data twice', `{"data":"${hex}","data":"${hex}"}`, /appear once/],
  ['data is null', '{"data":null}', /encryption failed/],
  ['data is false', '{"data":false}', /encryption failed/],
  ['data is an object', `{"data":${json}}`, /"data" is not encrypted/],
  ['data is a Buffer', `{"data":${JSON.stringify(good)}}`, /bytes/],
  ['data is a list of numbers', `{"data":${JSON.stringify([...good])}}`, /bytes/],
  ['a number', '{"data":1}', /must be a string/],
];

/** Plaintexts that are accepted, because they are JSON. */
export const accepted: readonly (readonly [name: string, plaintext: string, cause: RegExp])[] = [
  ['JSON.stringify() twice', JSON.stringify(json), /serialised twice/],
  ['json_encode() of json_encode() of a list', JSON.stringify('[1,2]'), /serialised twice/],
  ['an envelope that is sealed again', `{"data":"${hex}"}`, /sealed twice/],
  ['an envelope in base64 that is sealed again', `{"data":"${base64}"}`, /sealed twice/],
  ['a document in "data" that is sealed', `{"data":${json}}`, /only "data"/],
  ['PKCS#7 by hand and by the library: tabs', `{"a":1}${'\t'.repeat(9)}`, /padded twice/],
  ['PKCS#7 by hand and by the library: line feeds', `["ab"]${'\n'.repeat(10)}`, /padded twice/],
  ['PKCS#7 by hand and by the library: carriage returns', `[1]${'\r'.repeat(13)}`, /padded twice/],
  ['str_pad() to a block', json.padEnd(48, ' '), /padded twice/],
];

const wide = 'clé-de-démonstration-de-32-oct';
/** Headers that are sent to the test endpoints. */
export const headers: readonly (readonly [name: string, key: string, iv: string, cause: RegExp])[] = [
  ['no key', '', iv, /key header is missing/],
  ['no iv', key, '', /iv header is missing/],
  ['neither', '', '', /are missing/],
  ['a key in quotes', `"${key}"`, iv, /in quotes/],
  ['an IV in quotes', key, `'${ivText}'`, /in quotes/],
  ['swapped', iv, key, /swapped/],
  ['32 bytes in base64', Buffer.alloc(32, 7).toString('base64'), iv, /base64 of 32 bytes/],
  ['32 bytes in hex', Buffer.alloc(32, 7).toString('hex'), iv, /hex of 32 bytes/],
  ['a secret API key', 'sk_test_abcdefghijklmnopqrstuvwxyz', iv, /an API key/],
  ['Bearer and an API key', 'Bearer sk_test_abcdefghijklmnopqrstuvwxyz', iv, /an API key/],
  ['a key one character short', key.slice(1), iv, /key must be 32 bytes/],
  ['a key one character long', `${key}x`, iv, /key must be 32 bytes/],
  ['a percent-encoded key', encodeURIComponent(key), iv, /percent-encoded/],
  ['an IV that is too short', key, iv.slice(0, 12), /iv must be 16 bytes/],
  ['a key with letters of two bytes', wide.padEnd(32, 'x'), iv, /key must be 32 bytes/],
];

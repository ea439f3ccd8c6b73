import { describe, expect, test } from 'vitest';
import { hintForCiphertext, wrongCredentials } from '../../src/envelope/ciphertext-hints.ts';
import { createCodec } from '../../src/envelope/formats.ts';
import { hintForBody, hintForHeaders } from '../../src/envelope/hints/hints.ts';
import { credentials } from './fixtures.ts';

const bytes = Buffer.alloc(32, 0xfb);
const hex = bytes.toString('hex');
const pairs = hex.match(/../g) ?? [];

const codec = createCodec(credentials, 'hex');

describe('hintForCiphertext', () => {
  test.each([
    ['', 'the string is empty: your encryption failed'],
    ['abc', 'odd number of hex digits'],
    [bytes.toString('hex').slice(1), 'odd number of hex digits'],
    [bytes.toString('base64url'), 'looks like url-safe base64: use the standard alphabet'],
    [bytes.toString('base64').replaceAll('+', '-'), 'looks like url-safe base64: use the standard alphabet'],
    [bytes.toString('base64').replace(/=+$/, ''), 'looks like base64 without its padding'],
    [
      bytes.toString('base64').replace('+', ' '),
      'there is a space where base64 has "+": the string was decoded as a form; percent-encode "+", or send JSON',
    ],
    [
      `${bytes.toString('base64').slice(0, 20)} ${bytes.toString('base64').slice(20)}`,
      'the string contains white space or a line break',
    ],
    [`${bytes.toString('hex')}\r\n`, 'the string contains white space or a line break'],
    ['AR==', 'neither hex nor base64'],
    [Buffer.from(bytes.toString('hex')).toString('base64'), 'looks like base64 of hex'],
    [Buffer.from(bytes.toString('hex')).toString('hex'), 'looks like hex of hex'],
    [Buffer.from(bytes.toString('base64')).toString('hex'), 'looks like hex of base64'],
    [Buffer.from(bytes.toString('base64')).toString('base64'), 'looks like base64 of base64'],
    [
      Buffer.concat([Buffer.from('Salted__'), bytes]).toString('base64'),
      'looks like passphrase encryption: pass the key as bytes, not as a string',
    ],
    [
      bytes.toString('hex', 1),
      'the ciphertext is not a multiple of 16 bytes: perhaps it was cut, was made in a mode other than CBC, such as GCM or CTR, or is not a ciphertext',
    ],
    [bytes.toString('hex'), wrongCredentials],
    [bytes.toString('base64'), wrongCredentials],
    [pairs.join('-').toUpperCase(), 'dashes between the bytes, as BitConverter writes them: remove them'],
    [pairs.join(':'), 'colons between the bytes: remove them'],
    [`0x${hex}`, '"0x" before the hex digits: remove it'],
    [`0X${hex}`, '"0x" before the hex digits: remove it'],
    [`\\x${pairs.join('\\x')}`, '"\\x" before the bytes: write hex digits alone'],
    [`\\x${hex}`, '"\\x" before the hex digits: remove it'],
    [`b'${bytes.toString('base64')}'`, "printed as Python's b'…': decode the bytes to a string first"],
    [encodeURIComponent(bytes.toString('base64')), 'percent-encoded: send the string without percent-encoding'],
  ])('explains %j', (data, hint) => {
    expect(hintForCiphertext(data)).toBe(hint);
  });

  test('begins the generic hint with the likely causes, and adds what to check', () => {
    expect(wrongCredentials).toMatch(/^wrong key or IV, or the plaintext is not JSON; check /);
    for (const word of ['as text', 'PKCS#7', 'byte order mark', '/api/s2s/aes-decrypt']) {
      expect(wrongCredentials).toContain(word);
    }
  });
});

describe('hintForBody', () => {
  const asEnvelope = 'send {"data":"<ciphertext>"}';

  test.each<[string, string | Buffer, string]>([
    ['a byte order mark', `\ufeff{"data":"${hex}"}`, 'the body begins with a byte order mark: send UTF-8 without one'],
    ['UTF-16 with its mark', Buffer.from(`\ufeff{"data":"${hex}"}`, 'utf16le'), 'the body is UTF-16: send UTF-8'],
    ['UTF-16', Buffer.from(`{"data":"${hex}"}`, 'utf16le'), 'the body is UTF-16: send UTF-8'],
    ['a form', `data=${hex}`, `the body is a form: ${asEnvelope} as JSON`],
    ['the bare hex', hex, `the body looks like the bare ciphertext: ${asEnvelope}`],
    ['a word that is base64 too', 'test', `the body is not JSON at byte 1: ${asEnvelope}`],
    [
      'the bare base64 and a line break',
      `${bytes.toString('base64')}\n`,
      `the body looks like the bare ciphertext: ${asEnvelope}`,
    ],
    [
      'a raw line break in the string',
      `{"data":"${hex}\n${hex}"}`,
      'a string contains a line break or a tab: encode the ciphertext without line breaks',
    ],
    ['half an object', '{"data":', `the body is not JSON at byte 8, it ends too early: ${asEnvelope}`],
    ['null', '{"data":null}', '"data" is empty: your encryption failed'],
    ['false', '{"data":false}', '"data" is empty: your encryption failed'],
    ['a number', '{"data":1}', '"data" must be a string: the ciphertext in hex or base64'],
    [
      'an object',
      '{"data":{}}',
      '"data" is not encrypted: anyone who sees it can read it; send the ciphertext in hex or base64',
    ],
    [
      'a second member',
      `{"data":"${hex}","x":1}`,
      '"data" must be the only member and appear once: put other members into the plaintext',
    ],
  ])('explains a malformed envelope: %s', (_, body, hint) => {
    expect(hintForBody(Buffer.from(body as string), 'envelope_malformed', codec)).toBe(hint);
  });

  test.each([
    [JSON.stringify(`{"data":"${hex}"}`), 'the envelope was serialised twice: send the object itself'],
    [JSON.stringify(hex), `the body is a JSON string: ${asEnvelope}`],
    ['[1]', `not a JSON object: ${asEnvelope}`],
    ['7', `not a JSON object: ${asEnvelope}`],
    ['null', 'the body is empty JSON: send no body if there is nothing to send, as with GET and DELETE'],
    [`{"Data":"${hex}"}`, 'the member must be named "data", in lower case'],
    [`{"encrypted_data":"${hex}"}`, 'the member must be named "data"; "encrypted_data" is for aes-decrypt'],
    ['{"amount":1000}', `encryption is on for this account: ${asEnvelope}`],
  ])('explains JSON that is not an envelope: %s', (body, hint) => {
    expect(hintForBody(Buffer.from(body), 'envelope_required', codec)).toBe(hint);
  });

  test('explains a string that does not open', () => {
    expect(hintForBody(Buffer.from(`{"data":"0x${hex}"}`), 'decryption_failed', codec)).toBe(
      '"0x" before the hex digits: remove it',
    );
  });
});

describe('hintForHeaders', () => {
  const key = '0123456789abcdefghijklmnopqrstuv';
  const iv = 'ABCDEFGHIJKLMNOP';

  test.each<[string, string, string | undefined]>([
    ['', iv, 'the key header is missing'],
    [key, '', 'the iv header is missing'],
    ['', '', 'the key header and the iv header are missing'],
    [`"${key}"`, iv, 'the key header is in quotes: remove the quotes'],
    [key, `'${iv}'`, 'the iv header is in quotes: remove the quotes'],
    [iv, key, 'key and iv seem to be swapped'],
    [
      bytes.toString('base64'),
      iv,
      'the key header looks like base64 of 32 bytes: send the 32 characters as you received them',
    ],
    [hex, iv, 'the key header looks like hex of 32 bytes: send the 32 characters as you received them'],
    [`${key}x`, iv, undefined],
    [key, key, undefined],
    ['x'.repeat(15), key, undefined],
  ])('explains %j and %j', (keyHeader, ivHeader, hint) => {
    expect(hintForHeaders(keyHeader, ivHeader)).toBe(hint);
  });
});

import { describe, expect, test } from 'vitest';
import { hintForPlaintext } from '../../src/envelope/hints/accepted-hints.ts';
import { parseCredentials } from '../../src/envelope/formats.ts';
import { hintForBody, hintForHeaders } from '../../src/envelope/hints/hints.ts';
import type { Credentials } from '../../src/envelope/credentials.ts';
import { isJson } from '../../src/envelope/json/json.ts';
import { findCause } from '../../src/envelope/hints/diagnosis.ts';
import { openEnvelope } from '../../src/envelope/envelope.ts';
import { createCodec } from '../../src/envelope/formats.ts';
import { ivsFor, keysFor } from '../../src/envelope/hints/candidates.ts';
import { falseIn, namedIn, type Part } from './claims.ts';
import { accepted, ciphertexts, strings, bodies, headers } from './slip-list.ts';
import { encrypt, iv, key } from './slips.ts';
import { noMemory } from '../support/sidecar.ts';

const noise = Buffer.from('9f3ce1077bd2486ab05519c8e6f4a32d', 'hex');

/** Documents of all kinds: JSON, text that is not JSON, and bytes that are not text. */
const documents: readonly (readonly [name: string, document: Buffer | string])[] = [
  ['JSON', '{"amount":1000,"currency":"EUR","note":"caf\u00e9"}'],
  ['short JSON', '{"a":1}'],
  ['JSON of a block', '{"amount":10000}'],
  ['JSON in lines', '{\n  "amount": 1000,\n  "items": [1, 2, 3]\n}\n'],
  ['a long list', JSON.stringify(Array.from({ length: 60 }, (_, i) => i))],
  ['Python', "{'amount': 1000, 'currency': 'EUR', 'ok': True}"],
  ['PHP', 'a:2:{s:6:"amount";i:1000;s:8:"currency";s:3:"EUR";}'],
  ['Java', '{amount=1000, currency=EUR, note=none}'],
  ['a trailing comma', '{"amount":1000,"currency":"EUR",}'],
  ['NaN', '{"currency":"EUR","amount":NaN}'],
  ['a form', 'amount=1000&currency=EUR&reference=order-1001'],
  ['XML', '<charge><amount>1000</amount><currency>EUR</currency></charge>'],
  ['YAML', 'amount: 1000\ncurrency: EUR\nreference: order-1001\n'],
  ['half an object', '{"amount":1000,"currency":"EUR"'],
  ['two documents', '{"amount":1000}\n{"amount":2000}\n'],
  ['a raw line break', '{"note":"first line\nsecond line","amount":1}'],
  ['a word', 'undefined'],
  ['an object printed', '[object Object]'],
  ['Latin-1 that is not JSON', Buffer.from("{'note': '\u00e9t\u00e9', 'amount': 1000, 'x': 1}", 'latin1')],
  ['MessagePack', Buffer.concat([Buffer.from('81a46e6f7465d940', 'hex'), Buffer.from('a'.repeat(64))])],
  ['UTF-16 that is not JSON', Buffer.from("{'amount': 1000}", 'utf16le')],
  ['escaped quotes', '{\\"amount\\":1000,\\"currency\\":\\"EUR\\"}'],
  [
    'letters of another script',
    '\u043d\u0435\u0442 \u0434\u0430\u043d\u043d\u044b\u0445 \u0434\u043b\u044f \u043e\u043f\u043b\u0430\u0442\u044b',
  ],
  ['a length before JSON', Buffer.concat([Buffer.from([0, 0, 0, 14]), Buffer.from('{"amount":1000}')])],
  ['16 bytes before JSON', Buffer.concat([noise, Buffer.from('{"amount":1000,"currency":"EUR"}')])],
  ['16 bytes before text', Buffer.concat([noise, Buffer.from('amount=1000&currency=EUR&reference=order-1001')])],
  ['JSON in Windows-1251', Buffer.concat([Buffer.from('{"note":"'), Buffer.from('cdc5d2', 'hex'), Buffer.from('"}')])],
  ['a serialised Java string', Buffer.concat([Buffer.from('aced000574000f', 'hex'), Buffer.from('{"amount":1000}')])],
];

const otherIv = Buffer.from('qWmX1cB7vNzL0pRt');
const random = Buffer.from('f00dcafe00112233445566778899aabb', 'hex');
const almost = Buffer.from(`${iv.slice(0, 15)}${String.fromCharCode(iv.charCodeAt(15) ^ 1)}`);
const otherKey = Buffer.from('zT4+sY8kQ1/bN6vM3xR0wJ7uH2cE9aLf');
const padding = (document: Buffer | string, fill: number): Buffer => {
  const bytes = Buffer.from(document as string);
  return Buffer.concat([bytes, Buffer.alloc(16 - (bytes.length % 16), fill)]);
};

/** Ways to encrypt a document, each with the parts that it gets wrong. */
const causes: readonly (readonly [
  name: string,
  wrong: readonly Part[],
  seal: (document: Buffer | string) => Buffer,
])[] = [
  ['nothing', [], (document) => encrypt(document)],
  ['a random IV', ['iv'], (document) => encrypt(document, { usedIv: random })],
  ['the IV of the other environment', ['iv'], (document) => encrypt(document, { usedIv: otherIv })],
  ['an IV with a typing error', ['iv'], (document) => encrypt(document, { usedIv: almost })],
  ['no IV', ['iv'], (document) => encrypt(document, { usedIv: Buffer.alloc(16) })],
  ['the key of the other environment', ['key'], (document) => encrypt(document, { usedKey: otherKey })],
  [
    'the pair of the other environment',
    ['key', 'iv'],
    (document) => encrypt(document, { usedKey: otherKey, usedIv: otherIv }),
  ],
  ['NULs as padding', ['padding'], (document) => encrypt(padding(document, 0), {}, false)],
  [
    'NULs as padding and a random IV',
    ['padding', 'iv'],
    (document) => encrypt(padding(document, 0), { usedIv: random }, false),
  ],
  [
    'a key decoded from base64',
    ['key'],
    (document) => encrypt(document, { algorithm: 'aes-192-cbc', usedKey: Buffer.from(key, 'base64') }),
  ],
  ['ECB', ['mode'], (document) => encrypt(document, { algorithm: 'aes-256-ecb', usedIv: null })],
  ['CTR', ['mode'], (document) => encrypt(document, { algorithm: 'aes-256-ctr' })],
];

const credentials = parseCredentials(key, iv, 'text') as Credentials;

describe('no hint names a part that is right', () => {
  test.each(causes)('%s', (_, wrong, seal) => {
    for (const [name, document] of documents) {
      const ciphertext = seal(document);
      const faults: Part[] = [...wrong];
      if (!isJson(Buffer.from(document as string))) faults.push('plaintext');
      if (faults.length === 0) continue;
      const hint = findCause(ciphertext.toString('hex'), credentials, key, iv);
      // The decrypted text may be JSON by chance, even if a letter is wrong.
      if (hint === undefined) continue;
      expect([name, hint, falseIn(hint, faults)]).toEqual([name, hint, []]);
      expect(hint.length).toBeLessThanOrEqual(200);
    }
  });
});

describe('no hint names a mistake with the key or the IV other than the one that was made', () => {
  test.each(['7', '[]', '{"a":1}', '{"amount":10000}', '{"reference":"order-1001","amount":1500}'])(
    'with the document %s',
    (document) => {
      const [keys, ivs] = [keysFor(key, iv), ivsFor(iv, key)];
      let named = 0;
      for (const usedKey of keys) {
        for (const usedIv of ivs) {
          const made = [usedKey.name, usedIv.name].filter((name) => name !== '');
          const algorithm = `aes-${usedKey.bytes.length * 8}-cbc`;
          const ciphertext = encrypt(document, { algorithm, usedKey: usedKey.bytes, usedIv: usedIv.bytes });
          const cause = findCause(ciphertext.toString('hex'), credentials, key, iv);
          if (made.length === 0 || cause === undefined) continue;
          // With a short document, several IVs can result in JSON.
          const others = [/^a different IV was used: [^;]*$/, /^no IV or an all-zero IV was used: [^;]*$/];
          const said = cause.split('; and ');
          const right = said.filter((cause) => made.includes(cause) || others.some((other) => other.test(cause)));
          expect([made, said]).toEqual([made, right]);
          named += Number(cause === made.join('; and '));
        }
      }
      expect(named / (keys.length * ivs.length)).toBeGreaterThan(0.85);
    },
  );
});

/** The endpoint's message if no hint fits. */
function rulesFor(keyHeader: string, ivHeader: string): string {
  const parsed = parseCredentials(keyHeader, ivHeader, 'text');
  return Array.isArray(parsed) ? parsed.map(({ member, message }) => `${member} ${message}`).join('; ') : 'no fault';
}

describe('the list of slips', () => {
  const codec = createCodec(credentials, 'hex');

  /** The hint for each slip, with the parts that are wrong. */
  async function hints(): Promise<
    readonly (readonly [name: string, hint: string, wrong: readonly Part[], cause: RegExp])[]
  > {
    const all: [string, string, readonly Part[], RegExp][] = [];
    for (const [name, ciphertext, wrong, cause] of ciphertexts) {
      const data = typeof ciphertext === 'string' ? ciphertext : ciphertext.toString('hex');
      all.push([name, findCause(data, credentials, key, iv) ?? 'it opens', wrong, cause]);
    }
    for (const [name, data, cause] of strings) {
      all.push([name, findCause(data, credentials, key, iv) ?? 'it opens', ['form'], cause]);
      const opened = await openEnvelope(Buffer.from(JSON.stringify({ data })), [codec], noMemory);
      const hint =
        'code' in opened ? hintForBody(Buffer.from(JSON.stringify({ data })), opened.code, codec) : 'it opens';
      all.push([`${name}, in an envelope`, hint, ['form'], cause]);
    }
    for (const [name, body, cause] of bodies) {
      const opened = await openEnvelope(Buffer.from(body as string), [codec], noMemory);
      const hint = 'code' in opened ? hintForBody(Buffer.from(body as string), opened.code, codec) : 'it opens';
      all.push([name, hint, ['form'], cause]);
    }
    for (const [name, plaintext, cause] of accepted) {
      all.push([name, hintForPlaintext(Buffer.from(plaintext)) ?? 'none', ['plaintext', 'padding'], cause]);
    }
    for (const [name, keyHeader, ivHeader, cause] of headers) {
      all.push([
        name,
        hintForHeaders(keyHeader, ivHeader) ?? rulesFor(keyHeader, ivHeader),
        ['form', 'key', 'iv'],
        cause,
      ]);
    }
    return all;
  }

  test('has at least 150 slips, and the hints name 85 % or more of them and say nothing false about any', async () => {
    const all = await hints();
    const slips = [ciphertexts, strings, bodies, accepted, headers].reduce((sum, { length }) => sum + length, 0);
    expect(slips).toBeGreaterThanOrEqual(150);
    const unnamed = all.filter(([, hint, , cause]) => !cause.test(hint));
    expect(unnamed.length / all.length).toBeLessThanOrEqual(0.15);
    expect(all.filter(([, hint, wrong]) => falseIn(hint, wrong).length > 0)).toEqual([]);
    expect(all.filter(([, hint]) => hint.length > 200)).toEqual([]);
    for (const [name, hint] of all) expect([name, hint.includes(key), hint.includes(iv)]).toEqual([name, false, false]);
  });

  /** Bodies that look like the result of a slip, but are not. */
  test.each<[name: string, body: string, claim: RegExp]>([
    ['a word that is base64 too, as data', '{"data":"test"}', /: it was cut|the mode is/],
    ['a word that is base64 too, alone', 'test', /bare ciphertext/],
    ['an id of 24 hex digits', '{"payment_id":"5f8f8c44b54764421b7156c3"}', /ciphertext must be named/],
    ['a UUID', '{"id":"550e8400e29b41d4a716446655440000"}', /ciphertext must be named/],
    ['a list of amounts', '{"data":[1500,2500]}', /is the list/],
  ])('does not mistake a resemblance for a fact: %s', async (_, body, claim) => {
    const opened = await openEnvelope(Buffer.from(body), [codec], noMemory);
    const hint = 'code' in opened ? hintForBody(Buffer.from(body), opened.code, codec) : 'it opens';
    expect(hint).not.toMatch(claim);
    expect(hint.length).toBeLessThanOrEqual(200);
  });

  test('is judged by what the hints name, and that check can fail', () => {
    expect(namedIn('the IV is wrong: only the first 16 bytes are not text')).toEqual(['iv']);
    expect(falseIn('the key was hashed with MD5', ['iv'])).toEqual(['key']);
  });
});

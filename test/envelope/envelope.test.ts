import * as fc from 'fast-check';
import { describe, expect, onTestFinished, test, vi } from 'vitest';
import { encodings } from '../../src/envelope/encoding.ts';
import { createCodec } from '../../src/envelope/formats.ts';
import { hasEnvelopeShape, isEnvelope, openEnvelope } from '../../src/envelope/envelope.ts';
import { wrongCredentials } from '../../src/envelope/ciphertext-hints.ts';
import { JsonReader } from '../../src/envelope/json/json-reader.ts';
import { hintForBody } from '../../src/envelope/hints/hints.ts';
import { cipher, credentials, iv, key, now, openssl, otherCredentials } from './fixtures.ts';
import { anyCharacter, runs } from '../support/property.ts';
import { noMemory } from '../support/sidecar.ts';

const codec = createCodec(credentials, 'hex');
const otherCodec = createCodec(otherCredentials, 'hex');
const document = Buffer.from('{"amount": 10.50, "note": "é"}');

function envelope(data: string): Buffer {
  return Buffer.from(JSON.stringify({ data }));
}

/** Opens an envelope. Returns the plaintext as text, or the code and the reason. */
function outcomeOf(body: Buffer, candidates = [codec]): string {
  const result = now(openEnvelope(body, candidates, noMemory));
  if ('plaintext' in result) return result.plaintext.toString();
  return [result.code, result.reason].filter((part) => part !== undefined).join(' ');
}

describe('openEnvelope', () => {
  const hex = cipher.encrypt(document).toString('hex');
  const base64 = cipher.encrypt(document).toString('base64');

  test.each([
    ['hex', `{"data":"${hex}"}`],
    ['upper-case hex', `{"data":"${hex.toUpperCase()}"}`],
    ['base64', `{"data":"${base64}"}`],
    ['base64 as PHP escapes it', `{"data":"${base64.replaceAll('/', '\\/')}"}`],
    [
      'a string written in escapes only',
      `{"data":"${hex.replaceAll(/./g, (digit) => `\\u00${digit.charCodeAt(0).toString(16)}`)}"}`,
    ],
    ['an escape in the name', `{"d\\u0061ta":"${hex}"}`],
    ['white space in every place', ` \t\r\n{ "data"\n:\t"${hex}" \r}\n`],
  ])('opens %s, byte for byte', (_, body) => {
    expect(outcomeOf(Buffer.from(body))).toBe(document.toString());
  });

  test('is tested with base64 that contains a slash to escape', () => {
    expect(base64).toContain('/');
  });

  test.each(['{}', '[1, 2 ]', '"text"', '0', 'null', ' {"a":1}\n'])(
    'accepts any JSON value as plaintext: %j',
    (json) => {
      expect(outcomeOf(Buffer.from(codec.seal(Buffer.from(json))))).toBe(json);
    },
  );

  test.each([
    ['an object without data', '{"amount":1}'],
    ['an empty object', '{}'],
    ['Data with a capital letter', `{"Data":"${hex}"}`],
    ['data one level down', `{"body":{"data":"${hex}"}}`],
    ['data as a prototype', `{"__proto__":{"data":"${hex}"}}`],
    ['an array', `[{"data":"${hex}"}]`],
    ['a bare string', `"${hex}"`],
    ['a number', '1'],
    ['null', 'null'],
  ])('refuses %s with envelope_required', (_, body) => {
    expect(outcomeOf(Buffer.from(body))).toBe('envelope_required');
  });

  test.each([
    ['nothing', ''],
    ['white space', ' \n'],
    ['bare hex', `x${hex}`],
    ['a form', `data=${hex}`],
    ['an envelope cut short', `{"data":"${hex}"`],
    ['a character after the envelope', `{"data":"${hex}"}x`],
    ['a comma too many', `{"data":"${hex}",}`],
    ['single quotes', `{'data':'${hex}'}`],
    ['an unknown escape', `{"data":"\\x61"}`],
    ['a raw line break in the string', `{"data":"${hex}\n"}`],
    ['a raw control character in the string', `{"data":"\u0001"}`],
    ['a string whose end is escaped', `{"data":"${hex}\\"}`],
    ['data that is a number', '{"data":1}'],
    ['data that is null', '{"data":null}'],
    ['data that is an object', `{"data":{"data":"${hex}"}}`],
    ['data that is an array', `{"data":["${hex}"]}`],
    ['a member after data', `{"data":"${hex}","iv":"x"}`],
    ['a member before data', `{"iv":"x","data":"${hex}"}`],
    ['the same member twice', `{"data":"${hex}","data":"${hex}"}`],
    ['two different data members', '{"data":"a","data":"b"}'],
    ['a valid data member after an invalid one', `{"data":"é","data":"${hex}"}`],
    ['a duplicate in escapes', `{"data":"${hex}","d\\u0061ta":"${hex}"}`],
    ['a byte order mark', `\ufeff{"data":"${hex}"}`],
  ])('refuses %s with envelope_malformed', (_, body) => {
    expect(outcomeOf(Buffer.from(body))).toBe('envelope_malformed');
  });

  test.each([
    ['in the string', [Buffer.from('{"data":"'), Buffer.from([0xe9]), Buffer.from('"}')]],
    ['in the name', [Buffer.from('{"dat'), Buffer.from([0xff]), Buffer.from(`":"${hex}"}`)]],
    ['everywhere, as in UTF-16', [Buffer.from(`{"data":"${hex}"}`, 'utf16le')]],
  ])('refuses bytes that are not UTF-8 %s with envelope_malformed', (_, parts) => {
    expect(outcomeOf(Buffer.concat(parts))).toBe('envelope_malformed');
  });

  test.each([
    ['an odd hex digit', hex.slice(1), 'encoding'],
    ['other characters', 'a!', 'encoding'],
    ['non-ASCII letters', 'é', 'encoding'],
    ['letters whose low byte is a hex digit', '\u0130'.repeat(32), 'encoding'],
    ['an escaped quote', 'a"b', 'encoding'],
    ['an escaped line break', `${base64}\n`, 'encoding'],
    ['an empty string', '', 'length'],
    ['15 bytes', hex.slice(0, 30), 'length'],
    ['17 bytes', hex.slice(0, 34), 'length'],
    ['a missing last block', hex.slice(0, -32), 'padding'],
    ['ciphertext that was encoded twice', Buffer.from(hex).toString('base64'), 'padding'],
  ])('refuses %s with decryption_failed', (_, data, reason) => {
    expect(openEnvelope(envelope(data), [codec], noMemory)).toEqual({ code: 'decryption_failed', reason });
  });

  test.each([
    ['text', Buffer.from('hello')],
    ['nothing', Buffer.alloc(0)],
    ['JSON after a byte order mark', Buffer.from('\ufeff{}')],
    ['JSON in Latin-1', Buffer.from('{"note":"é"}', 'latin1')],
    ['JSON cut short', Buffer.from('{"amount":1')],
  ])('refuses a plaintext that is %s', (_, plaintext) => {
    const body = Buffer.from(codec.seal(plaintext));
    expect(openEnvelope(body, [codec], noMemory)).toEqual({ code: 'decryption_failed', reason: 'not_json' });
  });

  test('distinguishes bad padding from bad JSON only in the logged reason', () => {
    const padding = now(
      openEnvelope(envelope(openssl(key, iv, Buffer.alloc(16, 'x'), '-nopad').toString('hex')), [codec], noMemory),
    );
    const json = now(openEnvelope(Buffer.from(codec.seal(Buffer.from('x'))), [codec], noMemory));
    expect(padding).toMatchObject({ reason: 'padding' });
    expect(json).toMatchObject({ reason: 'not_json' });
    expect({ ...padding, reason: '' }).toEqual({ ...json, reason: '' });
  });

  test('reads all blocks in the same steps, whatever the padding is and wherever the fault is', () => {
    const good = Buffer.from(`{"a":"${'b'.repeat(4_000)}"}`.padEnd(4_096));
    const read = vi.spyOn(JsonReader.prototype, 'read');
    onTestFinished(() => read.mockRestore());
    const stepsFor = (padded: Buffer, expected: string): unknown => {
      read.mockClear();
      const opened = now(codec.open(Buffer.from(openssl(key, iv, padded, '-nopad').toString('hex')), noMemory));
      expect(typeof opened === 'string' ? opened : 'opened').toBe(expected);
      return read.mock.calls.map(([, from, to]) => [from, to]);
    };
    const ending = (bytes: Buffer, end: string): Buffer =>
      Buffer.concat([bytes.subarray(0, -end.length), Buffer.from(end)]);
    const steps = stepsFor(ending(good, '\x01'), 'opened');
    // The JSON reader reads everything but the last block at once, and then each of the 16 bytes in which the document
    // may end.
    expect(steps).toEqual([[0, 4_080], ...Array.from({ length: 16 }, (_, i) => [4_080 + i, 4_081 + i])]);
    for (const [padded, expected] of [
      [ending(good, '\x10'.repeat(16)), 'opened'],
      [good, 'padding'],
      [ending(good, '\0'), 'padding'],
      [ending(good, '\x11'.repeat(17)), 'padding'],
      [ending(good, '}\x01'), 'not_json'],
      [ending(good.fill('[', 0, 1), '\x01'), 'not_json'],
      [ending(good.fill(0xff, 0, 1), '\x02\x02'), 'not_json'],
      [good.fill(0xff), 'padding'],
    ] as const) {
      expect(stepsFor(padded, expected)).toEqual(steps);
    }
  });

  test('refuses JSON with wrong padding', () => {
    const padded = Buffer.from(`{"a":"bcdef"}${' '.repeat(3)}`);
    const ciphertext = openssl(key, iv, padded, '-nopad');
    expect(JSON.parse(padded.toString())).toEqual({ a: 'bcdef' });
    expect(outcomeOf(envelope(ciphertext.toString('hex')))).toBe('decryption_failed padding');
  });

  test('refuses padding to blocks of 32 bytes, as some PHP code writes it', () => {
    const json = Buffer.from('{"a":1}');
    const padded = Buffer.alloc(32, 32 - json.length).fill(json, 0, json.length);
    expect(outcomeOf(envelope(openssl(key, iv, padded, '-nopad').toString('base64')))).toBe(
      'decryption_failed padding',
    );
  });

  test('refuses a ciphertext with any single bit flipped, always with the same hint', () => {
    const ciphertext = cipher.encrypt(document);
    const reasons = new Set<string | undefined>();
    for (let at = 0; at < ciphertext.length; at += 1) {
      for (let bit = 0; bit < 8; bit += 1) {
        const flipped = Buffer.from(ciphertext);
        flipped.writeUInt8(flipped.readUInt8(at) ^ (1 << bit), at);
        const body = envelope(flipped.toString('hex'));
        const result = now(openEnvelope(body, [codec], noMemory));
        expect(result).toMatchObject({ code: 'decryption_failed' });
        expect(hintForBody(body, 'decryption_failed', codec)).toBe(wrongCredentials);
        if ('reason' in result) reasons.add(result.reason);
      }
    }
    expect(reasons).toEqual(new Set(['padding', 'not_json']));
  });

  test('refuses a body with any single byte replaced', () => {
    const body = Buffer.from(`{"data":"${hex}"}`);
    for (let at = 0; at < body.length; at += 1) {
      for (const byte of [0x00, 0x0a, 0x20, 0x22, 0x5c, 0x67, 0x7d, 0x80, 0xff]) {
        if (body[at] === byte) continue;
        const damaged = Buffer.from(body);
        damaged.writeUInt8(byte, at);
        expect(openEnvelope(damaged, [codec], noMemory)).toHaveProperty('code');
      }
    }
  });

  test('reports the reason of the candidate that got furthest, in whatever order the candidates are tried', () => {
    const body = Buffer.from(codec.seal(Buffer.from('x')));
    expect(outcomeOf(body, [otherCodec])).toBe('decryption_failed padding');
    for (const candidates of [
      [codec, otherCodec],
      [otherCodec, codec],
    ]) {
      expect(outcomeOf(body, candidates)).toBe('decryption_failed not_json');
    }
  });

  test('opens with the matching candidate and returns it', () => {
    const body = Buffer.from(otherCodec.seal(document));
    const opened = now(openEnvelope(body, [codec, otherCodec], noMemory));
    expect(opened).toMatchObject({ plaintext: document });
    expect('openedBy' in opened && opened.openedBy === otherCodec).toBe(true);
    expect(outcomeOf(body, [codec])).toMatch(/^decryption_failed/);
    expect(outcomeOf(body, [])).toMatch(/^decryption_failed/);
  });
});

describe('hasEnvelopeShape and isEnvelope', () => {
  const block = '00'.repeat(16);

  test.each([
    [`{"data":"${block}"}`, true, true],
    [`{"data":"${block}${block}"}`, true, true],
    [`{"data":"${Buffer.alloc(16).toString('base64')}"}`, true, true],
    [` { "d\\u0061ta" : "${block.replaceAll('0', '\\u0030')}" } `, true, true],
    ['{"data":""}', true, false],
    [`{"data":"${block.slice(2)}"}`, true, false],
    [`{"data":"${block}00"}`, true, false],
    [`{"data":"${block}0"}`, true, false],
    ['{"data":"é"}', true, false],
    ['{"data":"hello"}', true, false],
    [`{"data":"${block}","data":"${block}"}`, false, false],
    [`{"data":"${block}","x":1}`, false, false],
    ['{"data":1}', false, false],
    ['{"amount":1}', false, false],
    [`{"data":"${block}"`, false, false],
    [`{"data":"${block}\n"}`, false, false],
    [`"${block}"`, false, false],
    ['', false, false],
  ])('%j: shape %s, envelope %s', (body, shape, whole) => {
    expect(hasEnvelopeShape(Buffer.from(body))).toBe(shape);
    expect(isEnvelope(Buffer.from(body))).toBe(whole);
  });

  test('are false for bytes that are not UTF-8', () => {
    const body = Buffer.from('{"data":"é"}', 'latin1');
    expect(hasEnvelopeShape(body)).toBe(false);
    expect(isEnvelope(body)).toBe(false);
  });
});

describe.each(encodings)('sealing in %s', (encoding) => {
  const chunks = fc.array(
    fc.uint8Array({ maxLength: 50 }).map((array) => Buffer.from(array)),
    { maxLength: 8 },
  );

  test('makes an object with the same ciphertext as openssl', () => {
    fc.assert(
      fc.property(fc.uint8Array({ maxLength: 100 }), (array) => {
        const ciphertext = openssl(key, iv, array).toString(encoding);
        expect(createCodec(credentials, encoding).seal(Buffer.from(array))).toBe(`{"data":"${ciphertext}"}`);
      }),
      { numRuns: runs(25) },
    );
  });

  test('makes an envelope that opens again, byte for byte', () => {
    fc.assert(
      fc.property(fc.json({ stringUnit: anyCharacter }), (json) => {
        const plaintext = Buffer.from(json);
        const body = Buffer.from(createCodec(credentials, encoding).seal(plaintext));
        expect(isEnvelope(body)).toBe(true);
        expect(openEnvelope(body, [codec], noMemory)).toMatchObject({ plaintext });
      }),
      { numRuns: runs(100) },
    );
  });

  test('in pieces makes the same envelope, however the plaintext is divided', () => {
    fc.assert(
      fc.property(chunks, (chunks) => {
        const sealer = createCodec(credentials, encoding).stream();
        const pieces = [...chunks.map((chunk) => sealer.update(chunk)), sealer.end()];
        expect(pieces[0]).toMatch(/^\{"data":"/);
        expect(pieces.at(-1)).toMatch(/"\}$/);
        expect(pieces.join('')).toBe(createCodec(credentials, encoding).seal(Buffer.concat(chunks)));
      }),
      { numRuns: runs(500) },
    );
  });

  test('in pieces holds back less than a block and a base64 group', () => {
    const sealer = createCodec(credentials, encoding).stream();
    let plain = 0;
    let sealed = 0;
    for (let size = 0; size < 200; size += 1) {
      sealed += sealer.update(Buffer.alloc(size)).length;
      plain += size;
      expect(createCodec(credentials, encoding).sealedLength(plain) - sealed).toBeLessThanOrEqual(16 * 2 + 4 + 2);
    }
  });

  test('has a length that is known in advance', () => {
    for (let length = 0; length <= 100; length += 1) {
      const sealed = createCodec(credentials, encoding).seal(Buffer.alloc(length));
      expect(createCodec(credentials, encoding).sealedLength(length)).toBe(Buffer.byteLength(sealed));
    }
  });
});

import * as fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import { isJson, minifyJson } from '../../src/envelope/json/json.ts';
import { sliceLength } from '../../src/slices.ts';
import { anyCharacter, runs } from '../support/property.ts';

const bytes = (text: string): Buffer => Buffer.from(text);

describe('isJson', () => {
  test.each(['{}', '[]', '"x"', '0', '-0.5e+10', 'true', 'null', ' \t\r\n1 \n', '"\\u00e9\\ud800"', '"é😀"', '1e999'])(
    'accepts any JSON value: %j',
    (text) => {
      expect(isJson(bytes(text))).toBe(true);
    },
  );

  test.each([
    '',
    ' ',
    '{',
    '{"a":1,}',
    "{'a':1}",
    '01',
    '1.',
    '+1',
    'NaN',
    'undefined',
    '1 2',
    '"\n"',
    '"\\x"',
    '/**/1',
  ])('refuses %j', (text) => {
    expect(isJson(bytes(text))).toBe(false);
  });

  test('refuses white space that JavaScript has and JSON does not', () => {
    for (const space of ['\u00a0', '\u2028', '\v', '\f']) expect(isJson(bytes(`${space}1`))).toBe(false);
  });

  test('refuses a byte order mark', () => {
    expect(isJson(bytes('\ufeff{}'))).toBe(false);
    expect(isJson(Buffer.from('\ufeff{}', 'utf16le'))).toBe(false);
  });

  test.each([
    ['a byte that UTF-8 never has', 'ff'],
    ['Latin-1', 'e9'],
    ['an incomplete character', 'e282'],
    ['an overlong form', 'c0af'],
    ['a surrogate', 'eda080'],
    ['a code point beyond Unicode', 'f4908080'],
  ])('refuses %s in a string', (_, hex) => {
    expect(isJson(Buffer.concat([bytes('"'), Buffer.from(hex, 'hex'), bytes('"')]))).toBe(false);
  });

  test('survives a depth of a million', () => {
    const depth = 1_000_000;
    expect(isJson(bytes('['.repeat(depth) + ']'.repeat(depth)))).toBe(true);
    expect(isJson(bytes('['.repeat(depth)))).toBe(false);
    expect(isJson(bytes('{"a":'.repeat(depth)))).toBe(false);
  });

  test('agrees with a strict decoder and JSON.parse on damaged documents', () => {
    const decoder = new TextDecoder('utf-8', { fatal: true, ignoreBOM: true });
    const reference = (array: Uint8Array): boolean => {
      try {
        JSON.parse(decoder.decode(array));
        return true;
      } catch {
        return false;
      }
    };
    const outcomes = { true: 0, false: 0 };
    const edit = fc.record({ at: fc.nat(), byte: fc.integer({ min: 0, max: 255 }), drop: fc.boolean() });
    fc.assert(
      fc.property(fc.json({ stringUnit: anyCharacter }), fc.array(edit, { maxLength: 2 }), (json, edits) => {
        const array = [...bytes(json)];
        for (const { at, byte, drop } of edits) array.splice(at % array.length, drop ? 1 : 0, byte);
        const expected = reference(Uint8Array.from(array));
        outcomes[`${expected}`] += 1;
        expect(isJson(Buffer.from(array))).toBe(expected);
      }),
      { numRuns: runs(3000) },
    );
    expect(outcomes.true).toBeGreaterThan(runs(100));
    expect(outcomes.false).toBeGreaterThan(runs(100));
  });
});

describe('minifyJson', () => {
  /** A document as a list of tokens, between which white space is insignificant. */
  const { tokens } = fc.letrec<{ tokens: string[] }>((tie) => {
    const scalar = fc.constantFrom('1.10', '-0', '1E+05', '12345678901234567890.0', 'true', 'false', 'null');
    const character = fc.constantFrom(
      ' ',
      'a',
      '\\"',
      '\\\\',
      '\\/',
      '\\u0020',
      '\\n',
      'é',
      '😀',
      '{',
      '}',
      '[',
      ']',
      ',',
      ':',
    );
    const string = fc.array(character, { maxLength: 8 }).map((characters) => `"${characters.join('')}"`);
    const join = (open: string, items: string[][], close: string): string[] => [
      open,
      ...items.flatMap((item, index) => (index === 0 ? item : [',', ...item])),
      close,
    ];
    const member = fc.tuple(string, tie('tokens')).map(([name, value]) => [name, ':'].concat(value));
    return {
      tokens: fc.oneof(
        { maxDepth: 4 },
        fc.oneof(scalar, string).map((token) => [token]),
        fc.array(tie('tokens'), { maxLength: 4 }).map((items) => join('[', items, ']')),
        fc.array(member, { maxLength: 4 }).map((items) => join('{', items, '}')),
      ),
    };
  });
  const space = fc.string({ unit: fc.constantFrom(' ', '\t', '\r', '\n'), maxLength: 3 });

  test('removes the white space between tokens and keeps all tokens in order', async () => {
    await fc.assert(
      fc.asyncProperty(tokens, fc.infiniteStream(space), async (tokens, spaces) => {
        const spaced = tokens.map((token) => spaces.next().value + token).join('') + spaces.next().value;
        const minified = (await minifyJson(bytes(spaced))).toString();
        expect(minified).toBe(tokens.join(''));
        expect(JSON.parse(minified)).toEqual(JSON.parse(spaced));
      }),
      { numRuns: runs(500) },
    );
  });

  test('keeps white space, quotes and backslashes inside strings', async () => {
    const minified = await minifyJson(bytes(' { "a \\" b" : "c\\\\" , "d" : " \\\\\\" " } '));
    expect(minified.toString()).toBe('{"a \\" b":"c\\\\","d":" \\\\\\" "}');
  });

  test.each(['"', '\\', ' '])('keeps its place in a string from slice to slice: %j', async (byte) => {
    for (const at of [sliceLength - 1, sliceLength, sliceLength + 1]) {
      const json = `${'[ "'.padEnd(at, 'x')}${byte === ' ' ? ' ' : `\\${byte}`} " ]`;
      const minified = minifyJson(bytes(json));
      expect(minified).toBeInstanceOf(Promise);
      expect((await minified).toString()).toBe(json.replace('[ ', '[').replace(' ]', ']'));
    }
  });

  test('does not change its argument', async () => {
    const json = bytes('[ 1 ]');
    await minifyJson(json);
    expect(json.toString()).toBe('[ 1 ]');
  });
});

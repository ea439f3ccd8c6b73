import * as fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import { decodeBase64, decodeCiphertext } from '../../src/envelope/encoding.ts';
import { anyCharacter, runs } from '../support/property.ts';

describe('decodeCiphertext', () => {
  test.each([
    ['lower-case hex', '00ff7a', '00ff7a'],
    ['upper-case hex', '00FF7A', '00ff7a'],
    ['hex of mixed case', 'aAfF', 'aaff'],
    ['hex digits that could be base64 as well', 'abcd', 'abcd'],
    ['base64 that fills its groups', 'AQID', '010203'],
    ['base64 with one =', 'AQI=', '0102'],
    ['base64 with two =', 'AQ==', '01'],
    ['the two signs of the standard alphabet', '+/+/', 'fbffbf'],
    ['base64 whose last character alone is not a hex digit', 'abcg', '69b720'],
    ['an empty string', '', ''],
  ])('decodes %s', (_, text, bytes) => {
    expect(decodeCiphertext(text)?.toString('hex')).toBe(bytes);
  });

  test.each([
    ['one hex digit', 'a'],
    ['an odd number of hex digits', 'aabbc'],
    ['letters of neither encoding', 'zz'],
    ['hex with a letter beyond f', 'zz12a'],
    ['hex with white space inside', 'aa bb'],
    ['hex with white space after it', 'aabb '],
    ['hex with a newline after it', 'aabb\n'],
    ['hex with a prefix', '0xaabb'],
    ['hex with separators', 'aa:bb:cc'],
    ['characters whose low byte is a hex digit', '\u0130\u0131'],
    ['hex digits and such a character', 'aab\u0130'],
    ['full-width digits', '\uff11\uff12'],
    ['base64 without its =', 'AQI'],
    ['base64 without its two =', 'AQ'],
    ['base64 without one of its two =', 'AQ='],
    ['base64 with one = too many', 'AQI=='],
    ['base64 with a group of = after it', 'AQID===='],
    ['only =', '===='],
    ['base64 with unused bits set, two =', 'AR=='],
    ['base64 with unused bits set, one =', 'AQJ='],
    ['the url-safe alphabet', '-_-_'],
    ['both alphabets', '+_/-'],
    ['base64 with a line break', 'AQID\nAQID'],
    ['base64 with a CRLF after it', 'AQID\r\n'],
    ['base64 with white space before it', ' AQID'],
    ['two base64 texts in a row', 'AQ==AQ=='],
    ['base64 with one character too many', 'AQIDA'],
    ['a NUL', 'AQI\0'],
  ])('refuses %s', (_, text) => {
    expect(decodeCiphertext(text)).toBeUndefined();
  });

  test('restores any bytes from hex in either case and from base64', () => {
    fc.assert(
      fc.property(fc.uint8Array({ maxLength: 100 }), (array) => {
        const bytes = Buffer.from(array);
        expect(decodeCiphertext(bytes.toString('hex'))).toEqual(bytes);
        expect(decodeCiphertext(bytes.toString('hex').toUpperCase())).toEqual(bytes);
        const base64 = bytes.toString('base64');
        // Base64 text that consists only of hex digits is read as hex.
        const isHex = /^[0-9a-f]+$/i.test(base64);
        expect(decodeCiphertext(base64)).toEqual(isHex ? Buffer.from(base64, 'hex') : bytes);
      }),
    );
  });

  test('agrees with the grammars of hex and base64 on any text', () => {
    const grammar = /^(?:[A-Za-z0-9+/]{4})*(?:[A-Za-z0-9+/]{2}==|[A-Za-z0-9+/]{3}=)?$/;
    const nearMiss = fc.string({ unit: fc.constantFrom(...'0aAfFgGz+/=-_ \n\u0130\u00e9'.split('')), maxLength: 12 });
    fc.assert(
      fc.property(fc.oneof(nearMiss, fc.string({ unit: anyCharacter })), (text) => {
        const isHex = /^(?:[0-9A-Fa-f]{2})*$/.test(text);
        const isBase64 = grammar.test(text) && btoa(atob(text)) === text;
        expect(decodeCiphertext(text) !== undefined).toBe(isHex || isBase64);
      }),
      { numRuns: runs(2000) },
    );
  });
});

describe('decodeBase64', () => {
  test('decodes hex digits as base64', () => {
    expect(decodeBase64('abcd')?.toString('hex')).toBe('69b71d');
  });

  test('refuses text that is not canonical', () => {
    expect(decodeBase64('AR==')).toBeUndefined();
    expect(decodeBase64('AQ')).toBeUndefined();
  });
});

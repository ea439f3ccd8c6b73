import { describe, expect, test } from 'vitest';
import { readPath } from '../../src/proxy/admit/target.ts';

const octets = Array.from({ length: 256 }, (_, octet) => octet);
const hex = (octet: number): string => octet.toString(16).padStart(2, '0');

/** RFC 3986 §2.3. */
const unreserved = /^[A-Za-z0-9._~-]$/;
/** RFC 3986 §3.3 `pchar` without percent-encodings; `;` is left out because some upstreams cut a segment there. */
const plainInPath = /^[A-Za-z0-9._~!$&'()*+,=:@-]$/;

describe('a path', () => {
  test.each([
    '/',
    '/api/s2s/charge',
    '/api/s2s/charge/',
    '/API/S2S/Charge',
    '/a-b_c.d~e',
    "/!$&'()*+,=:@",
    '/v1/http:/x',
    '/...',
    '/..a',
    '/a..',
    '/.a/b.',
    '/.well-known/x',
    '/caf%C3%A9',
    '/caf%c3%a9',
    '/%E2%82%AC',
    '/%F0%9F%92%B6',
    '/a%20b',
    '/a%3Bb',
    '/*',
  ])('%s is accepted', (path) => {
    expect(readPath(path)).toBe(path);
  });

  test.each([
    ['', 'nothing at all'],
    ['*', 'the asterisk form'],
    ['api', 'no leading slash'],
    ['http://localhost/api', 'the absolute form'],
    ['//', 'an empty segment'],
    ['//api', 'an empty first segment'],
    ['/api//s2s', 'an empty segment inside'],
    ['/api/s2s//', 'an empty segment at the end'],
    ['/.', 'a dot segment'],
    ['/..', 'a dot segment'],
    ['/./', 'a dot segment'],
    ['/../', 'a dot segment'],
    ['/api/.', 'a dot segment at the end'],
    ['/api/..', 'a dot segment at the end'],
    ['/api/./s2s', 'a dot segment inside'],
    ['/api/../s2s', 'a dot segment inside'],
    ['/%2e', 'an encoded dot segment'],
    ['/%2E%2e/api', 'an encoded dot segment'],
    ['/.%2e/api', 'a dot segment half encoded'],
    ['/%2e./api', 'a dot segment half encoded'],
    ['/api/%252e%252e/s2s', 'a dot segment doubly encoded'],
    ['/api/%25%32%65/s2s', 'a dot segment encoded digit by digit'],
    ['/api/..%2fs2s', 'dots with an encoded slash'],
    ['/api/..;/s2s', 'dots with a parameter'],
    ['/api/%c0%ae%c0%ae/s2s', 'overlong dots'],
    ['/api/%u002e%u002e/s2s', 'dots in an encoding of Windows'],
    ['/api///s2s', 'three slashes'],
    ['/api%252fs2s', 'a slash doubly encoded'],
    ['/api%f0%80%80%afs2s', 'an overlong slash of four bytes'],
    ['/api%c1%9cs2s', 'an overlong backslash'],
    ['/api/%c1%b3%32s', 'an overlong letter'],
    ['/api/http://evil.example/', 'a URL inside the path'],
    ['/api%2Fs2s', 'an encoded slash'],
    ['/api%5Cs2s', 'an encoded backslash'],
    ['/api\\s2s', 'a backslash'],
    ['/%2573', 'an encoded percent sign'],
    ['/%00', 'an encoded NUL'],
    ['/s%32s', 'an encoded digit'],
    ['/%73', 'an encoded letter'],
    ['/api;v=1', 'a matrix parameter'],
    ['/api#x', 'a fragment'],
    ['/%', 'an incomplete percent-encoding'],
    ['/%4', 'an incomplete percent-encoding'],
    ['/%4g', 'a percent-encoding that is not hex'],
    ['/%u0073', 'a percent-encoding of Windows'],
    ['/%C3', 'an incomplete UTF-8 sequence'],
    ['/%C3%28', 'an incomplete UTF-8 sequence'],
    ['/%C0%AF', 'an overlong slash'],
    ['/%E0%80%AF', 'an overlong slash'],
    ['/%ED%A0%80', 'a surrogate'],
    ['/%F4%90%80%80', 'beyond Unicode'],
    ['/caf\u00e9', 'non-ASCII bytes'],
  ])('%j is refused: %s', (path) => {
    expect(readPath(path)).toBeUndefined();
    expect(readPath(`${path}?x=1`)).toBeUndefined();
  });

  test('may have exactly the characters without a special meaning', () => {
    const taken = octets
      .map((octet) => String.fromCharCode(octet))
      .filter((char) => readPath(`/a${char}b`) !== undefined);
    const expected = octets.map((octet) => String.fromCharCode(octet)).filter((char) => plainInPath.test(char));
    // A slash begins a segment, and a question mark begins the query.
    expect(taken).toEqual([...expected, '/', '?'].toSorted());
  });

  test.each([
    ['lower', hex],
    ['upper', (octet: number) => hex(octet).toUpperCase()],
  ])('may have an octet encoded in %s case only if the plain character would mean something else', (_case, encode) => {
    const isTaken = (octet: number): boolean => readPath(`/a%${encode(octet)}b`) !== undefined;
    const isExpected = (octet: number): boolean => {
      const char = String.fromCharCode(octet);
      const isControl = octet < 0x20 || octet === 0x7f;
      return octet < 0x80 && !isControl && !unreserved.test(char) && !'/\\%'.includes(char);
    };
    expect(octets.filter(isTaken)).toEqual(octets.filter(isExpected));
  });
});

describe('a query', () => {
  test.each(['', 'a=1&b=2', 'a=%2e%2e%2f', 'path=/a//b/../c', 'a;b', '??', 'a=%zz', '"<>[]{}|^`'])(
    '%j is left alone',
    (query) => {
      expect(readPath(`/api?${query}`)).toBe('/api');
    },
  );

  test('accepts printable ASCII except the fragment and the backslash', () => {
    const taken = octets.filter((octet) => readPath(`/a?b${String.fromCharCode(octet)}`) !== undefined);
    const expected = octets.filter(
      (octet) => octet > 0x20 && octet < 0x7f && !'#\\'.includes(String.fromCharCode(octet)),
    );
    expect(taken).toEqual(expected);
  });
});

import { describe, expect, test } from 'vitest';
import { openConnection, parseOnly } from '../support/connection.ts';
import { authorization, expectOnlyRefused, request, start } from '../support/refused.ts';

/** A request target, in which each character is a byte. */
type Line = readonly [name: string, target: string];

async function expectAmbiguous(target: string, method = 'GET'): Promise<void> {
  const { upstream, sidecar } = await start();
  const bytes = request(`${method} ${target} HTTP/1.1`, 'Host: localhost', authorization);
  await expectOnlyRefused(sidecar, upstream, bytes, 'ambiguous_request');
}

describe('a target that can be read in two ways is refused', () => {
  const dots: readonly Line[] = [
    ['plain, one dot', '/api/./s2s'],
    ['plain, two dots', '/api/v1/../s2s/charge'],
    ['plain, at the end', '/api/s2s/..'],
    ['plain, in front', '/../api/s2s'],
    ['encoded', '/api/%2e%2E/s2s'],
    ['encoded, at the end', '/api/s2s/%2e'],
    ['half encoded', '/api/.%2e/s2s'],
    ['half encoded the other way', '/api/%2e./s2s'],
    ['doubly encoded', '/api/%252e%252e/s2s'],
    ['encoded digit by digit', '/api/%25%32%65/s2s'],
    ['with an encoded slash', '/api/..%2fs2s'],
    ['with an encoded backslash', '/api/..%5cs2s'],
    ['with a parameter', '/api/..;/s2s'],
    ['with a parameter and encoded', '/api/%2e%2e;v=1/s2s'],
    ['with an encoded NUL', '/api/..%00/s2s'],
    ['in overlong UTF-8', '/api/%c0%ae%c0%ae/s2s'],
    ['in an encoding of Windows', '/api/%u002e%u002e/s2s'],
  ];
  test.each(dots)('because of a dot segment: %s', (_name, target) => expectAmbiguous(target));

  const slashes: readonly Line[] = [
    ['two', '/api//s2s'],
    ['two in front', '//api/s2s'],
    ['two at the end', '/api/s2s//'],
    ['three', '/api///s2s'],
    ['encoded', '/api%2fs2s'],
    ['encoded in upper case', '/api%2Fs2s'],
    ['doubly encoded', '/api%252fs2s'],
    ['overlong, two bytes', '/api%c0%afs2s'],
    ['overlong, three bytes', '/api%e0%80%afs2s'],
    ['overlong, four bytes', '/api%f0%80%80%afs2s'],
    ['a backslash', '/api\\s2s'],
    ['a backslash in front', '/\\api/s2s'],
    ['two backslashes', '\\\\api\\s2s'],
    ['an encoded backslash', '/api%5Cs2s'],
    ['a doubly encoded backslash', '/api%255cs2s'],
    ['an overlong backslash', '/api%c1%9cs2s'],
  ];
  test.each(slashes)('because of its slashes: %s', (_name, target) => expectAmbiguous(target));

  const octets: readonly Line[] = [
    ['an encoded percent sign', '/api/%2573s2s'],
    ['an encoded NUL', '/api/%00'],
    ['an encoded NUL before a file extension', '/api/s2s%00.css'],
    ['an encoded line break', '/api%0d%0aX:%20y'],
    ['an encoded delete character', '/api%7f'],
    ['an encoded letter', '/api/%73%32%73/charge'],
    ['an encoded tilde', '/%7Euser'],
    ['an overlong letter', '/api/%c1%b3%32s'],
    ['an incomplete UTF-8 sequence', '/api/%e2%82'],
    ['an incomplete percent-encoding', '/api/%'],
    ['a percent-encoding that is not hex', '/api/%zz'],
    ['non-ASCII letters', '/caf\xc3\xa9'],
    ['a non-ASCII letter in the query', '/api?name=\xe9'],
    ['an overlong slash, not encoded', '/api\xc0\xafs2s'],
  ];
  test.each(octets)('because of its characters: %s', (_name, target) => expectAmbiguous(target));

  test.each([
    ['a NUL', '/api\0s2s'],
    ['a tab', '/api\ts2s'],
    ['a vertical tab', '/api\vs2s'],
    ['a delete character', '/api\x7f'],
    ['a carriage return', '/api\rs2s'],
    ['a line feed', '/api\ns2s'],
    ['a NUL in the query', '/api?a\0'],
  ])('because of a control character, which no request line may have: %s', async (_name, target) => {
    const { upstream, sidecar } = await start();
    const bytes = request(`GET ${target} HTTP/1.1`, 'Host: localhost', authorization);
    await expectOnlyRefused(sidecar, upstream, bytes, 'malformed_request');
  });

  const delimiters: readonly Line[] = [
    ['a matrix parameter', '/api;v=1/s2s'],
    ['an empty matrix parameter', '/api/s2s;'],
    ['a matrix parameter that looks like a file extension', '/api/s2s;.css'],
    ['a fragment', '/api#fragment'],
    ['an empty fragment', '/api#'],
    ['a fragment before a query', '/api#?a=b'],
    ['a fragment in the query', '/api?a#b'],
    ['a backslash in the query', '/api?a=\\b'],
    ['no path before the query', '?a=b'],
    ['no path before the fragment', '#'],
  ];
  test.each(delimiters)('because of its delimiters: %s', (_name, target) => expectAmbiguous(target));

  const forms: readonly Line[] = [
    ['absolute', 'http://localhost/api'],
    ['absolute in upper case', 'HTTP://LOCALHOST/api'],
    ['absolute, with another host', 'https://evil.example/api'],
    ['absolute with userinfo', 'http://localhost@evil.example/api'],
    ['absolute without a path', 'http://localhost'],
    ['absolute without an authority', 'http:/api'],
    ['absolute without slashes', 'http:api'],
    ['absolute with another scheme', 'ftp://localhost/api'],
    ['an authority', 'localhost:443'],
    ['a host alone', 'evil.example'],
    ['a host with a path', 'evil.example/api'],
    ['an authority after an at sign', '@evil.example/api'],
    ['userinfo and a host', 'user@evil.example/api'],
    ['an authority after slashes', '//evil.example/api'],
    ['an authority after three slashes', '///evil.example/api'],
    ['an authority after a slash and a backslash', '/\\evil.example/api'],
    ['a URL inside the path', '/api/http://evil.example/'],
    ['the asterisk', '*'],
    ['an asterisk with a path', '*/api'],
  ];
  test.each(forms)('because of its form: %s', (_name, target) => expectAmbiguous(target));

  test('because of its form: the asterisk with OPTIONS', () => expectAmbiguous('*', 'OPTIONS'));
});

describe('an unambiguous target is forwarded unchanged', () => {
  const harmless: readonly Line[] = [
    ['an encoded semicolon', '/api%3Bv=1/s2s'],
    ['an encoded number sign', '/api%23s2s'],
    ['an encoded question mark', '/api%3Fs2s'],
    ['an encoded space', '/api%20s2s'],
    ['a full-width slash', '/api%ef%bc%8fs2s'],
    ['three dots', '/api/.../s2s'],
    ['a dot segment in the query', '/api?/../s2s'],
    ['slashes in the query', '/api?//s2s'],
    ['a further question mark', '/api??a'],
    ['a URL in the query', '/api?next=http://evil.example/'],
    ['an encoded NUL in the query', '/api?a=%00'],
    ['upper-case letters', '/API/S2S'],
  ];
  test.each(harmless)('with %s', async (_name, target) => {
    const { upstream, sidecar } = await start();
    const client = await openConnection(sidecar.port);
    client.send(request(`GET ${target} HTTP/1.1`, 'Host: localhost', authorization, 'Connection: close'));
    expect(parseOnly(await client.untilEnded()).status).toBe(200);
    expect(upstream.seen.map(({ url }) => url)).toEqual([target]);
  });
});

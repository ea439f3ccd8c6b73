import { describe, expect, test } from 'vitest';
import { openConnection, parseOnly } from '../support/connection.ts';
import { authorization, expectOnlyRefused, request, start } from '../support/refused.ts';

/** Sends a target from a table, in which each character is a byte. */
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
    ['of overlong UTF-8', '/api/%c0%ae%c0%ae/s2s'],
    ['in an encoding of Windows', '/api/%u002e%u002e/s2s'],
  ];
  test.each(dots)('for dot segments: %s', (_name, target) => expectAmbiguous(target));

  const slashes: readonly Line[] = [
    ['two', '/api//s2s'],
    ['two in front', '//api/s2s'],
    ['two at the end', '/api/s2s//'],
    ['three', '/api///s2s'],
    ['encoded', '/api%2fs2s'],
    ['encoded in capitals', '/api%2Fs2s'],
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
  test.each(slashes)('for slashes: %s', (_name, target) => expectAmbiguous(target));

  const octets: readonly Line[] = [
    ['an encoded percent sign', '/api/%2573s2s'],
    ['an encoded NUL', '/api/%00'],
    ['an encoded NUL before an ending', '/api/s2s%00.css'],
    ['an encoded line break', '/api%0d%0aX:%20y'],
    ['an encoded delete character', '/api%7f'],
    ['an encoded letter', '/api/%73%32%73/charge'],
    ['an encoded tilde', '/%7Euser'],
    ['an overlong letter', '/api/%c1%b3%32s'],
    ['half a character', '/api/%e2%82'],
    ['half a triplet', '/api/%'],
    ['no hex digits', '/api/%zz'],
    ['a NUL', '/api\0s2s'],
    ['a tab', '/api\ts2s'],
    ['a delete character', '/api\x7f'],
    ['letters outside ASCII', '/caf\xc3\xa9'],
    ['a letter outside ASCII in the query', '/api?name=\xe9'],
    ['an overlong slash, not encoded', '/api\xc0\xafs2s'],
  ];
  test.each(octets)('for its octets: %s', (_name, target) => expectAmbiguous(target));

  const delimiters: readonly Line[] = [
    ['a matrix parameter', '/api;v=1/s2s'],
    ['an empty matrix parameter', '/api/s2s;'],
    ['a matrix parameter for an ending', '/api/s2s;.css'],
    ['a fragment', '/api#fragment'],
    ['an empty fragment', '/api#'],
    ['a fragment before a query', '/api#?a=b'],
    ['a fragment in the query', '/api?a#b'],
    ['a backslash in the query', '/api?a=\\b'],
    ['no path before the query', '?a=b'],
    ['no path before the fragment', '#'],
  ];
  test.each(delimiters)('for its delimiters: %s', (_name, target) => expectAmbiguous(target));

  const forms: readonly Line[] = [
    ['absolute', 'http://localhost/api'],
    ['absolute in capitals', 'HTTP://LOCALHOST/api'],
    ['absolute, of another host', 'https://evil.example/api'],
    ['absolute with userinfo', 'http://localhost@evil.example/api'],
    ['absolute without a path', 'http://localhost'],
    ['absolute without an authority', 'http:/api'],
    ['absolute without slashes', 'http:api'],
    ['absolute of another scheme', 'ftp://localhost/api'],
    ['an authority', 'localhost:443'],
    ['a host alone', 'evil.example'],
    ['a host with a path', 'evil.example/api'],
    ['an authority after an at sign', '@evil.example/api'],
    ['userinfo and a host', 'user@evil.example/api'],
    ['an authority after slashes', '//evil.example/api'],
    ['an authority after three slashes', '///evil.example/api'],
    ['an authority after a slash and a backslash', '/\\evil.example/api'],
    ['an address inside the path', '/api/http://evil.example/'],
    ['the asterisk', '*'],
    ['an asterisk with a path', '*/api'],
  ];
  test.each(forms)('for its form: %s', (_name, target) => expectAmbiguous(target));

  test('for its form: the asterisk with OPTIONS', () => expectAmbiguous('*', 'OPTIONS'));
});

describe('a target that can be read in one way only is forwarded unchanged', () => {
  const harmless: readonly Line[] = [
    ['an encoded semicolon', '/api%3Bv=1/s2s'],
    ['an encoded number sign', '/api%23s2s'],
    ['an encoded question mark', '/api%3Fs2s'],
    ['an encoded space', '/api%20s2s'],
    ['a wide slash', '/api%ef%bc%8fs2s'],
    ['three dots', '/api/.../s2s'],
    ['a dot segment in the query', '/api?/../s2s'],
    ['slashes in the query', '/api?//s2s'],
    ['a further question mark', '/api??a'],
    ['an address in the query', '/api?next=http://evil.example/'],
    ['an encoded NUL in the query', '/api?a=%00'],
    ['letters in another case', '/API/S2S'],
  ];
  test.each(harmless)('%s', async (_name, target) => {
    const { upstream, sidecar } = await start();
    const client = await openConnection(sidecar.port);
    client.send(request(`GET ${target} HTTP/1.1`, 'Host: localhost', authorization, 'Connection: close'));
    expect(parseOnly(await client.untilEnded()).status).toBe(200);
    expect(upstream.seen.map(({ url }) => url)).toEqual([target]);
  });
});

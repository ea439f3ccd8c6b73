import { describe, expect, test } from 'vitest';
import { openConnection, parseOnly } from '../support/connection.ts';
import { authorization, expectOnlyRefused, request, start } from '../support/refused.ts';

async function expectAmbiguous(target: string, method = 'GET'): Promise<void> {
  const { upstream, sidecar } = await start();
  const bytes = request(`${method} ${target} HTTP/1.1`, 'Host: localhost', authorization);
  await expectOnlyRefused(sidecar, upstream, bytes, 'ambiguous_request');
}

describe('a target that can be read in two ways is refused', () => {
  // target.test.ts covers all spellings of a path. These targets are one of each kind, and the forms without a path.
  test.each([
    '/api/v1/../s2s/charge',
    '/api/%2e%2E/s2s',
    '/api//s2s',
    '/api%2fs2s',
    '/api\\s2s',
    '/api/%2573s2s',
    '/api;v=1/s2s',
    '/api#fragment',
    '/api?a#b',
    '/caf\xc3\xa9',
    '/api?name=\xe9',
    '?a=b',
    '#',
    'http://localhost/api',
    'HTTP://LOCALHOST/api',
    'https://evil.example/api',
    'http://localhost@evil.example/api',
    'http://localhost',
    'http:/api',
    'http:api',
    'ftp://localhost/api',
    'localhost:443',
    'evil.example',
    'evil.example/api',
    '@evil.example/api',
    'user@evil.example/api',
    '//evil.example/api',
    '/\\evil.example/api',
    '*',
    '*/api',
  ])('%s', (target) => expectAmbiguous(target));

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

  test('because of its form: the asterisk with OPTIONS', () => expectAmbiguous('*', 'OPTIONS'));
});

describe('an unambiguous target is forwarded unchanged', () => {
  const harmless: readonly (readonly [name: string, target: string])[] = [
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

import { describe, expect, test } from 'vitest';
import { send } from '../support/client.ts';
import { openConnection, parseOnly } from '../support/connection.ts';
import { startGateway } from '../support/gateway.ts';
import { authorization, request } from '../support/refused.ts';
import { keys, route } from '../support/sidecar.ts';

const host = 'Host: localhost';
const ownCodings = 'Transfer-Encoding must be just "chunked": send the body without other codings';
const asPath = 'the request line has no path that begins with "/": do not send a whole URL or "*"';

/** Sends one ambiguous request to the environment and resolves with its problem document. */
async function refusalOf(
  target: string,
  headers: readonly string[],
  serves: 'test' | 'live' = 'test',
): Promise<object> {
  const { sidecar, upstream } = await startGateway({ serves });
  const client = await openConnection(sidecar.port);
  client.send(request(`GET ${target} HTTP/1.1`, ...headers));
  const response = parseOnly(await client.untilEnded());
  expect(upstream.heads()).toBe(0);
  return JSON.parse(response.body) as object;
}

test.each([
  ['//api/v1', '"//", perhaps because your base URL ends in a slash, at byte 0'],
  ['/api//v1', '"//", perhaps because your base URL ends in a slash, at byte 4'],
  ['/api/../v1', 'a segment "." or ".." at byte 4'],
  ['/api/.', 'a segment "." or ".." at byte 4'],
  ['/a%2Fb', '"%2F", which can be read in two ways, at byte 2'],
  ['/a%73', '"%73", which can be read in two ways, at byte 2'],
  ['/a%zz', 'a "%" without two hex digits at byte 2'],
  ['/a;b', '";" at byte 2'],
  ['/a#b', '"#" at byte 2'],
  ['/a\\b', '"\\" at byte 2'],
  ['/a|b', 'a character that must be percent-encoded at byte 2'],
  ['/a%ff', 'percent-encoded bytes that are not UTF-8 at byte 2'],
  ['/caf%C3%A9/%ff', 'percent-encoded bytes that are not UTF-8 at byte 11'],
  [`/${'x'.repeat(998)}%ff`, 'percent-encoded bytes that are not UTF-8 at byte 999'],
  [`/${'x'.repeat(999)}%ff`, 'percent-encoded bytes that are not UTF-8 after byte 1000'],
  ['/caf\u00e9', 'a character that must be percent-encoded at byte 4'],
])('a hint in test names what makes the path %s ambiguous, and where', async (target, what) => {
  expect(await refusalOf(target, [host, authorization])).toMatchObject({
    code: 'ambiguous_request',
    forwarded: 'no',
    hint: `the path has ${what}`,
  });
});

test.each([
  ['http://localhost/', [host], asPath],
  ['*', [host], asPath],
  ['/?a#b', [host], 'the query has a character that must be percent-encoded at byte 3'],
  ['/?a=\u00e9', [host], 'the query has a character that must be percent-encoded at byte 4'],
  ['http://a@b/', [host], asPath],
  ['/', [host, 'Transfer-Encoding: gzip, chunked'], ownCodings],
  ['/', [host, 'Transfer-Encoding: gzip,\tchunked'], ownCodings],
  ['/', [host, 'Transfer-Encoding:\tchunked'], 'there is a tab in the Transfer-Encoding header: remove it'],
  [
    '/',
    [host, 'Transfer-Encoding: chunked', 'transfer-encoding: chunked'],
    'there are two Transfer-Encoding headers: send one',
  ],
  ['/', [], 'there is no Host header'],
  ['/', ['Host: a b'], 'the Host header is not a host name with an optional port'],
  ['/', [host, host], 'there are two Host headers: send one'],
  [
    '/',
    [host, `Connection: ${'x'.repeat(500)}`, `Connection: ${'x'.repeat(524)}`],
    'the Connection headers have more than 1024 characters',
  ],
  ['/', [host, authorization, authorization], 'there are two Authorization headers: send one'],
  ['/', [host, 'Expect: a', 'expect: b'], 'there are two Expect headers: send one'],
])('a hint in test names an ambiguous part other than the path: %s, %j', async (target, headers, hint) => {
  expect(await refusalOf(target, headers)).toMatchObject({ code: 'ambiguous_request', hint });
});

/** Sends bytes to a sidecar with these environments and resolves with the problem document. */
async function refusalOfBytes(bytes: string, serves: 'test' | 'live' | 'both' = 'test'): Promise<object> {
  const { sidecar, upstream } = await startGateway({ serves, routes: [route('/ws', { upgrade: true })] });
  const client = await openConnection(sidecar.port);
  client.send(bytes);
  const response = parseOnly(await client.untilEnded());
  expect(upstream.heads()).toBe(0);
  return JSON.parse(response.body) as object;
}

test('the name of the first header is not taken for a missing Host', async () => {
  const refusal = await refusalOfBytes('GET / HTTP/1.1\r\nsandbox.pay.example: x\r\n\r\n', 'both');
  expect(refusal).toMatchObject({ code: 'ambiguous_request' });
  expect(refusal).not.toHaveProperty('hint');
});

test.each([
  ['GET / HTTP/2.0', [host], 'the request line has the version HTTP/2.0: send HTTP/1.1'],
  ['PRI * HTTP/2.0', [], 'the request line has the version HTTP/2.0: send HTTP/1.1'],
  ['GET /', [], 'the request line has no version: end it with HTTP/1.1'],
  ['CONNECT a:443 HTTP/1.1', [host], 'the method CONNECT is for proxies: send the request itself'],
  [
    'POST / HTTP/1.0',
    [host, 'Transfer-Encoding: chunked'],
    'HTTP/1.0 has no Transfer-Encoding: send Content-Length, or HTTP/1.1',
  ],
  [
    'GET /ws HTTP/1.1',
    [host, 'Connection: Upgrade', 'Upgrade: websocket', 'Content-Length: 2'],
    'a WebSocket handshake has no body: send neither Content-Length nor Transfer-Encoding',
  ],
])('a hint in test names an ambiguous part other than the target: %s, %j', async (line, headers, hint) => {
  expect(await refusalOfBytes(request(line, ...headers))).toMatchObject({ code: 'ambiguous_request', hint });
});

test('the part of a head that has arrived is enough to name what is ambiguous in its first line', async () => {
  expect(await refusalOfBytes('GET /caf\u00e9 HTTP/1.1\r\nHost: loc')).toMatchObject({
    code: 'ambiguous_request',
    hint: 'the path has a character that must be percent-encoded at byte 4',
  });
});

describe('there is no hint about an ambiguous request in live', () => {
  test.each([
    ['//api', [host, authorization]],
    ['/caf\u00e9', [host, authorization]],
    ['/', [host, authorization, 'Transfer-Encoding: gzip']],
  ])('%s, %j', async (target, headers) => {
    const refusal = await refusalOf(target, headers, 'live');
    expect(refusal).toMatchObject({ code: 'ambiguous_request' });
    expect(refusal).not.toHaveProperty('hint');
  });

  test.each([
    ['a path', 'GET //api HTTP/1.1'],
    ['bytes of a path', 'GET /caf\u00e9 HTTP/1.1'],
    ['a version', 'GET / HTTP/2.0'],
  ])('if the environment has to be read from Host: %s', async (_, line) => {
    const under = (name: string): Promise<object> => refusalOfBytes(request(line, `hOST:\t ${name} `), 'both');
    expect(await under('sandbox.pay.example:8080')).toHaveProperty('hint');
    for (const name of ['api.pay.example', 'other.example', '']) expect(await under(name)).not.toHaveProperty('hint');
  });
});

test('a problem document says whether the core may have seen the request', async () => {
  const { sidecar } = await startGateway({ respond: (_, response) => void response.socket?.destroy() });
  const refused = await send(sidecar, 'POST /api/v1/x', { body: '{}' });
  const lost = await send(sidecar, 'POST /api/v1/x', { key: keys.globex, body: '{}' });
  expect(JSON.parse(refused.body)).toMatchObject({ code: 'missing_api_key', forwarded: 'no' });
  expect(JSON.parse(lost.body)).toMatchObject({ code: 'upstream_unavailable', forwarded: 'maybe' });
});

import { expect, test } from 'vitest';
import { send } from '../support/client.ts';
import { openConnection, parseOnly } from '../support/connection.ts';
import { startGateway } from '../support/gateway.ts';
import { authorization, request } from '../support/refused.ts';
import { keys } from '../support/sidecar.ts';

const host = 'Host: localhost';
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
  ['/a%2Fb', '"%2F", which is read in two ways, at byte 2'],
  ['/a%73', '"%73", which is read in two ways, at byte 2'],
  ['/a%zz', 'a "%" without two hex digits at byte 2'],
  ['/a;b', '";" at byte 2'],
  ['/a#b', '"#" at byte 2'],
  ['/a\\b', '"\\" at byte 2'],
  ['/a|b', 'a character to percent-encode at byte 2'],
  ['/a%ff', 'percent-encoded bytes that are not UTF-8 at byte 2'],
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
  ['/?a#b', [host], 'the query has a character to percent-encode at byte 3'],
  ['/', [host, host], 'there are two Host headers: send one'],
  ['/', [host, authorization, authorization], 'there are two Authorization headers: send one'],
  ['/', [host, 'Expect: a', 'expect: b'], 'there are two Expect headers: send one'],
])('a hint in test names what is ambiguous besides the path: %s, %j', async (target, headers, hint) => {
  expect(await refusalOf(target, headers)).toMatchObject({ code: 'ambiguous_request', hint });
});

test('there is no such hint in live', async () => {
  expect(await refusalOf('//api', [host, authorization], 'live')).not.toHaveProperty('hint');
});

test('a problem document says whether the core may have seen the request', async () => {
  const { sidecar } = await startGateway({ respond: (_, response) => void response.socket?.destroy() });
  const refused = await send(sidecar, 'POST /api/v1/x', { body: '{}' });
  const lost = await send(sidecar, 'POST /api/v1/x', { key: keys.globex, body: '{}' });
  expect(JSON.parse(refused.body)).toMatchObject({ code: 'missing_api_key', forwarded: 'no' });
  expect(JSON.parse(lost.body)).toMatchObject({ code: 'upstream_unavailable', forwarded: 'maybe' });
});

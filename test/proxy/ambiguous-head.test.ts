import { describe, expect, test } from 'vitest';
import { openConnection, parseOnly } from '../support/connection.ts';
import { authorization, expectOnlyRefused, request, start } from '../support/refused.ts';

const get = 'GET / HTTP/1.1';
type Line = readonly [name: string, ...lines: readonly string[]];

async function expectAmbiguous(line: string | undefined, headers: readonly string[]): Promise<void> {
  const { upstream, sidecar } = await start();
  await expectOnlyRefused(sidecar, upstream, request(line ?? get, ...headers, authorization), 'ambiguous_request');
}

describe('a request head that can be read in two ways is refused', () => {
  const hosts: readonly Line[] = [
    ['two copies', get, 'Host: localhost', 'Host: localhost'],
    ['two in different letter case', get, 'host: localhost', 'HOST: other'],
    ['missing', get],
    ['missing, with an X-Forwarded-Host', get, 'X-Forwarded-Host: localhost'],
    ['empty', get, 'Host:'],
    ['empty on HTTP/1.0', 'GET / HTTP/1.0', 'Host: '],
    ['two on HTTP/1.0', 'GET / HTTP/1.0', 'Host: localhost', 'Host: other'],
    ['userinfo', get, 'Host: api.pay.example@localhost'],
    ['userinfo with a port', get, 'Host: api.pay.example:80@localhost'],
    ['two hosts in one header', get, 'Host: localhost, other'],
    ['a space', get, 'Host: local host'],
    ['a path', get, 'Host: localhost/x'],
    ['a backslash', get, 'Host: localhost\\x'],
    ['a fragment', get, 'Host: localhost#x'],
    ['a query', get, 'Host: localhost?x'],
    ['a scheme', get, 'Host: http://localhost'],
    ['a port that is not a number', get, 'Host: localhost:http'],
    ['an empty port', get, 'Host: localhost:'],
    ['two ports', get, 'Host: localhost:80:80'],
    ['an encoded dot', get, 'Host: api%2epay.example'],
    ['letters outside ASCII', get, 'Host: l\xf6calhost'],
    ['a bracket that does not close', get, 'Host: [::1'],
    ['another host in the absolute target', 'GET http://other/ HTTP/1.1', 'Host: localhost'],
    ['missing, with an absolute target', 'GET http://localhost/ HTTP/1.1'],
  ];
  test.each(hosts)('because of its Host: %s', (_name, line, ...headers) => expectAmbiguous(line, headers));

  const keys: readonly Line[] = [
    ['two copies', get, 'Host: localhost', authorization],
    ['two in different letter case', get, 'Host: localhost', 'AUTHORIZATION: Bearer x'],
    ['two, one of them empty', get, 'Host: localhost', 'Authorization:'],
    ['two of different schemes', get, 'Host: localhost', 'Authorization: Basic dTpw'],
  ];
  test.each(keys)('because of its Authorization: %s', (_name, line, ...headers) => expectAmbiguous(line, headers));

  const twice: readonly Line[] = [
    ['Envelope-Credentials', get, 'Envelope-Credentials: current', 'Envelope-Credentials: current'],
    ['Envelope-Credentials, different', get, 'Envelope-Credentials: current', 'envelope-credentials: 0123456789abcdef'],
    ['Content-Encoding', get, 'Content-Encoding: identity', 'Content-Encoding: gzip'],
    ['Expect', get, 'Expect: 100-continue', 'Expect: x'],
    ['Origin', get, 'Origin: https://a.example', 'Origin: https://a.example'],
    ['Access-Control-Request-Method', get, 'Access-Control-Request-Method: GET', 'Access-Control-Request-Method: PUT'],
    ['Upgrade', get, 'Connection: Upgrade', 'Upgrade: h2c', 'Upgrade: websocket'],
  ];
  test.each(twice)('because a decisive header occurs twice: %s', (_name, line, ...headers) =>
    expectAmbiguous(line, ['Host: localhost', ...headers]),
  );

  test.each(['Content-Length: 2', 'Transfer-Encoding: chunked'])(
    'because of two framings: %s twice',
    async (framing) => {
      const { upstream, sidecar } = await start();
      const client = await openConnection(sidecar.port);
      client.send(`${request('POST / HTTP/1.1', 'Host: localhost', authorization, framing, framing)}ab`);
      expect(parseOnly(await client.untilEnded()).body).toMatch(/"code":"(?:ambiguous|malformed)_request"/);
      expect(upstream.heads()).toBe(0);
    },
  );

  test.each([
    ['its framing', 'HEAD / HTTP/1.1', 'Transfer-Encoding: gzip'],
    ['its version', 'HEAD / HTTP/2.0'],
    ['its target', 'HEAD /../x HTTP/1.1'],
  ])('without a body in the response to a HEAD: because of %s', async (_name, line, ...headers) => {
    const { upstream, sidecar } = await start();
    const client = await openConnection(sidecar.port);
    client.send(request(line, 'Host: localhost', authorization, ...headers));
    const text = await client.untilEnded();
    expect(text).toMatch(/^HTTP\/1\.1 400 [^]*\r\n\r\n$/);
    expect(text.indexOf('\r\n\r\n')).toBe(text.length - 4);
    expect(upstream.heads()).toBe(0);
  });

  // ambiguity.test.ts covers HTTP/2.0 and its preface, a missing version, and CONNECT.
  test.each(['HTTP/0.9', 'HTTP/1.2', 'HTTP/3.0'])('because of its version: %s', (version) =>
    expectAmbiguous(`GET / ${version}`, ['Host: localhost']),
  );

  test('because of its method, although it has a path: CONNECT', () =>
    expectAmbiguous('CONNECT / HTTP/1.1', ['Host: localhost']));
});

describe('malformed bytes that some parsers repair are refused', () => {
  const head = (line: string): string => request(line, 'Host: localhost', authorization);
  const repaired: readonly (readonly [name: string, bytes: string])[] = [
    ['two empty lines before a request', `\r\n\r\n${head(get)}`],
    ['an empty line that ends in a bare line feed', `\n${head(get)}`],
    ['two spaces before the target', head('GET  /x HTTP/1.1')],
    ['two spaces before the version', head('GET /x  HTTP/1.1')],
    ['a space before the method', head(' GET /x HTTP/1.1')],
    ['another protocol of the same form', head('GET /x RTSP/1.0')],
  ];
  test.each(repaired)('%s', async (_name, bytes) => {
    const { upstream, sidecar } = await start();
    await expectOnlyRefused(sidecar, upstream, bytes, 'malformed_request');
  });
});

describe('an unambiguous request head', () => {
  test.each(['localhost', 'LOCALHOST', 'localhost:8080', '127.0.0.1', '[::1]:8080', 'a_b.example', 'localhost.'])(
    'is served with the Host %s',
    async (host) => {
      const { upstream, sidecar } = await start();
      const client = await openConnection(sidecar.port);
      client.send(request(get, `Host: ${host}`, authorization, 'Connection: close'));
      expect(parseOnly(await client.untilEnded()).status).toBe(200);
      expect(upstream.seen[0]?.headers.host).toBe(host);
    },
  );

  test('is served on HTTP/1.0 without a Host', async () => {
    const { upstream, sidecar } = await start();
    const client = await openConnection(sidecar.port);
    client.send(request('GET /old HTTP/1.0', authorization));
    expect(parseOnly(await client.untilEnded()).status).toBe(200);
    expect(upstream.seen[0]?.url).toBe('/old');
  });

  test('may follow one empty line', async () => {
    const { upstream, sidecar } = await start();
    const client = await openConnection(sidecar.port);
    client.send(`\r\n${request('GET /x HTTP/1.1', 'Host: localhost', authorization)}`);
    await client.untilText('{"ok":true}');
    expect(upstream.seen).toMatchObject([{ method: 'GET', url: '/x', headers: { host: 'localhost' } }]);
  });

  test.each([
    ['two acceptable ones', 'X-Request-Id: first', 'X-Request-Id: second'],
    ['the same twice', 'X-Request-Id: first', 'X-Request-Id: first'],
    ['one that is not acceptable and one that is', 'X-Request-Id: fir st', 'X-Request-Id: second'],
    ['three', 'X-Request-Id: first', 'X-Request-Id: second', 'X-Request-Id: third'],
  ])('gets a new request id if it has %s', async (_name, ...lines) => {
    const { upstream, sidecar } = await start();
    const client = await openConnection(sidecar.port);
    client.send(request(get, 'Host: localhost', authorization, ...lines, 'Connection: close'));
    const { status, headers } = parseOnly(await client.untilEnded());
    expect(status).toBe(200);
    expect(headers['x-request-id']).toMatch(/^[0-9a-f-]{36}$/);
    expect(upstream.seen[0]?.headers['x-request-id']).toBe(headers['x-request-id']);
  });

  test.each(['X-HTTP-Method-Override', 'X-HTTP-Method', 'X-Method-Override', 'X-Original-URL', 'X-Rewrite-URL'])(
    'is forwarded without %s, which names another method or path',
    async (name) => {
      const { upstream, sidecar } = await start();
      for (const spelt of [name, name.toUpperCase(), name.replaceAll('-', '_'), name.replaceAll('-', '.')]) {
        const client = await openConnection(sidecar.port);
        client.send(request(get, 'Host: localhost', authorization, `${spelt}: overridden`, 'Connection: close'));
        expect(parseOnly(await client.untilEnded()).status).toBe(200);
        expect(upstream.seen.at(-1)?.rawHeaders).not.toContain('overridden');
      }
    },
  );
});

import { setTimeout as sleep } from 'node:timers/promises';
import { describe, expect, test } from 'vitest';
import { openConnection, parseResponses, parseOnly, type RawResponse } from '../support/connection.ts';
import { expectOnlyRefused, expectRefusal, start, untilGone, valid } from '../support/refused.ts';

describe('bytes that the parser rejects', () => {
  const malformed: readonly (readonly [name: string, bytes: string])[] = [
    ['bare line feeds', 'GET / HTTP/1.1\nHost: localhost\n\n'],
    ['a bare line feed between headers', 'GET / HTTP/1.1\r\nHost: localhost\nX: y\r\n\r\n'],
    ['a bare carriage return', 'GET / HTTP/1.1\r\nHost: localhost\rX: y\r\n\r\n'],
    ['a folded header', 'GET / HTTP/1.1\r\nHost: localhost\r\nX: y\r\n z\r\n\r\n'],
    ['a space before the first header', 'GET / HTTP/1.1\r\n Host: localhost\r\n\r\n'],
    ['a space before the colon', 'GET / HTTP/1.1\r\nHost : localhost\r\n\r\n'],
    ['a NUL in a header', 'GET / HTTP/1.1\r\nHost: localhost\r\nX: y\0z\r\n\r\n'],
    ['an unknown method', 'BREW / HTTP/1.1\r\nHost: localhost\r\n\r\n'],
    ['a method in lower case', 'get / HTTP/1.1\r\nHost: localhost\r\n\r\n'],
    ['a space in the target', 'GET /a b HTTP/1.1\r\nHost: localhost\r\n\r\n'],
    ['a tab before the target', 'GET\t/ HTTP/1.1\r\nHost: localhost\r\n\r\n'],
    ['a space after the version', 'GET / HTTP/1.1 \r\nHost: localhost\r\n\r\n'],
    ['a version of one digit', 'GET / HTTP/1\r\nHost: localhost\r\n\r\n'],
    ['a version of three digits', 'GET / HTTP/1.10\r\nHost: localhost\r\n\r\n'],
    ['a version in lower case', 'GET / http/1.1\r\nHost: localhost\r\n\r\n'],
    ['a byte order mark', '\xef\xbb\xbfGET / HTTP/1.1\r\nHost: localhost\r\n\r\n'],
    ['a header without a name', 'GET / HTTP/1.1\r\n: localhost\r\n\r\n'],
    ['a name with a non-ASCII letter', 'GET / HTTP/1.1\r\nHost: localhost\r\nX\xe9: y\r\n\r\n'],
    ['a NUL in a name', 'GET / HTTP/1.1\r\nHost: localhost\r\nX\0: y\r\n\r\n'],
    ['a folded Authorization', 'GET / HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer\r\n x\r\n\r\n'],
    ['a folded Host', 'GET / HTTP/1.1\r\nHost:\r\n localhost\r\n\r\n'],
    ['a TLS handshake', '\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03'],
  ];
  test.each(malformed)('are refused with a body and a request id: %s', async (_name, bytes) => {
    const { upstream, sidecar } = await start();
    await expectOnlyRefused(sidecar, upstream, bytes, 'malformed_request');
  });

  test('are refused once, however many more arrive, and the refusal is not lost to a reset', async () => {
    const { sidecar } = await start();
    const client = await openConnection(sidecar.port);
    const garbage = Buffer.alloc(262_144, 'x');
    client.send('no request at all\r\n\r\n');
    for (let i = 0; i < 16; i += 1) {
      client.send(garbage);
      await sleep(5);
    }
    client.socket.end();
    const response = parseOnly(await client.untilEnded());
    expect(client.ending).toBe('end');
    expectRefusal(response, 'malformed_request');
    expect(sidecar.accessLines()).toHaveLength(1);
    expect(await (await fetch(`${sidecar.adminUrl}/metrics`)).text()).toContain(
      'envelope_sidecar_refusals_total{environment="none",code="malformed_request"} 1',
    );
  });

  test('are refused after the responses to complete requests before them', async () => {
    const { sidecar } = await start();
    const client = await openConnection(sidecar.port);
    client.send(`${valid}${valid}no request at all\r\n\r\n`);
    const responses = parseResponses(await client.untilEnded());
    expect(responses.map(({ status }) => status)).toEqual([200, 200, 400]);
    expect(client.ending).toBe('end');
    expectRefusal(responses[2] as RawResponse, 'malformed_request');
  });

  test('end the connection, even if the client keeps it open', async () => {
    const { sidecar } = await start();
    const client = await openConnection(sidecar.port);
    client.send('no request at all\r\n\r\n');
    await client.untilEnded();
    // The sidecar does not wait long for the client to end its side.
    await untilGone(client);
  });
});

describe('a client that resets its connection', () => {
  test.each([
    ['before it has sent anything', ''],
    ['within a head', 'GET / HTTP/1.1\r\nHost: local'],
    ['between two requests', valid],
    ['after CONNECT', 'CONNECT localhost:443 HTTP/1.1\r\nHost: localhost\r\n\r\n'],
  ])('%s does no harm and is not logged as a malformed request', async (_name, bytes) => {
    const { sidecar } = await start();
    for (let i = 0; i < 5; i += 1) {
      const client = await openConnection(sidecar.port);
      client.send(bytes);
      if (bytes.endsWith('\r\n\r\n')) await client.untilText('}');
      client.socket.resetAndDestroy();
    }
    const client = await openConnection(sidecar.port);
    client.send(valid);
    await client.untilText('{"ok":true}');
    expect(sidecar.accessLines().map(({ code }) => code)).not.toContain('malformed_request');
  });
});

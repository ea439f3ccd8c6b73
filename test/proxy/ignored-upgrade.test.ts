import { describe, expect, test, vi } from 'vitest';
import type { RefusalCode } from '../../src/errors.ts';
import { openConnection, parseOnly, parseResponses } from '../support/connection.ts';
import { inFlight } from '../support/metrics.ts';
import { authorization, expectRefusal, post, request, start, valid } from '../support/refused.ts';
import { keys } from '../support/sidecar.ts';

// A client that asks for another protocol may continue in that protocol, and a proxy in front of the sidecar may take the bytes that follow
// for it.
describe('an ignored Upgrade does not change how the bytes after it are read:', () => {
  const upgrade = ['Connection: Upgrade, HTTP2-Settings', 'Upgrade: h2c', 'HTTP2-Settings: AAMAAABkAAQAoAAAAAIAAAAA'];
  const upgrading = request('GET /x HTTP/1.1', 'Host: localhost', authorization, ...upgrade);

  test('further requests are served in order', async () => {
    const { upstream, sidecar } = await start();
    const client = await openConnection(sidecar.port);
    client.send(upgrading + request('GET /keyless HTTP/1.1', 'Host: localhost') + valid);
    await client.untilText('{"ok":true}', 2);
    client.send(valid);
    await client.untilText('{"ok":true}', 3);
    const responses = parseResponses(client.received);
    expect(responses.map(({ status }) => status)).toEqual([200, 401, 200, 200]);
    for (const { headers } of responses) expect(headers).not.toHaveProperty('connection');
    expect(upstream.seen.map(({ url }) => url)).toEqual(['/x', '/behind', '/behind']);
    for (const name of ['upgrade', 'http2-settings']) expect(upstream.seen[0]?.headers).not.toHaveProperty(name);
  });

  const faulty: readonly (readonly [name: string, bytes: string, code: RefusalCode])[] = [
    ['the preface of HTTP/2', 'PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n', 'ambiguous_request'],
    [
      'a request with two framings',
      `${post('Content-Length: 5', 'Transfer-Encoding: chunked')}0\r\n\r\n`,
      'malformed_request',
    ],
    ['a request with two lengths', `${post('Content-Length: 2', 'Content-Length: 3')}ab`, 'malformed_request'],
    ['a request with two codings', `${post('Transfer-Encoding: chunked, identity')}0\r\n\r\n`, 'ambiguous_request'],
    ['a line that is not a request', 'no request at all\r\n\r\n', 'malformed_request'],
  ];
  test.each(faulty)('%s is refused, and the connection ends', async (_name, bytes, code) => {
    for (const isPipelined of [true, false]) {
      const { upstream, sidecar } = await start();
      const client = await openConnection(sidecar.port);
      client.send(isPipelined ? upgrading + bytes + valid : upgrading);
      await client.untilText('{"ok":true}');
      if (!isPipelined) client.send(bytes + valid);
      const [first, second, ...others] = parseResponses(await client.untilEnded());
      expect(first?.status).toBe(200);
      if (second !== undefined) expectRefusal(second, code);
      expect([second === undefined, others]).toEqual([false, []]);
      expect(upstream.seen.map(({ url }) => url)).toEqual(['/x']);
    }
  });

  test('a body with a broken chunk is refused, and never completes at the upstream', async () => {
    const { upstream, sidecar } = await start();
    const client = await openConnection(sidecar.port);
    client.send(`${post(...upgrade, 'Transfer-Encoding: chunked')}2\r\nab\r\n`);
    await vi.waitFor(() => expect(upstream.heads()).toBe(1));
    client.send(`zz\r\n0\r\n\r\n${valid}`);
    const { status, headers } = parseOnly(await client.untilEnded());
    expect([status, headers['connection']]).toEqual([400, 'close']);
    await vi.waitFor(async () => expect(await inFlight(sidecar)).toBe(0));
    expect(upstream.seen).toEqual([]);
  });

  test.each<[name: string, framing: readonly string[], code: RefusalCode]>([
    ['a coding that only some readers know', ['Transfer-Encoding: chunked\t'], 'ambiguous_request'],
    ['another coding', ['Transfer-Encoding: gzip'], 'ambiguous_request'],
    ['two framings', ['Transfer-Encoding: chunked', 'Content-Length: 5'], 'malformed_request'],
    ['two framings of which one is faulty', ['Transfer-Encoding: chunked\t', 'Content-Length: 5'], 'malformed_request'],
  ])('a body with %s is refused, and the bytes after it are discarded', async (_name, framing, code) => {
    const proxied = ['Proxy-Connection: upgrade', 'Upgrade: x'];
    for (const [identity, ignored] of [
      [authorization, upgrade],
      [`Authorization: Bearer ${keys.acme}`, upgrade],
      [authorization, proxied],
      [`Authorization: Bearer ${keys.acme}`, proxied],
    ] as const) {
      const { upstream, sidecar } = await start();
      const client = await openConnection(sidecar.port);
      client.send(request('POST /api/s2s/x HTTP/1.1', 'Host: localhost', identity, ...ignored, ...framing));
      await client.untilText('}');
      client.send(`2\r\nab\r\n0\r\n\r\n${valid}`);
      expectRefusal(parseOnly(await client.untilEnded()), code);
      expect(upstream.heads()).toBe(0);
    }
  });
});

import { describe, expect, test, vi } from 'vitest';
import { openConnection, parseOnly, parseResponses } from '../support/connection.ts';
import { authorization, request, start, valid } from '../support/refused.ts';
import { configOf, route, routes, startSidecar } from '../support/sidecar.ts';
import { startWebSocketUpstream } from '../support/web-socket-upstream.ts';

// Some parsers take `Proxy-Connection` for `Connection`, so an Upgrade ends the message for one parser and not for another.
describe('an Upgrade that only Proxy-Connection nominates is ignored, and', () => {
  const upgrade = ['Proxy-Connection: upgrade', 'Upgrade: x'];
  const forwarded = ({ rawHeaders }: { readonly rawHeaders: readonly string[] }): string =>
    rawHeaders.join().toLowerCase();

  test.each([
    ['on its own', upgrade],
    ['in other letter case', ['PROXY-CONNECTION: UpGrade', 'Upgrade: x']],
    ['in a list', ['Proxy-Connection: keep-alive, upgrade', 'Upgrade: x']],
    ['beside a Connection that says something else', ['Connection: keep-alive', ...upgrade]],
  ])('makes no request vanish: %s', async (_name, lines) => {
    const { upstream, sidecar } = await start();
    const client = await openConnection(sidecar.port);
    client.send(request('GET /first HTTP/1.1', 'Host: localhost', authorization, ...lines) + valid);
    await client.untilText('{"ok":true}', 2);
    expect(parseResponses(client.received).map(({ status }) => status)).toEqual([200, 200]);
    expect(upstream.seen.map(({ url }) => url)).toEqual(['/first', '/behind']);
    for (const seen of upstream.seen) expect(forwarded(seen)).not.toMatch(/upgrade|proxy-connection/);
  });

  test.each(['chunked', 'chunked '])('with Transfer-Encoding %j has its body forwarded as a body', async (coding) => {
    const { upstream, sidecar } = await start();
    const client = await openConnection(sidecar.port);
    const framing = `Transfer-Encoding: ${coding}`;
    client.send(request('POST /x HTTP/1.1', 'Host: localhost', authorization, ...upgrade, framing));
    await vi.waitFor(() => expect(upstream.heads()).toBe(1));
    client.send(`${valid.length.toString(16)}\r\n${valid}\r\n0\r\n\r\n${valid}`);
    await client.untilText('{"ok":true}', 2);
    expect(upstream.seen.map(({ url, body }) => [url, body])).toEqual([
      ['/x', valid],
      ['/behind', ''],
    ]);
    for (const seen of upstream.seen) expect(forwarded(seen)).not.toMatch(/upgrade|proxy-connection/);
  });

  test('opens no WebSocket', async () => {
    const upstream = await startWebSocketUpstream();
    const sidecar = await startSidecar(
      configOf(upstream.origin, { routes: [...routes, route('/ws/*', { upgrade: true })] }),
    );
    const client = await openConnection(sidecar.port);
    client.send(
      request(
        'GET /ws/feed HTTP/1.1',
        'Host: localhost',
        authorization,
        'Proxy-Connection: upgrade',
        'Upgrade: websocket',
        'Sec-WebSocket-Version: 13',
        'Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==',
      ),
    );
    expect(parseOnly(await client.untilText('{}')).status).toBe(200);
    expect(upstream.sockets).toEqual([]);
  });

  test('drops Proxy-Connection where there is no Upgrade', async () => {
    const { upstream, sidecar } = await start();
    const client = await openConnection(sidecar.port);
    client.send(request('GET /x HTTP/1.1', 'Host: localhost', authorization, 'Proxy-Connection: keep-alive'));
    await client.untilText('{"ok":true}');
    expect(upstream.seen[0]?.rawHeaders.join().toLowerCase()).not.toContain('proxy-connection');
  });
});

import { describe, expect, test, vi } from 'vitest';
import { openConnection, parseOnly, parseResponses } from '../support/connection.ts';
import { inFlight } from '../support/metrics.ts';
import { authorization, post, request, start, valid } from '../support/refused.ts';
import { keys } from '../support/sidecar.ts';

// After an ignored Upgrade, Node's parser reports no errors until the next complete request.
describe('after an ignored Upgrade, an ambiguous request does not reach the upstream either', () => {
  const upgrade = ['Connection: Upgrade, HTTP2-Settings', 'Upgrade: h2c', 'HTTP2-Settings: AAMAAABkAAQAoAAAAAIAAAAA'];
  const faulty: readonly (readonly [name: string, bytes: string])[] = [
    ['the preface of HTTP/2', 'PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n'],
    ['two framings', `${post('Content-Length: 5', 'Transfer-Encoding: chunked')}0\r\n\r\n`],
    ['two lengths', `${post('Content-Length: 2', 'Content-Length: 3')}ab`],
    ['two codings', `${post('Transfer-Encoding: chunked, identity')}0\r\n\r\n`],
    ['no request at all', 'no request at all\r\n\r\n'],
  ];
  test.each(faulty)('%s', async (_name, bytes) => {
    const { upstream, sidecar } = await start({}, { header: 200 });
    const client = await openConnection(sidecar.port);
    client.send(request('GET /x HTTP/1.1', 'Host: localhost', authorization, ...upgrade));
    await client.untilText('{"ok":true}');
    client.send(bytes + valid);
    const responses = parseResponses(await client.untilEnded());
    expect(responses.map(({ status }) => status)).toEqual([200]);
    expect(upstream.seen.map(({ url }) => url)).toEqual(['/x']);
    for (const name of ['upgrade', 'http2-settings']) expect(upstream.seen[0]?.headers).not.toHaveProperty(name);
  });

  test.each([
    ['faulty bytes', 'PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n'],
    ['a request without a key', request('GET /lost HTTP/1.1', 'Host: localhost')],
  ])('and the response to a request behind %s is not taken for that to what Node discards', async (_name, lost) => {
    const { upstream, sidecar } = await start();
    const client = await openConnection(sidecar.port);
    client.send(request('GET /x HTTP/1.1', 'Host: localhost', authorization, ...upgrade) + lost);
    await client.untilText('{"ok":true}');
    client.send(request('GET /y HTTP/1.1', 'Host: localhost', authorization));
    const [response, ...others] = parseResponses(await client.untilEnded());
    expect(response).toMatchObject({ status: 200, headers: { connection: 'close' } });
    expect(others).toEqual([]);
    expect(upstream.seen.map(({ url }) => url)).toEqual(['/x']);
  });

  test('and a body with a broken chunk never completes', async () => {
    const { upstream, sidecar } = await start();
    const client = await openConnection(sidecar.port);
    client.send(`${post(...upgrade, 'Transfer-Encoding: chunked')}2\r\nab\r\nzz\r\n0\r\n\r\n${valid}`);
    await vi.waitFor(() => expect(upstream.heads()).toBe(1));
    client.socket.end();
    await client.untilEnded();
    await vi.waitFor(async () => expect(await inFlight(sidecar)).toBe(0));
    expect(upstream.seen).toEqual([]);
  });

  test.each([
    ['a coding that only some readers know', ['Transfer-Encoding: chunked\t']],
    ['another coding', ['Transfer-Encoding: gzip']],
    ['two framings', ['Transfer-Encoding: chunked', 'Content-Length: 5']],
    ['two framings of which one is faulty', ['Transfer-Encoding: chunked\t', 'Content-Length: 5']],
  ])('and a body with %s is refused, with all bytes after it', async (_name, framing) => {
    for (const identity of [authorization, `Authorization: Bearer ${keys.acme}`]) {
      const { upstream, sidecar } = await start();
      const client = await openConnection(sidecar.port);
      client.send(request('POST /api/s2s/x HTTP/1.1', 'Host: localhost', identity, ...upgrade, ...framing));
      await new Promise((resolve) => void setTimeout(resolve, 20));
      client.send(`2\r\nab\r\n0\r\n\r\n${valid}`);
      expect(parseOnly(await client.untilEnded()).body).toMatch(/"code":"(?:ambiguous|malformed)_request"/);
      expect(upstream.seen).toEqual([]);
    }
  });
});

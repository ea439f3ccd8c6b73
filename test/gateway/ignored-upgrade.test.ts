import { setTimeout as sleep } from 'node:timers/promises';
import { describe, expect, test, vi } from 'vitest';
import { openConnection, parseOnly, parseResponses } from '../support/connection.ts';
import { inFlight } from '../support/metrics.ts';
import { authorization, post, request, start, valid } from '../support/refused.ts';
import { keys } from '../support/sidecar.ts';

// After an ignored Upgrade, Node's parser reports no errors until the next complete request.
describe('after an ignored Upgrade', () => {
  const upgrade = ['Connection: Upgrade, HTTP2-Settings', 'Upgrade: h2c', 'HTTP2-Settings: AAMAAABkAAQAoAAAAAIAAAAA'];
  const faulty: readonly (readonly [name: string, bytes: string])[] = [
    ['the preface of HTTP/2', 'PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n'],
    ['a request with two framings', `${post('Content-Length: 5', 'Transfer-Encoding: chunked')}0\r\n\r\n`],
    ['a request with two lengths', `${post('Content-Length: 2', 'Content-Length: 3')}ab`],
    ['a request with two codings', `${post('Transfer-Encoding: chunked, identity')}0\r\n\r\n`],
    ['a line that is not a request', 'no request at all\r\n\r\n'],
  ];
  test.each(faulty)('%s does not reach the upstream', async (_name, bytes) => {
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
  ])('%s and a later request get no response, and the connection closes', async (_name, lost) => {
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

  test('a body with a broken chunk never completes at the upstream', async () => {
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
  ])('a body with %s is refused, and the bytes after it are discarded', async (_name, framing) => {
    for (const identity of [authorization, `Authorization: Bearer ${keys.acme}`]) {
      const { upstream, sidecar } = await start();
      const client = await openConnection(sidecar.port);
      client.send(request('POST /api/s2s/x HTTP/1.1', 'Host: localhost', identity, ...upgrade, ...framing));
      await sleep(20);
      client.send(`2\r\nab\r\n0\r\n\r\n${valid}`);
      expect(parseOnly(await client.untilEnded()).body).toMatch(/"code":"(?:ambiguous|malformed)_request"/);
      expect(upstream.seen).toEqual([]);
    }
  });
});

import { describe, expect, test, vi } from 'vitest';
import { openConnection, parseResponses, parseOnly } from '../support/connection.ts';
import { post, request, start, valid } from '../support/refused.ts';

describe('a request with an Expect header', () => {
  const expectations: readonly (readonly [name: string, ...headers: readonly string[]])[] = [
    ['in upper case', 'Expect: 100-CONTINUE'],
    ['nominated in Connection', 'Connection: Expect', 'Expect: 100-continue'],
    ['other than 100-continue', 'Expect: 200-ok'],
    ['empty', 'Expect:'],
  ];
  test.each(expectations)('is served like any other if its client does not wait: %s', async (_name, ...headers) => {
    const { upstream, sidecar } = await start();
    const client = await openConnection(sidecar.port);
    client.send(`${post(...headers, 'Content-Length: 2')}ab${valid}`);
    await client.untilText('{"ok":true}', 2);
    const statuses = parseResponses(client.received).map(({ status }) => status);
    expect(statuses.filter((status) => status !== 100)).toEqual([200, 200]);
    expect(upstream.seen.map(({ url, body }) => [url, body])).toEqual([
      ['/', 'ab'],
      ['/behind', ''],
    ]);
    expect(upstream.seen[0]?.headers).not.toHaveProperty('expect');
  });

  test('is served without a 100 response over HTTP/1.0, which has no expectations', async () => {
    const { upstream, sidecar } = await start();
    const client = await openConnection(sidecar.port);
    client.send(`${post('Expect: 100-continue', 'Content-Length: 2').replace('1.1', '1.0')}ab${valid}`);
    expect(parseOnly(await client.untilEnded()).status).toBe(200);
    expect(upstream.seen.map(({ url, body }) => [url, body])).toEqual([['/', 'ab']]);
  });

  test('is served without a 100 response if it is a list, which is another expectation', async () => {
    const { upstream, sidecar } = await start();
    const client = await openConnection(sidecar.port);
    client.send(post('Expect: 100-continue, x', 'Content-Length: 2'));
    await vi.waitFor(() => expect(upstream.heads()).toBe(1));
    client.send(`ab${valid}`);
    await client.untilText('{"ok":true}', 2);
    expect(parseResponses(client.received).map(({ status }) => status)).toEqual([200, 200]);
    expect(upstream.seen.map(({ url, body }) => [url, body])).toEqual([
      ['/', 'ab'],
      ['/behind', ''],
    ]);
  });

  test('closes its connection if it is refused, so that the next request is not read as its body', async () => {
    const { upstream, sidecar } = await start();
    const client = await openConnection(sidecar.port);
    const head = request(
      'POST /x HTTP/1.1',
      'Host: localhost',
      'Expect: 100-continue',
      `Content-Length: ${valid.length}`,
    );
    client.send(head);
    await client.untilText('}');
    client.send(valid + valid);
    client.socket.end();
    expect(parseOnly(await client.untilEnded())).toMatchObject({ status: 401, headers: { connection: 'close' } });
    expect(upstream.heads()).toBe(0);
  });
});

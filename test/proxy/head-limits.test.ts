import { describe, expect, test } from 'vitest';
import { startByteUpstream } from '../support/byte-upstream.ts';
import { openConnection, parseResponses, parseOnly, type RawResponse } from '../support/connection.ts';
import {
  authorization,
  expectOnlyRefused,
  expectRefusal,
  request,
  start,
  untilGone,
  valid,
} from '../support/refused.ts';
import { configOf, startSidecar } from '../support/sidecar.ts';

describe('a request head', () => {
  const limit = 2_000;
  const line = 'GET / HTTP/1.1';
  /** A request head of this many bytes, including line ends and separators. */
  const sized = (size: number): string => {
    const bytes = request(line, 'Host: localhost', authorization, 'X: ').length;
    return request(line, 'Host: localhost', authorization, `X: ${'x'.repeat(size - bytes)}`);
  };
  /** A head of the same size in many short fields. Node counts only their names and values, which are half of the bytes. */
  const inSmallFields = (size: number): string => {
    const fields = Array.from({ length: 60 }, () => 'a: b');
    const bytes = request(line, 'Host: localhost', authorization, ...fields, 'X: ').length;
    return request(line, 'Host: localhost', authorization, ...fields, `X: ${'x'.repeat(size - bytes)}`);
  };

  test.each([
    ['few fields', sized],
    ['many fields', inSmallFields],
  ])('may have limits.header bytes as sent, and not one more: %s', async (_name, head) => {
    const { upstream, sidecar } = await start({ header: limit });
    const client = await openConnection(sidecar.port);
    expect(head(limit)).toHaveLength(limit);
    client.send(head(limit));
    expect(await client.untilText('{"ok":true}')).toContain('200 OK');
    client.send(head(limit + 1));
    const [, refused] = parseResponses(await client.untilEnded());
    expectRefusal(refused as RawResponse, 'headers_too_large');
    expect(upstream.heads()).toBe(1);
  });

  test.each([40, 64])('may have limits.headers fields (%i), and not one more', async (limit) => {
    const { upstream, sidecar } = await start({ headers: limit });
    const head = (fields: number): string =>
      request(line, 'Host: localhost', authorization, ...Array.from({ length: fields - 2 }, (_, i) => `X-${i}: y`));
    const client = await openConnection(sidecar.port);
    client.send(head(limit));
    expect(await client.untilText('{"ok":true}')).toContain('200 OK');
    expect(upstream.seen[0]?.headers).toHaveProperty(`x-${limit - 3}`);
    client.send(head(limit + 1));
    const [, refused] = parseResponses(await client.untilEnded());
    expectRefusal(refused as RawResponse, 'headers_too_large');
    expect(upstream.heads()).toBe(1);
  });

  test('may have limits.headers fields beyond Node’s own limit of 1,000, and not one more', async () => {
    const upstream = await startByteUpstream(
      ({ socket }) => void socket.write('HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok'),
    );
    const limits = { headers: 1_100, header: 32_768 };
    const sidecar = await startSidecar(configOf(upstream.origin, { limits }));
    const client = await openConnection(sidecar.port);
    const head = (fields: number): string =>
      request(line, 'Host: localhost', authorization, ...Array.from({ length: fields - 2 }, () => 'X: y'));
    client.send(head(1_100));
    expect(await client.untilText('\r\n\r\nok')).toContain('200 OK');
    client.send(head(1_101));
    expectRefusal(parseResponses(await client.untilEnded())[1] as RawResponse, 'headers_too_large');
  });

  test.each([
    ['a header', request('GET / HTTP/1.1', 'Host: localhost', authorization, `X: ${'x'.repeat(limit)}`)],
    ['the target', request(`GET /${'x'.repeat(limit)} HTTP/1.1`, 'Host: localhost', authorization)],
    [
      'many headers',
      request('GET / HTTP/1.1', 'Host: localhost', ...Array.from({ length: 500 }, (_, i) => `X-${i}: y`)),
    ],
    ['a head without an end', `GET / HTTP/1.1\r\nX: ${'x'.repeat(200_000)}`],
  ])('is refused as headers_too_large: %s', async (_name, bytes) => {
    const { upstream, sidecar } = await start({ header: limit });
    await expectOnlyRefused(sidecar, upstream, bytes, 'headers_too_large');
  });

  test('is limited together with the trailers of its request', async () => {
    const { upstream, sidecar } = await start({ header: limit });
    const client = await openConnection(sidecar.port);
    client.send(
      request('POST / HTTP/1.1', 'Host: localhost', authorization, 'Transfer-Encoding: chunked') +
        `2\r\nab\r\n0\r\nX: ${'x'.repeat(limit)}\r\n\r\n`,
    );
    const response = parseOnly(await client.untilText('}'));
    expect(JSON.parse(response.body)).toMatchObject({ code: 'headers_too_large' });
    expect(upstream.seen).toHaveLength(0);
  });
});

describe('a slow head', () => {
  test.each([
    ['that never begins', ''],
    ['that never ends', 'GET / HTTP/1.1\r\nHost: local'],
  ])('%s is refused', async (_name, bytes) => {
    const { upstream, sidecar } = await start({}, { header: 200 });
    const client = await openConnection(sidecar.port);
    if (bytes !== '') client.send(bytes);
    expectRefusal(parseOnly(await client.untilEnded()), 'request_timeout');
    expect(upstream.heads()).toBe(0);
    expect(sidecar.accessLines()).toHaveLength(1);
  });

  test('has its connection closed, although the client keeps it open', async () => {
    const { sidecar } = await start({}, { header: 200 });
    const client = await openConnection(sidecar.port);
    await client.untilEnded();
    await untilGone(client);
  });

  test('is refused on a connection that was used before', async () => {
    const { sidecar } = await start({}, { header: 200 });
    const client = await openConnection(sidecar.port);
    client.send(valid);
    await client.untilText('{"ok":true}');
    client.send('GET / HTTP/1.1\r\n');
    const [first, second] = parseResponses(await client.untilEnded());
    expect(first?.status).toBe(200);
    expectRefusal(second as RawResponse, 'request_timeout');
  });

  test('is refused although bytes keep trickling in', async () => {
    const { sidecar } = await start({}, { header: 200 });
    const client = await openConnection(sidecar.port);
    client.send('GET / HTTP/1.1\r\nX: ');
    const drip = setInterval(() => client.send('x'), 20);
    expectRefusal(parseOnly(await client.untilText('}')), 'request_timeout');
    clearInterval(drip);
  });
});

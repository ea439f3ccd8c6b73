import { describe, expect, test, vi } from 'vitest';
import { envelopeOf } from '../support/client.ts';
import { openConnection, parseResponses } from '../support/connection.ts';
import { inFlight } from '../support/metrics.ts';
import {
  authorization,
  expectOnlyRefused,
  expectRefusedOnceRead,
  post,
  request,
  start,
  valid,
} from '../support/refused.ts';
import { acmeTest, keys } from '../support/sidecar.ts';

/** The head of a request with an envelope in chunks. */
const enveloped = request(
  'POST /api/s2s/charge HTTP/1.1',
  'Host: localhost',
  `Authorization: Bearer ${keys.acme}`,
  'Transfer-Encoding: chunked',
);

type Line = readonly [name: string, ...headers: readonly string[]];

describe('a Content-Length that can be read in two ways is refused', () => {
  const lengths: readonly Line[] = [
    ['Content-Length before Transfer-Encoding', 'Content-Length: 5', 'Transfer-Encoding: chunked'],
    ['Content-Length after Transfer-Encoding', 'Transfer-Encoding: chunked', 'Content-Length: 5'],
    ['Content-Length before another coding', 'Content-Length: 5', 'Transfer-Encoding: identity'],
    ['Content-Length before an empty coding', 'Content-Length: 5', 'Transfer-Encoding:'],
    ['two lengths', 'Content-Length: 2', 'Content-Length: 3'],
    ['the same length twice', 'Content-Length: 2', 'Content-Length: 2'],
    ['zero and another', 'Content-Length: 0', 'Content-Length: 2'],
    ['a list', 'Content-Length: 2, 2'],
    ['a list of one', 'Content-Length: 2,'],
    ['a plus sign', 'Content-Length: +2'],
    ['a minus sign', 'Content-Length: -2'],
    ['minus zero', 'Content-Length: -0'],
    ['hex', 'Content-Length: 0x2'],
    ['a fraction', 'Content-Length: 2.0'],
    ['an exponent', 'Content-Length: 2e0'],
    ['an underscore', 'Content-Length: 1_0'],
    ['quotation marks', 'Content-Length: "2"'],
    ['two numbers', 'Content-Length: 2 2'],
    ['a vertical tab', 'Content-Length: \x0b2'],
    ['a non-ASCII digit', 'Content-Length: \xb2'],
    ['no value', 'Content-Length:'],
    ['more than 64 bits can hold', 'Content-Length: 99999999999999999999'],
    ['a number that overflows to a small one', 'Content-Length: 18446744073709551618'],
    ['a space before the colon', 'Content-Length : 2'],
    ['a folded header', 'Content-Length:', ' 2'],
    ['a tab before it', 'Content-Length:\t2'],
    ['a tab behind it', 'Content-Length: 2\t'],
    ['16 digits, which may be no safe integer', 'Content-Length: 9007199254740993'],
    ['16 digits of a small number', 'Content-Length: 0000000000000002'],
    ['zero before Transfer-Encoding', 'Content-Length: 0', 'Transfer-Encoding: chunked'],
    ['Content-Length after two codings', 'Transfer-Encoding: gzip', 'Transfer-Encoding: chunked', 'Content-Length: 2'],
  ];
  test.each(lengths)('%s', async (_name, ...headers) => {
    const { upstream, sidecar } = await start();
    await expectOnlyRefused(sidecar, upstream, `${post(...headers)}{}`, 'malformed_request');
  });
});

describe('a Transfer-Encoding that can be read in two ways is refused', () => {
  const ambiguous: readonly Line[] = [
    ['gzip after chunked', 'Transfer-Encoding: chunked, gzip'],
    ['identity after chunked', 'Transfer-Encoding: chunked, identity'],
    ['chunked twice', 'Transfer-Encoding: chunked', 'Transfer-Encoding: chunked'],
    ['chunked twice in one header', 'Transfer-Encoding: chunked, chunked'],
    ['identity in a second header', 'Transfer-Encoding: chunked', 'Transfer-Encoding: identity'],
    ['identity in a first header', 'Transfer-Encoding: identity', 'Transfer-Encoding: chunked'],
    ['a comma before chunked', 'Transfer-Encoding: ,chunked'],
    ['a comma after chunked', 'Transfer-Encoding: chunked,'],
    ['an empty value', 'Transfer-Encoding:'],
    ['a tab before chunked', 'Transfer-Encoding:\tchunked'],
    ['a tab behind chunked', 'Transfer-Encoding: chunked\t'],
  ];
  test.each(ambiguous)('%s', async (_name, ...headers) => {
    const { upstream, sidecar } = await start();
    await expectOnlyRefused(sidecar, upstream, post(...headers), 'ambiguous_request');
  });

  const malformed: readonly Line[] = [
    ['a space before the colon', 'Transfer-Encoding : chunked'],
    ['a tab before the colon', 'Transfer-Encoding\t: chunked'],
    ['a space before the name', ' Transfer-Encoding: chunked'],
    ['a folded header', 'Transfer-Encoding:', ' chunked'],
    ['a bare line feed before the name', 'X: y\nTransfer-Encoding: chunked'],
    ['a bare carriage return before the name', 'X: y\rTransfer-Encoding: chunked'],
    ['a vertical tab before chunked', 'Transfer-Encoding: \x0bchunked'],
    ['a vertical tab after chunked', 'Transfer-Encoding: chunked\x0b'],
    ['a NUL after chunked', 'Transfer-Encoding: chunked\0'],
    ['a NUL in the name', 'Transfer-Encoding\0: chunked'],
  ];
  test.each(malformed)('%s', async (_name, ...headers) => {
    const { upstream, sidecar } = await start();
    await expectOnlyRefused(sidecar, upstream, `${post(...headers)}0\r\n\r\n`, 'malformed_request');
  });

  const unending: readonly (readonly [name: string, line: string, coding: string])[] = [
    ['gzip before chunked', 'POST / HTTP/1.1', 'gzip, chunked'],
    ['gzip alone', 'POST / HTTP/1.1', 'gzip'],
    ['identity', 'POST / HTTP/1.1', 'identity'],
    ['a longer word', 'POST / HTTP/1.1', 'xchunked'],
    ['a shorter word', 'POST / HTTP/1.1', 'chunk'],
    ['quotation marks', 'POST / HTTP/1.1', '"chunked"'],
    ['a parameter', 'POST / HTTP/1.1', 'chunked;q=1'],
    ['a non-ASCII letter', 'POST / HTTP/1.1', 'chun\xeb\xebd'],
    ['chunked on HTTP/1.0', 'POST / HTTP/1.0', 'chunked'],
    ['chunked on HTTP/1.0 that keeps its connection', 'POST / HTTP/1.0\r\nConnection: keep-alive', 'chunked'],
  ];
  test.each(unending)('with all bytes that follow: %s', async (_name, line, coding) => {
    const { upstream, sidecar } = await start();
    const bytes = request(line, 'Host: localhost', authorization, `Transfer-Encoding: ${coding}`);
    await expectRefusedOnceRead(sidecar, upstream, bytes, 'ambiguous_request');
    expect(upstream.heads()).toBe(0);
  });
});

describe('a chunk that can be read in two ways', () => {
  const badChunks: readonly (readonly [name: string, body: string])[] = [
    ['a size that is not a number', 'zz\r\nab\r\n0\r\n\r\n'],
    ['a size with a sign', '+2\r\nab\r\n0\r\n\r\n'],
    ['a size with a prefix', '0x2\r\nab\r\n0\r\n\r\n'],
    ['a size with an underscore', '0_2\r\nab\r\n0\r\n\r\n'],
    ['a size of 17 digits', 'fffffffffffffffff\r\nab'],
    ['a space before its size', ' 2\r\nab\r\n0\r\n\r\n'],
    ['a space after its size', '2 \r\nab\r\n0\r\n\r\n'],
    ['a tab after its size', '2\t\r\nab\r\n0\r\n\r\n'],
    ['a line break before its size', '\r\n2\r\nab\r\n0\r\n\r\n'],
    ['a bare line feed after the size', '2\nab\r\n0\r\n\r\n'],
    ['a bare carriage return after the size', '2\rab\r\n0\r\n\r\n'],
    ['more bytes than its size', '2\r\nabc\r\n0\r\n\r\n'],
    ['no line break after its bytes', '2\r\nab0\r\n\r\n'],
    ['an empty extension', '2;\r\nab\r\n0\r\n\r\n'],
    ['a bare line feed after its extension', '2;x=y\nab\r\n0\r\n\r\n'],
    ['a bare line feed in its extension', '2;x\ny\r\nab\r\n0\r\n\r\n'],
    ['a bare carriage return in its extension', '2;x\ry\r\nab\r\n0\r\n\r\n'],
    ['a line feed in a quoted extension', '2;x="\n"\r\nab\r\n0\r\n\r\n'],
    ['a quotation without an end', '2;x="y\r\nab\r\n0\r\n\r\n'],
    ['a NUL in its extension', '2;\0\r\nab\r\n0\r\n\r\n'],
    ['an extension without an end', `2;${'x'.repeat(20_000)}`],
    ['bare line feeds after the last chunk', '2\r\nab\r\n0\n\n'],
    ['a trailer without a colon', '2\r\nab\r\n0\r\nX\r\n\r\n'],
    ['a folded trailer', '2\r\nab\r\n0\r\nX: y\r\n z\r\n\r\n'],
    ['a Content-Length as a trailer', '2\r\nab\r\n0\r\nContent-Length: 2\r\n\r\n'],
  ];

  test.each(badChunks)('in an envelope is refused, and nothing is forwarded: %s', async (_name, body) => {
    const { upstream, sidecar } = await start();
    await expectRefusedOnceRead(sidecar, upstream, enveloped + body, 'malformed_request');
    expect(upstream.heads()).toBe(0);
    expect(sidecar.accessLines()[0]).toMatchObject({ route: '/api/s2s/*' });
  });

  test.each(badChunks)('in a streamed body keeps it from completing at the upstream: %s', async (_name, body) => {
    const { upstream, sidecar } = await start();
    const bytes = `${post('Transfer-Encoding: chunked')}5\r\nwhole\r\n${body}`;
    await expectRefusedOnceRead(sidecar, upstream, bytes, 'malformed_request');
    await vi.waitFor(async () => expect(await inFlight(sidecar)).toBe(0));
  });
});

test.each(['Content-Length', 'transfer-encoding', 'Connection', 'Proxy-Connection', 'UPGRADE', 'Host'])(
  'a trailer that names %s, which decides how a request is read, is refused',
  async (name) => {
    const { upstream, sidecar } = await start();
    const bytes = `${post('Transfer-Encoding: chunked')}2\r\nab\r\n0\r\nX: y\r\n${name}: x\r\n\r\n`;
    await expectRefusedOnceRead(sidecar, upstream, bytes, 'malformed_request');
  },
);

describe('unambiguous framing is forwarded in its canonical form', () => {
  const smuggled = 'GET /smuggled HTTP/1.1\r\n\r\n';
  const smuggledJson = JSON.stringify(smuggled);
  const size = smuggled.length.toString(16);
  const harmless: readonly (readonly [name: string, framing: string, body: string])[] = [
    ['a length with leading zeros', `Content-Length: 000${smuggled.length}`, smuggled],
    [
      'a length that Connection nominates',
      `Connection: Content-Length\r\nContent-Length: ${smuggled.length}`,
      smuggled,
    ],
    [
      'a length beside a disguised coding',
      `Transfer_Encoding: chunked\r\nTransfer.Encoding: chunked\r\nContent-Length: ${smuggled.length}`,
      smuggled,
    ],
    ['a length beside a disguised length', `Content_Length: 0\r\nContent-Length: ${smuggled.length}`, smuggled],
    ['a coding in upper case', 'Transfer-Encoding: CHUNKED', `${size}\r\n${smuggled}\r\n0\r\n\r\n`],
    [
      'a coding that Connection nominates',
      'Connection: Transfer-Encoding\r\nTransfer-Encoding: chunked',
      `${size}\r\n${smuggled}\r\n0\r\n\r\n`,
    ],
    ['chunk sizes with leading zeros', 'Transfer-Encoding: chunked', `000${size}\r\n${smuggled}\r\n000\r\n\r\n`],
    ['chunk extensions', 'Transfer-Encoding: chunked', `${size};x=y;z="q;r"\r\n${smuggled}\r\n0;last\r\n\r\n`],
    [
      'trailers',
      'Transfer-Encoding: chunked\r\nTrailer: X-Account-Id, Authorization',
      `${size}\r\n${smuggled}\r\n0\r\nX-Account-Id: evil\r\nAuthorization: evil\r\n\r\n`,
    ],
  ];
  /** The names and values of the fields that state a forwarded request's framing. */
  const framingOf = (rawHeaders: readonly string[] = []): readonly string[] =>
    rawHeaders.filter((_, i, all) => /length|encoding|trailer/i.test(all[i - (i % 2)] ?? ''));

  test.each(harmless)('of %s', async (_name, framing, body) => {
    const { upstream, sidecar } = await start();
    const client = await openConnection(sidecar.port);
    client.send(`${post(framing)}${body}${valid}`);
    await client.untilText('{"ok":true}', 2);
    expect(parseResponses(client.received).map(({ status }) => status)).toEqual([200, 200]);
    expect(upstream.seen).toMatchObject([
      { method: 'POST', url: '/', body: smuggled },
      { method: 'GET', url: '/behind', body: '' },
    ]);
    const [first] = upstream.seen;
    // A body that has arrived completely has a known length, whatever its framing was.
    expect(framingOf(first?.rawHeaders)).toEqual(['Content-Length', String(smuggled.length)]);
    expect(JSON.stringify(first)).not.toContain('evil');
  });

  test.each(harmless)('of %s, if the body comes later', async (_name, framing, body) => {
    const { upstream, sidecar } = await start();
    const client = await openConnection(sidecar.port);
    client.send(post(framing));
    await vi.waitFor(() => expect(upstream.heads()).toBe(1));
    client.send(body + valid);
    await client.untilText('{"ok":true}', 2);
    expect(upstream.seen).toMatchObject([
      { method: 'POST', url: '/', body: smuggled },
      { method: 'GET', url: '/behind', body: '' },
    ]);
    const [first] = upstream.seen;
    expect(framingOf(first?.rawHeaders)).toEqual(
      body === smuggled ? ['Content-Length', String(smuggled.length)] : ['Transfer-Encoding', 'chunked'],
    );
    expect(JSON.stringify(first)).not.toContain('evil');
  });

  test('of an envelope in chunks, without their extensions and trailers', async () => {
    const { upstream, sidecar } = await start();
    const client = await openConnection(sidecar.port);
    const envelope = envelopeOf(acmeTest, smuggledJson);
    const framed = inChunk(envelope).replace('\r\n{', ';x=y\r\n{').replace(/\r\n$/, 'X-Account-Id: evil\r\n\r\n');
    client.send(enveloped + framed + valid);
    await client.untilText('{"ok":true}');
    expect(upstream.seen.map(({ url, body }) => [url, body])).toEqual([
      ['/api/s2s/charge', smuggledJson],
      ['/behind', ''],
    ]);
    expect(upstream.seen[0]?.headers).toMatchObject({
      'x-account-id': 'acme',
      'content-length': String(smuggledJson.length),
    });
  });

  test.each(['POST', 'PUT', 'PATCH', 'DELETE', 'GET', 'HEAD', 'OPTIONS', 'PROPFIND', 'TRACE'])(
    'of a refused %s hides its body, which is not read as a request',
    async (method) => {
      const { upstream, sidecar } = await start();
      for (const framed of [
        `Content-Length: ${valid.length}\r\n\r\n${valid}`,
        `Transfer-Encoding: chunked\r\n\r\n${inChunk(valid)}`,
      ]) {
        const client = await openConnection(sidecar.port);
        client.send(`${method} /api/s2s/charge HTTP/1.1\r\nHost: localhost\r\n${framed}`);
        client.send(request('GET /after HTTP/1.1', 'Host: localhost', 'Connection: close'));
        await client.untilEnded();
        // Both requests lack a key. The request in the body has one, and would be served.
        expect(client.received.match(/^HTTP\/1\.1 \d+/gm)?.every((line) => line.endsWith(' 401'))).toBe(true);
      }
      expect(upstream.heads()).toBe(0);
    },
  );
});

function inChunk(body: string): string {
  return `${body.length.toString(16)}\r\n${body}\r\n0\r\n\r\n`;
}

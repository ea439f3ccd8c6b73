import * as fc from 'fast-check';
import { chunked, usually, type Framed } from '../http/arbitrary.ts';
import { mutated, mutations } from '../mutation.ts';

export interface ReaderCase {
  /** All bytes of a connection, which are one or more requests. */
  readonly bytes: string;
  /** The positions at which the bytes are split into reads. If there are none, they are split at every byte. */
  readonly cuts: readonly number[];
}

const requestLines = usually(
  6,
  [
    ['GET / HTTP/1.1', 'POST /a?b=c HTTP/1.1', 'PUT /%zz HTTP/1.1', 'HEAD * HTTP/1.1', 'OPTIONS * HTTP/1.1'],
    ['GET http://x.example/a?b HTTP/1.1', 'DELETE /a HTTP/1.0', 'M-SEARCH / HTTP/1.1', 'GET /a#b HTTP/1.1'],
    ['PATCH //a/../b;c=d HTTP/1.1', 'GET /"<>\\^`{|}~ HTTP/1.1', 'GET /?a?b#c?d HTTP/1.1', 'QUERY /a HTTP/1.1'],
  ].flat(),
  [
    [
      'GET',
      'GET /',
      'GET / HTTP/1.2',
      'GET / HTTP/2.0',
      'GET / HTTP/11',
      'GET / http/1.1',
      'GET /  HTTP/1.1',
      'GET  / HTTP/1.1',
    ],
    [
      'get / HTTP/1.1',
      'GETS / HTTP/1.1',
      'CONNECT a:1 HTTP/1.1',
      'CONNECT / HTTP/1.1',
      'PRI * HTTP/2.0',
      'SOURCE / ICE/1.0',
    ],
    [
      'GET a HTTP/1.1',
      'GET *a HTTP/1.1',
      'GET \xe9 HTTP/1.1',
      'GET /\xe9 HTTP/1.1',
      'GET /\t HTTP/1.1',
      'GET /#a#b HTTP/1.1',
    ],
    [
      'GET http:/a HTTP/1.1',
      'GET http://a@b@c/ HTTP/1.1',
      'GET h2+x://a/ HTTP/1.1',
      'GET http://[::1]:80/ HTTP/1.1',
      'GET ?a HTTP/1.1',
    ],
    [
      'SOURCE / HTTP/1.1',
      'DESCRIBE / RTSP/1.0',
      'FLUSH / HTTP/1.1',
      '',
      '\r\nGET / HTTP/1.1',
      '\r\n\r\nGET / HTTP/1.1',
      '\nGET / HTTP/1.1',
    ],
  ].flat(),
);

const fields = fc.array(
  usually(
    8,
    [
      ['Host: x', 'host:x', 'Accept: */*', 'X-Empty:', 'X-A:  1 \t', "!#$%&'*+.^_`|~: odd", 'X-Note: caf\xe9 \x80\xff'],
      [
        'Connection: close',
        'Connection: keep-alive',
        'connection: Keep-Alive , X-A',
        'Connection: x, CLOSE',
        'Connection:\tclose',
      ],
      [
        'Connection: Upgrade',
        'Upgrade: h2c',
        'Proxy-Connection: close',
        'Expect: 100-continue',
        'TE: trailers',
        'Trailer: X',
      ],
      [
        'Cookie: a="b"',
        'Authorization: Bearer abc',
        'HTTP2-Settings: a',
        'Keep-Alive: 5',
        'Connection: closed',
        'Connection: close-x',
      ],
    ].flat(),
    [
      [
        'X-A : 1',
        ' X-A: 1',
        'X-A: 1\r\n folded',
        'X-A: 1\0',
        'X-A: 1\rX-B: 2',
        'X-A: 1\nX-B: 2',
        'X-A: \x7f',
        'X-\xe9: 1',
      ],
      [
        ': nameless',
        'nocolon',
        'X A: 1',
        'X-Long: '.padEnd(3_000, 'x'),
        'X: 1\r\n'.repeat(40).slice(0, -2),
        'X:1\r',
        'X:1\r\r',
      ],
      [
        'Content-Length : 5',
        'Transfer-Encoding : chunked',
        'Transfer-Encoding\v: chunked',
        '\tHost: x',
        'Connection: clo\tse',
      ],
    ].flat(),
  ),
  { maxLength: 4 },
);

/** Ways to frame a body. The first four are correct. */
const framings: readonly ((body: string, size: number) => Framed)[] = [
  (body) => [[`Content-Length: ${body.length}`], body],
  (body) => (body === '' ? [[], ''] : [[`content-length:00${body.length} `], body]),
  (body, size) => [['Transfer-Encoding: chunked'], chunked(body, size)],
  (body, size) => [['transfer-encoding:CHUNKED '], chunked(body, size, ';a;b=c;d="\\"e"', 'X-T: 1\r\nX-U:\r\n')],
  (body) => [[], body],
  (body) => [[`Content-Length:\t${body.length}`], body],
  (body) => [[`Content-Length: ${body.length}\t`], body],
  (body) => [[`Content-Length: ${body.length} ${body.length}`], body],
  (body) => [[`Content-Length: ${body.length + 2}`], body],
  (body) => [[`Content-Length: ${Math.max(0, body.length - 2)}`], body],
  (body) => [[`Content-Length: ${body.length}`, `Content-Length: ${body.length}`], body],
  (body) => [[`Content-Length: ${body.length}, ${body.length}`], body],
  (body) => [[`Content-Length: +${body.length}`], body],
  (body) => [['Content-Length:'], body],
  (body) => [['Content-Length: 0'], body],
  (body) => [['Content-Length: 18446744073709551617'], body],
  (body, size) => [[`Content-Length: ${body.length}`, 'Transfer-Encoding: chunked'], chunked(body, size)],
  (body, size) => [['Transfer-Encoding: chunked', `Content-Length: ${body.length}`], chunked(body, size)],
  (body, size) => [['Transfer-Encoding: chunked', 'Transfer-Encoding: chunked'], chunked(body, size)],
  (body, size) => [['Transfer-Encoding: gzip, chunked'], chunked(body, size)],
  (body, size) => [['Transfer-Encoding: chunked, gzip'], chunked(body, size)],
  (body, size) => [['Transfer-Encoding: chunked,'], chunked(body, size)],
  (body, size) => [['Transfer-Encoding:\tchunked'], chunked(body, size)],
  (body, size) => [['Transfer-Encoding: chunked\t'], chunked(body, size)],
  (body, size) => [['Transfer-Encoding: chunkedx'], chunked(body, size)],
  (body, size) => [['Transfer-Encoding: chun ked'], chunked(body, size)],
  (body) => [['Transfer-Encoding: identity'], body],
  (body) => [['Transfer-Encoding:'], body],
  (body, size) => [['Transfer-Encoding: chunked'], chunked(body, size).replaceAll('\r\n', '\n')],
  (body, size) => [['Transfer-Encoding: chunked'], `0${chunked(body, size)}`],
  (body, size) => [['Transfer-Encoding: chunked'], `0x${chunked(body, size)}`],
  (body, size) => [['Transfer-Encoding: chunked'], chunked(body, size).replace('\r\n', ' \r\n')],
  (body, size) => [['Transfer-Encoding: chunked'], chunked(body, size, ';')],
  (body, size) => [['Transfer-Encoding: chunked'], chunked(body, size, ' ;a')],
  (body, size) => [['Transfer-Encoding: chunked'], chunked(body, size, ';a=')],
  (body, size) => [['Transfer-Encoding: chunked'], chunked(body, size, ';a="b')],
  (body, size) => [['Transfer-Encoding: chunked'], chunked(body, size, ';a="b"c')],
  (body, size) => [['Transfer-Encoding: chunked'], chunked(body, size, ';a="\\\x7f"')],
  (body, size) => [['Transfer-Encoding: chunked'], chunked(body, size, ';a="\xe9\t\\\xe9"')],
  (body, size) => [['Transfer-Encoding: chunked'], chunked(body, size, `;${'x'.repeat(251)}`)],
  (body, size) => [['Transfer-Encoding: chunked'], chunked(body, size, `;${'x'.repeat(300)}`)],
  (body, size) => [['Transfer-Encoding: chunked'], chunked(body, size, '', 'Content-Length: 5\r\n')],
  (body, size) => [['Transfer-Encoding: chunked'], chunked(body, size, '', 'Transfer-Encoding: chunked\r\n')],
  (body, size) => [['Transfer-Encoding: chunked'], chunked(body, size, '', 'Connection: close\r\n')],
  (body, size) => [['Transfer-Encoding: chunked'], chunked(body, size, '', 'no trailer\r\n')],
  (body, size) => [['Transfer-Encoding: chunked'], chunked(body, size, '', 'X: 1\r\n folded\r\n')],
  (body) => [['Transfer-Encoding: chunked'], `fffffffffffff\r\n${body}`],
];

const bodies = fc.oneof(
  { weight: 4, arbitrary: fc.constantFrom('', '', 'hello world', '{"a":1}', '\r\n\r\n', 'GET /in HTTP/1.1\r\n\r\n') },
  { weight: 2, arbitrary: fc.uint8Array({ maxLength: 40 }).map((bytes) => Buffer.from(bytes).toString('latin1')) },
  { weight: 1, arbitrary: fc.constantFrom('x'.repeat(600), '0\r\n\r\n', '5\r\n') },
);

const usualFraming = fc.constantFrom(...framings.slice(0, 4));

const request: fc.Arbitrary<string> = fc
  .record({
    line: requestLines,
    fields,
    body: bodies,
    frame: fc.oneof({ weight: 3, arbitrary: usualFraming }, { weight: 2, arbitrary: fc.constantFrom(...framings) }),
    first: fc.boolean(),
    size: fc.constantFrom(1, 5, 1_000),
    changes: fc.oneof({ weight: 2, arbitrary: fc.constant([]) }, { weight: 1, arbitrary: mutations }),
  })
  .map(({ line, fields, body, frame, first, size, changes }) => {
    const [lines, content] = frame(body, body.length > 100 ? 100 : size);
    const all = first ? [line, ...lines, ...fields] : [line, ...fields, ...lines];
    return mutated(`${all.join('\r\n')}\r\n\r\n${content}`, changes);
  });

/** One or more requests on a connection, correct or not. */
export const readerCases: fc.Arbitrary<ReaderCase> = fc.record({
  bytes: fc.array(request, { minLength: 1, maxLength: 3 }).map((requests) => requests.join('')),
  cuts: fc.array(fc.nat(65_535), { maxLength: 4 }),
});

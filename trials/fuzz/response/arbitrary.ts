import { gzipSync } from 'node:zlib';
import * as fc from 'fast-check';
import { chunked, usually, type Framed } from '../http/arbitrary.ts';
import { mutated, mutations } from '../mutation.ts';

export interface ResponseCase {
  /** The method of the request, which is always correct. */
  readonly method: 'GET' | 'HEAD' | 'POST';
  /** Whether the account encrypts and the route is enveloped. */
  readonly sealed: boolean;
  /** All bytes that the upstream sends. */
  readonly bytes: string;
  /** The positions at which the bytes are split into writes. */
  readonly cuts: readonly number[];
  /** What the upstream does next. */
  readonly ending: 'keep' | 'end' | 'reset';
}

const statusLines = usually(
  8,
  [
    ['HTTP/1.1 200 OK', 'HTTP/1.1 200 OK', 'HTTP/1.1 201 Created', 'HTTP/1.1 204 No Content', 'HTTP/1.1 404 Not Found'],
    ['HTTP/1.1 500 ', 'HTTP/1.1 304 Not Modified', 'HTTP/1.1 205 Reset Content', 'HTTP/1.0 200 OK', 'HTTP/1.1 599 Odd'],
  ].flat(),
  [
    [
      'HTTP/1.1 200',
      'HTTP/1.1 099 Low',
      'HTTP/1.1 600 High',
      'HTTP/1.1 1000 Long',
      'HTTP/1.1 20 Short',
      'HTTP/1.1 2x0 OK',
    ],
    [
      'HTTP/2.0 200 OK',
      'HTTP/1.2 200 OK',
      'http/1.1 200 OK',
      'HTTP/1.1  200 OK',
      'HTTP/1.1\t200 OK',
      ' HTTP/1.1 200 OK',
    ],
    [
      'HTTP/1.1 200 O\0K',
      'HTTP/1.1 200 O\rK',
      'HTTP/1.1 200 \xe9',
      'HTTP/1.1 101 Switching Protocols',
      'HTTP/1.1 100 Continue',
    ],
    ['ICY 200 OK', '', '\r\nHTTP/1.1 200 OK', 'HTTP/1.1 +20 OK', 'HTTP/1.1 999 Far', 'HTTP/1.1 000 None'],
  ].flat(),
);

const interims = usually(
  6,
  ['', ''],
  [
    [
      'HTTP/1.1 100 Continue\r\n\r\n',
      'HTTP/1.1 103 Early Hints\r\nLink: </a>\r\n\r\n',
      'HTTP/1.1 102 Processing\r\n\r\n',
    ],
    ['HTTP/1.1 199 Odd\r\nContent-Length: 5\r\n\r\n', 'HTTP/1.1 103 Early Hints\r\nLink: a\r\n\r\n'.repeat(40)],
    [
      'HTTP/1.1 101 Switching Protocols\r\nUpgrade: x\r\nConnection: upgrade\r\n\r\n',
      'HTTP/1.1 103 \r\nLink: \x80\r\n\r\n',
    ],
    [
      'HTTP/1.1 103 Early Hints\r\nTransfer-Encoding: chunked\r\n\r\n',
      'HTTP/1.1 103 Early Hints\r\nLink: a\0b\r\n\r\n',
    ],
  ].flat(),
);

const extras = fc.array(
  usually(
    12,
    [
      ['Content-Type: application/json', 'Content-Type: text/html', 'Connection: close', 'Connection: keep-alive'],
      ['Connection: X-A, Content-Length', 'X-A: 1', 'X-Empty:', 'Set-Cookie: a=1', 'Set-Cookie: b=2', 'ETag: "a"'],
      ['Trailer: X-T', 'Upgrade: h2c', 'X-Request-Id: upstream', 'Envelope: sealed', 'Envelope-Content-Type: a/b'],
      [
        'Date: yesterday',
        'Content-Encoding: identity',
        'X-Note: caf\xe9',
        'Accept-Ranges: bytes',
        'Keep-Alive: timeout=1',
      ],
      ['Content-Encoding: gzip', 'Content-Encoding: br', 'Content-Encoding: compress'],
    ].flat(),
    [
      [
        'X-A: 1\0',
        'X-A: 1\rX-B: 2',
        'X-A: 1\nX-B: 2',
        'X-A : 1',
        ' X-A: 1',
        'nocolon',
        ': nameless',
        'X-\xe9: 1',
        'X A: 1',
      ],
      [
        'X-A: \x7f',
        'X-A: 1\r\n folded',
        'X-Long: '.padEnd(20_000, 'x'),
        'X-Longer: '.padEnd(40_000, 'x'),
        'Content-Length : 3',
      ],
      ['X-Many: 1\r\n'.repeat(1_500).slice(0, -2), 'Transfer-Encoding : chunked', 'X-A: \u00a0'],
    ].flat(),
  ),
  { maxLength: 3 },
);

/** Ways to frame a body. The first four are correct. */
const framings: readonly ((body: string, size: number) => Framed)[] = [
  (body) => [[`Content-Length: ${body.length}`], body],
  (body) => [[`Content-Length: ${body.length}`], body],
  (body, size) => [['Transfer-Encoding: chunked'], chunked(body, size)],
  (body, size) => [['Transfer-Encoding: Chunked'], chunked(body, size, ';a=b', 'X-T: 1\r\nContent-Length: 1\r\n')],
  (body) => [[], body],
  (body) => [[`Content-Length: ${body.length + 3}`], body],
  (body) => [[`Content-Length: ${Math.max(0, body.length - 1)}`], body],
  (body) => [[`Content-Length: ${body.length}`, `Content-Length: ${body.length}`], body],
  (body) => [[`Content-Length: ${body.length}`, 'Content-Length: 0'], body],
  (body) => [[`Content-Length: ${body.length},${body.length}`], body],
  (body) => [[`Content-Length: +${body.length}`], body],
  (body) => [['Content-Length: -1'], body],
  (body) => [['Content-Length:'], body],
  (body) => [['Content-Length: 0x5'], body],
  (body) => [['Content-Length: 99999999999999999999999'], body],
  (body) => [['Content-Length: 900000000000000'], body],
  (body) => [[`Content-Length: 00${body.length}`], body],
  (body, size) => [[`Content-Length: ${body.length}`, 'Transfer-Encoding: chunked'], chunked(body, size)],
  (body, size) => [['Transfer-Encoding: gzip, chunked'], chunked(body, size)],
  (body, size) => [['Transfer-Encoding: chunked', 'Transfer-Encoding: chunked'], chunked(body, size)],
  (body, size) => [['Transfer-Encoding: chunked, identity'], chunked(body, size)],
  (body, size) => [['Transfer-Encoding: \vchunked'], chunked(body, size)],
  (body) => [['Transfer-Encoding: identity'], body],
  (body, size) => [['Transfer-Encoding: chunked'], chunked(body, size).slice(0, -2)],
  (body, size) => [['Transfer-Encoding: chunked'], chunked(body, size).slice(0, -5)],
  (body, size) => [['Transfer-Encoding: chunked'], chunked(body, size).replaceAll('\r\n', '\n')],
  (body, size) => [['Transfer-Encoding: chunked'], `0x${chunked(body, size)}`],
  (body, size) => [['Transfer-Encoding: chunked'], `-${chunked(body, size)}`],
  (body, size) => [['Transfer-Encoding: chunked'], `000000${chunked(body, size)}`],
  (body, size) => [['Transfer-Encoding: chunked'], chunked(body, size, `;${'x'.repeat(300)}`)],
  (body, size) => [['Transfer-Encoding: chunked'], chunked(body, size, '', 'no trailer\r\n')],
  (body, size) => [['Transfer-Encoding: chunked'], chunked(body, size, '', 'X-T: 1\r\n'.repeat(5_000))],
  (body) => [['Transfer-Encoding: chunked'], `ffffffffffffffff\r\n${body}`],
  (body) => [['Transfer-Encoding: chunked'], body],
];

const bodies = fc.oneof(
  { weight: 4, arbitrary: fc.constantFrom('{"ok":true}', '', '[]', '{"note":"\xc3\xa9"}', 'plain\r\n\r\ntext') },
  { weight: 2, arbitrary: fc.uint8Array({ maxLength: 60 }).map((bytes) => Buffer.from(bytes).toString('latin1')) },
  { weight: 2, arbitrary: fc.constant(gzipSync('{"zipped":true}').toString('latin1')) },
  {
    weight: 1,
    arbitrary: fc.constantFrom(
      'x'.repeat(17_000),
      'y'.repeat(70_000),
      'HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nhi',
    ),
  },
);

const someFraming = fc.oneof(
  { weight: 2, arbitrary: fc.constantFrom(...framings.slice(0, 4)) },
  { weight: 1, arbitrary: fc.constantFrom(...framings) },
);

/** Complete and broken responses to a correct request. */
export const responseCases: fc.Arbitrary<ResponseCase> = fc
  .record({
    method: fc.constantFrom<ResponseCase['method']>('GET', 'POST', 'GET', 'POST', 'HEAD'),
    sealed: fc.boolean(),
    interim: interims,
    statusLine: statusLines,
    extra: extras,
    body: bodies,
    frame: someFraming,
    size: fc.constantFrom(1, 7, 64, 100_000),
    more: usually(10, [''], ['x', '\r\n', 'HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\nevil']),
    changes: fc.oneof({ weight: 2, arbitrary: fc.constant([]) }, { weight: 1, arbitrary: mutations }),
    cuts: fc.array(fc.nat(65_535), { maxLength: 3 }),
    ending: usually<ResponseCase['ending']>(3, ['end'], ['reset', 'keep']),
  })
  .map(({ interim, statusLine, extra, body, frame, size, more, changes, method, sealed, cuts, ending }) => {
    const [lines, content] = frame(body, body.length > 5_000 ? Math.max(64, size) : size);
    const hasBody = method !== 'HEAD' && !/ (?:204|304)/.test(statusLine);
    const head = [statusLine, ...extra, ...lines].join('\r\n');
    return {
      method,
      sealed,
      cuts,
      ending,
      bytes: mutated(`${interim}${head}\r\n\r\n${hasBody ? content : ''}${more}`, changes),
    };
  });

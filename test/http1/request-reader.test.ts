import { describe, expect, test } from 'vitest';
import { HeldText } from '../../src/http1/parse/held-text.ts';
import {
  RequestReader,
  type HeadLimits,
  type RequestFault,
  type RequestHead,
} from '../../src/http1/parse/request-reader.ts';
import { Llhttp } from '../../trials/fuzz/request-reader/llhttp.ts';
import { runs } from '../support/property.ts';

const limits: HeadLimits = { maxHeadSize: 40_000, maxFields: 100 };

/** Reads the first head from these pieces. */
function read(pieces: readonly string[], { maxHeadSize, maxFields } = limits): RequestHead | RequestFault | undefined {
  const reader = new RequestReader(new HeldText());
  for (const piece of pieces) {
    const bytes = Buffer.from(piece, 'latin1');
    const head = reader.read(bytes, { maxHeadSize, maxFields });
    bytes.fill(0xdb);
    if (head !== undefined) return head;
  }
  return undefined;
}

const none = { type: 'none', length: undefined };
const chunked = { type: 'chunked', length: undefined };

describe('a head', () => {
  test('has its fields as sent, without the spaces around values', () => {
    const bytes = 'GET /a?b HTTP/1.1\r\nHost:x\r\nHash:x\r\nx-A:\t 1  2 \t\r\nX-a:\r\nX: \xa0\xe9\xa0\r\n\r\n';
    expect(read([bytes])).toEqual({
      method: 'GET',
      target: '/a?b',
      minor: 1,
      fields: ['Host', 'x', 'Hash', 'x', 'x-A', '1  2', 'X-a', '', 'X', '\xa0\xe9\xa0'],
      framing: none,
      keepAlive: true,
      size: bytes.length,
    });
  });

  test.each([
    [[], none],
    [['Content-Length: 0'], { type: 'none', length: 0 }],
    [['content-length:  007 '], { type: 'sized', length: 7 }],
    [['Content-Length: 999999999999999'], { type: 'sized', length: 999_999_999_999_999 }],
    [['Transfer-Encoding: Chunked'], chunked],
    // These names are as long as the names of the fields that state the framing, but do not state it.
    [['Accept-Charset: 7', 'If-Modified-Since: chunked'], none],
  ])('with %j has the framing %j', (fields, framing) => {
    expect(read([['PUT / HTTP/1.1', ...fields, '', ''].join('\r\n')])).toMatchObject({ framing });
  });

  test.each([
    ['1.1', [], true],
    ['1.1', ['Connection: close'], false],
    ['1.1', ['Connection: x, Close'], false],
    ['1.1', ['Connection: keep-alive', 'Connection: close'], false],
    ['1.1', ['Connection: closed'], true],
    ['1.1', ['Connection: not-close'], false],
    ['1.1', ['User-Agent: close'], true],
    ['1.0', [], false],
    ['1.0', ['Connection: Keep-Alive'], true],
    ['1.0', ['Connection: x , keep-alive'], true],
    ['1.0', ['Connection: keep-alive-x'], false],
    ['1.0', ['Connection: keep-alive', 'Connection: close'], false],
  ])('of HTTP/%s with %j keeps its connection: %j', (version, fields, keepAlive) => {
    expect(read([[`GET / HTTP/${version}`, ...fields, '', ''].join('\r\n')])).toMatchObject({ keepAlive });
  });

  test('has as many bytes and fields as allowed, however it is split', () => {
    const bytes = 'GET / HTTP/1.1\r\nA: 1\r\nB: 2\r\n\r\n';
    const size = bytes.length;
    for (const pieces of [[bytes], bytes.split(''), [bytes.slice(0, -3), bytes.slice(-3)]]) {
      expect(read(pieces, { maxHeadSize: size, maxFields: 2 })).toMatchObject({ size });
      expect(read(pieces, { maxHeadSize: size - 1, maxFields: 2 })).toBe('too_large');
      expect(read(pieces, { maxHeadSize: size, maxFields: 1 })).toBe('too_large');
    }
  });

  test('is read in linear time, however often a part is repeated', () => {
    // With 30,000 characters, a quadratic expression or loop would take minutes.
    for (let i = 0; i < runs(20); i += 1) {
      for (const many of [' ', 'a ', '\t ', ',', 'close', 'keep-alive ', ', keep-alive', 'chunked']) {
        const value = many.repeat(30_000 / many.length);
        for (const name of ['X', 'Connection', 'Content-Length', 'Transfer-Encoding']) {
          expect(read([`GET / HTTP/1.1\r\n${name}: a${value}b\r\n\r\n`])).toBeDefined();
        }
        expect(read([`GET /${many}${value}\x01 HTTP/1.1\r\n\r\n`])).toBe('malformed');
      }
      expect(read(`GET /${'a'.repeat(30_000)} HTTP/1.1\r\n\r\n`.split(''))).toMatchObject({ method: 'GET' });
    }
  });

  test.each([
    'GET',
    'get / HTTP/1.1\r\n',
    ' ',
    '\n',
    '\r\r',
    '\x16\x03',
    'GET / HTTP/1.1\n',
    'HELLO\r\n',
    'GET / HTTP/1.1\r\nX: a\0',
  ])('that begins with %j is refused as soon as it is wrong', (bytes) => {
    expect(read([bytes])).toBe(bytes === 'GET' ? undefined : 'malformed');
  });
});

describe('what llhttp accepts and this reader does not', () => {
  const llhttp = new Llhttp();
  const head = (line: string, ...fields: readonly string[]): string => [line, ...fields, '', ''].join('\r\n');

  test.each<[why: string, fault: RequestFault, bytes: string]>([
    ['more than one empty line before a request', 'malformed', `\r\n\r\n${head('GET / HTTP/1.1')}`],
    ['a bare line feed before a request', 'malformed', `\n${head('GET / HTTP/1.1')}`],
    ['a request line in absolute form with a user', 'ambiguous', head('GET http://user@host/ HTTP/1.1')],
    ['an IPv6 address in absolute form', 'ambiguous', head('GET http://[::1]/ HTTP/1.1')],
    ['a target that begins with an asterisk', 'ambiguous', head('GET *a HTTP/1.1')],
    ['CONNECT', 'ambiguous', head('CONNECT host:1 HTTP/1.1')],
    ['HTTP/2.0', 'ambiguous', head('GET / HTTP/2.0')],
    ['HTTP/0.9', 'ambiguous', head('GET / HTTP/0.9')],
    ['no version, as in HTTP/0.9', 'ambiguous', head('GET /')],
    ['several spaces in the first line', 'malformed', head('GET  /  HTTP/1.1')],
    ['chunks on HTTP/1.0', 'ambiguous', head('PUT / HTTP/1.0', 'Transfer-Encoding: chunked')],
    ['a coding before chunked', 'ambiguous', head('PUT / HTTP/1.1', 'Transfer-Encoding: gzip, chunked')],
    [
      'two fields of codings',
      'ambiguous',
      head('PUT / HTTP/1.1', 'Transfer-Encoding: gzip', 'Transfer-Encoding: chunked'),
    ],
    ['a length of 16 digits', 'malformed', head('PUT / HTTP/1.1', 'Content-Length: 0000000000000005')],
    ['a tab before a length', 'malformed', head('PUT / HTTP/1.1', 'Content-Length:\t5')],
    ['a tab before a coding', 'ambiguous', head('PUT / HTTP/1.1', 'Transfer-Encoding:\tchunked')],
  ])('%s', (_why, fault, bytes) => {
    expect(llhttp.read(Buffer.from(bytes, 'latin1')).requests).toHaveLength(1);
    expect(read([bytes])).toBe(fault);
    expect(read(bytes.split(''))).toBe(fault);
  });

  test.each([
    ['folding', head('GET / HTTP/1.1', 'X: 1', ' 2')],
    ['a space before a colon', head('GET / HTTP/1.1', 'Host : x')],
    ['a bare line feed', 'GET / HTTP/1.1\nHost: x\r\n\r\n'],
    ['a carriage return in a value', head('GET / HTTP/1.1', 'X: 1\r2')],
    ['both a length and chunks', head('PUT / HTTP/1.1', 'Content-Length: 1', 'Transfer-Encoding: chunked')],
    ['two lengths', head('PUT / HTTP/1.1', 'Content-Length: 1', 'Content-Length: 1')],
    ['a tab behind a coding', head('PUT / HTTP/1.1', 'Transfer-Encoding: chunked\t')],
    ['a sign', head('PUT / HTTP/1.1', 'Content-Length: +1')],
  ])('is not %s, which both refuse', (_name, bytes) => {
    const { requests, fault } = llhttp.read(Buffer.from(bytes, 'latin1'));
    expect([requests.filter(({ complete }) => complete), fault]).toEqual([[], expect.stringMatching(/^HPE/)]);
    expect(read([bytes])).toMatch(/^(?:malformed|ambiguous)$/);
  });
});

import fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import { ResponseReader, type ResponseFault } from '../../src/http1/parse/response-reader.ts';
import { runs } from '../support/property.ts';

/** What the reader reports for some bytes. */
interface Understood {
  information: number[];
  status: number | undefined;
  headers: readonly string[];
  body: string;
  /** Whether the connection may be used again; undefined while the response is not complete. */
  reusable: boolean | undefined;
  fault: ResponseFault | undefined;
}

/** Parses the pieces one after another, as they might come from a socket. */
function parse(pieces: readonly string[], method = 'POST'): Understood {
  const understood: Understood = {
    information: [],
    status: undefined,
    headers: [],
    body: '',
    reusable: undefined,
    fault: undefined,
  };
  const parser = new ResponseReader();
  parser.begin(method, {
    onInformation: (status) => understood.information.push(status),
    onHead: (status, headers) => Object.assign(understood, { status, headers }),
    onData: (chunk) => (understood.body += chunk.toString('latin1')),
  });
  for (const piece of pieces) {
    const outcome = parser.push(Buffer.from(piece, 'latin1'));
    if (outcome === 'end') understood.reusable = parser.reusable;
    else if (outcome !== 'more') understood.fault ??= outcome;
  }
  return understood;
}

/** Cuts a string at the given places. */
function cut(text: string, places: readonly number[]): string[] {
  const ends = [...new Set(places.map((place) => place % (text.length + 1)))].toSorted((a, b) => a - b);
  return [0, ...ends].map((from, i) => text.slice(from, ends[i] ?? text.length)).filter((piece) => piece !== '');
}

const ok = 'HTTP/1.1 200 OK\r\n';
const chunked = `${ok}Transfer-Encoding: chunked\r\n\r\n`;

describe('a response is parsed', () => {
  test.each([
    ['with a length', `${ok}Content-Length: 5\r\n\r\nhello`, { status: 200, body: 'hello', reusable: true }],
    ['with a length of 0', `${ok}Content-Length: 0\r\n\r\n`, { status: 200, body: '', reusable: true }],
    ['in chunks', `${chunked}5\r\nhello\r\n0\r\n\r\n`, { body: 'hello', reusable: true }],
    ['in chunks with quoted extensions', `${chunked}2;a;b="\\";"\r\nok\r\n0;c=d\r\n\r\n`, { body: 'ok' }],
    ['in chunks with extensions', `${chunked}5;a=b\r\nhello\r\n0\r\n\r\n`, { body: 'hello', reusable: true }],
    ['in chunks with trailers, which are dropped', `${chunked}0\r\nX-Sum: 1\r\n\r\n`, { body: '', reusable: true }],
    ['without a reason', 'HTTP/1.1 200\r\nContent-Length: 0\r\n\r\n', { status: 200, reusable: true }],
    ['without a body by its status', 'HTTP/1.1 204 No Content\r\n\r\n', { status: 204, body: '' }],
    [
      'with Connection: close',
      `${ok}Connection: close\r\nContent-Length: 2\r\n\r\nok`,
      { body: 'ok', reusable: false },
    ],
    ['on HTTP/1.0 with a length', 'HTTP/1.0 200 OK\r\nContent-Length: 2\r\n\r\nok', { body: 'ok', reusable: false }],
    ['after 100, which is dropped', `HTTP/1.1 100 Continue\r\n\r\n${ok}Content-Length: 0\r\n\r\n`, { information: [] }],
    [
      'after 103',
      `HTTP/1.1 103 Early Hints\r\nLink: </a>\r\n\r\n${ok}Content-Length: 0\r\n\r\n`,
      { information: [103] },
    ],
    ['with the lowest status', 'HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n', { status: 200 }],
    ['with the highest status', 'HTTP/1.1 599 Odd\r\nContent-Length: 0\r\n\r\n', { status: 599 }],
  ])('%s', (_name, text, expected) => {
    expect(parse([text])).toMatchObject({ ...expected, fault: undefined });
  });

  test('without a body to HEAD, whatever its length', () => {
    expect(parse([`${ok}Content-Length: 500\r\n\r\n`], 'HEAD')).toMatchObject({ body: '' });
  });

  test('with header names and values as sent, in their order', () => {
    const { headers } = parse([`${ok}X-B:  two \r\nx-a:\r\nX-B: \xe9\r\nContent-Length: 0\r\n\r\n`]);
    expect(headers).toEqual(['X-B', 'two', 'x-a', '', 'X-B', '\xe9', 'Content-Length', '0']);
  });

  /** A head of this many bytes, without the empty line after it. */
  const headOf = (length: number): string => {
    const start = `${ok}Content-Length: 0\r\nX: `;
    return `${start}${'a'.repeat(length - start.length)}\r\n\r\n`;
  };
  const chunkHeadOf = (length: number): string => `2;${'a'.repeat(length - 2)}\r\nok\r\n0\r\n\r\n`;

  test.each([
    ['32 KiB of head', headOf(32_768), undefined],
    ['one byte more', headOf(32_769), 'HEAD_TOO_LARGE'],
    ['256 bytes before a chunk', chunked + chunkHeadOf(256), undefined],
    ['one byte more', chunked + chunkHeadOf(257), 'BAD_CHUNK'],
  ])('or refused at the limit, in one piece or two: %s', (_name, text, fault) => {
    expect(parse([text]).fault).toBe(fault);
    expect(parse([text.slice(0, 100), text.slice(100)]).fault).toBe(fault);
  });

  test.each(['S', 'HTTP/2', 'HTP', '\r'])('or refused at its first bytes, before the head is complete: %j', (bytes) => {
    expect(parse([bytes]).fault).toBe('BAD_HEAD');
  });

  test('with the keep-alive time of its own head, not of the previous one', () => {
    const parser = new ResponseReader();
    const ignored = { onInformation: () => {}, onHead: () => {}, onData: () => {} };
    for (const [header, seconds] of [
      ['Keep-Alive: timeout=9\r\n', 9],
      ['', undefined],
    ] as const) {
      parser.begin('GET', ignored);
      parser.push(Buffer.from(`${ok}${header}Content-Length: 0\r\n\r\n`));
      expect(parser.keepAlive).toBe(seconds);
    }
  });

  test('in linear time, however often a part is repeated', () => {
    const times = runs(20);
    // With 30,000 characters, a quadratic expression or loop would take minutes.
    for (const many of [' ', 'a ', '\t ', ',', 'close', 'timeout=', ';']) {
      const value = many.repeat(30_000 / many.length);
      for (const name of ['X', 'Connection', 'Keep-Alive']) {
        for (let i = 0; i < times; i += 1) {
          const head = `${ok}${name}: a${value}b\r\nContent-Length: 0\r\n\r\n`;
          expect(parse([head]).status).toBe(200);
        }
      }
    }
    const head = `${ok}X: ${'a'.repeat(30_000)}\r\nContent-Length: 0\r\n\r\n`;
    for (let i = 0; i < times; i += 1) expect(parse(head.split('')).status).toBe(200);
  });

  test('alike however the bytes are cut', () => {
    const body = fc.array(fc.string({ unit: 'binary-ascii', minLength: 1, maxLength: 40 }), { maxLength: 5 });
    fc.assert(
      fc.property(body, fc.boolean(), fc.array(fc.nat(), { maxLength: 12 }), (parts, inChunks, places) => {
        const whole = parts.join('');
        const framed = inChunks
          ? `${chunked}${parts.map((part) => `${part.length.toString(16)}\r\n${part}\r\n`).join('')}0\r\nT: 1\r\n\r\n`
          : `${ok}Content-Length: ${whole.length}\r\n\r\n${whole}`;
        const text = `HTTP/1.1 103 Early Hints\r\n\r\n${framed}`;
        expect(parse(cut(text, places))).toEqual({ ...parse([text]), body: whole, reusable: true, fault: undefined });
      }),
    );
  });
});

describe('a connection cannot be reused', () => {
  test.each([
    ['after a response with a length', `${ok}Content-Length: 2\r\n\r\nok`, 'POST'],
    ['after a chunked response', `${chunked}2\r\nok\r\n0\r\n\r\n`, 'POST'],
    ['after 204', 'HTTP/1.1 204 No Content\r\n\r\n', 'POST'],
    ['after 304', 'HTTP/1.1 304 Not Modified\r\nContent-Length: 2\r\n\r\n', 'GET'],
    ['after a response to HEAD', `${ok}Content-Length: 2\r\n\r\n`, 'HEAD'],
  ])('if bytes arrive %s', (_name, text, method) => {
    expect(parse([`${text}x`], method)).toMatchObject({ reusable: false, fault: undefined });
    expect(parse([text, 'x'], method)).toMatchObject({ fault: 'UNEXPECTED_DATA' });
  });

  test.each([
    ['204', 'HTTP/1.1 204 No Content\r\n\r\n', 'POST'],
    ['304', 'HTTP/1.1 304 Not Modified\r\n\r\n', 'GET'],
    ['a response to HEAD', `${ok}Content-Length: 2\r\n\r\n`, 'HEAD'],
  ])('after %s, because a body may follow even so', (_name, text, method) => {
    expect(parse([text], method).reusable).toBe(false);
  });
});

describe('bytes that are not an unambiguous response are refused', () => {
  test.each<[string, string, ResponseFault]>([
    ['without a length', `${ok}\r\nhello`, 'NO_LENGTH'],
    ['with two lengths', `${ok}Content-Length: 2\r\nContent-Length: 2\r\n\r\nok`, 'BAD_LENGTH'],
    ['with a list of lengths', `${ok}Content-Length: 2, 2\r\n\r\nok`, 'BAD_LENGTH'],
    ['with a signed length', `${ok}Content-Length: +2\r\n\r\nok`, 'BAD_LENGTH'],
    ['with a negative length', `${ok}Content-Length: -2\r\n\r\nok`, 'BAD_LENGTH'],
    ['with an empty length', `${ok}Content-Length:\r\n\r\n`, 'BAD_LENGTH'],
    ['with a hexadecimal length', `${ok}Content-Length: 0x2\r\n\r\nok`, 'BAD_LENGTH'],
    ['with a length and chunks', `${ok}Content-Length: 2\r\nTransfer-Encoding: chunked\r\n\r\n`, 'BAD_LENGTH'],
    ['with another coding', `${ok}Transfer-Encoding: gzip, chunked\r\n\r\n`, 'BAD_LENGTH'],
    ['with two codings', `${ok}Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n\r\n`, 'BAD_LENGTH'],
    ['in chunks on HTTP/1.0', 'HTTP/1.0 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n', 'BAD_LENGTH'],
    ['with status 099', 'HTTP/1.1 099 Low\r\nContent-Length: 0\r\n\r\n', 'BAD_STATUS'],
    ['with status 101', 'HTTP/1.1 101 Switching Protocols\r\n\r\n', 'BAD_STATUS'],
    ['with status 600', 'HTTP/1.1 600 High\r\nContent-Length: 0\r\n\r\n', 'BAD_STATUS'],
    ['with a status of two digits', 'HTTP/1.1 20 OK\r\nContent-Length: 0\r\n\r\n', 'BAD_HEAD'],
    ['of HTTP/2', 'HTTP/2.0 200 OK\r\nContent-Length: 0\r\n\r\n', 'BAD_HEAD'],
    ['with a control character in the reason', 'HTTP/1.1 200 O\x07K\r\nContent-Length: 0\r\n\r\n', 'BAD_HEAD'],
    ['with a NUL in a value', `${ok}X: a\0b\r\nContent-Length: 0\r\n\r\n`, 'BAD_HEAD'],
    ['with a bare line feed', `${ok}X: a\nY: b\r\nContent-Length: 0\r\n\r\n`, 'BAD_HEAD'],
    ['with a bare carriage return', `${ok}X: a\rY: b\r\nContent-Length: 0\r\n\r\n`, 'BAD_HEAD'],
    ['with a folded line', `${ok}X: a\r\n b\r\nContent-Length: 0\r\n\r\n`, 'BAD_HEAD'],
    ['with a space before the colon', `${ok}X : a\r\nContent-Length: 0\r\n\r\n`, 'BAD_HEAD'],
    ['with a line without a colon', `${ok}nothing\r\nContent-Length: 0\r\n\r\n`, 'BAD_HEAD'],
    ['in another protocol', 'SSH-2.0-OpenSSH_9.2\r\n\r\n', 'BAD_HEAD'],
    ['with an empty chunk size', `${chunked}\r\nhello`, 'BAD_CHUNK'],
    ['with a signed chunk size', `${chunked}+5\r\nhello\r\n`, 'BAD_CHUNK'],
    ['with a chunk size that is not a number', `${chunked}5g\r\nhello\r\n`, 'BAD_CHUNK'],
    ['with a chunk one byte longer than its size', `${chunked}2\r\nokX\r\n0\r\n\r\n`, 'BAD_CHUNK'],
    ['with a chunk one line feed longer than its size', `${chunked}2\r\nok\n\r\n0\r\n\r\n`, 'BAD_CHUNK'],
    ['with a chunk longer than its size', `${chunked}2\r\nhello\r\n`, 'BAD_CHUNK'],
    ['with a space after a chunk size', `${chunked}8 \r\n12345678\r\n`, 'BAD_CHUNK'],
    ['with an empty chunk extension', `${chunked}2;\r\nok\r\n`, 'BAD_CHUNK'],
    ['with a chunk extension without a name', `${chunked}2;=a\r\nok\r\n`, 'BAD_CHUNK'],
    ['with a chunk extension without a value', `${chunked}2;a=\r\nok\r\n`, 'BAD_CHUNK'],
    ['with an open quotation in a chunk extension', `${chunked}2;a="b\r\nok\r\n`, 'BAD_CHUNK'],
    ['with a chunk size of 13 digits', `${chunked}0000000000002\r\nok\r\n`, 'BAD_CHUNK'],
    ['with a trailer without a colon', `${chunked}0\r\nnothing\r\n\r\n`, 'BAD_TRAILER'],
    ['with a trailer without a name', `${chunked}0\r\n: value\r\n\r\n`, 'BAD_TRAILER'],
    ['with a space before the colon of a trailer', `${chunked}0\r\nX : value\r\n\r\n`, 'BAD_TRAILER'],
    ['with a folded trailer', `${chunked}0\r\nX: a\r\n b\r\n\r\n`, 'BAD_TRAILER'],
    ['with a line feed in a trailer', `${chunked}0\r\nX: a\nY: b\r\n\r\n`, 'BAD_TRAILER'],
    ['with a second response in place of a trailer', `${chunked}0\r\n${ok}\r\n`, 'BAD_TRAILER'],
    ['with a chunk ended by a line feed', `${chunked}2\r\nok\n0\r\n\r\n`, 'BAD_CHUNK'],
    ['with an endless chunk extension', `${chunked}5;${'a'.repeat(300)}`, 'BAD_CHUNK'],
    ['with an endless head', `${ok}X: ${'a'.repeat(33_000)}`, 'HEAD_TOO_LARGE'],
    ['with endless informational responses', 'HTTP/1.1 103 Early\r\n\r\n'.repeat(2_000), 'HEAD_TOO_LARGE'],
    ['with endless trailers', `${chunked}0\r\n${`X: ${'a'.repeat(200)}\r\n`.repeat(200)}`, 'HEAD_TOO_LARGE'],
  ])('%s', (_name, text, fault) => {
    expect(parse([text]).fault).toBe(fault);
    // The fault is the same if the bytes arrive one by one.
    expect(parse(text.split('')).fault).toBe(fault);
  });

  test('and random bytes neither throw nor count as a response', () => {
    fc.assert(
      fc.property(fc.array(fc.string({ unit: 'binary-ascii' })), (pieces) => {
        expect(parse(pieces).reusable).toBeUndefined();
      }),
    );
  });
});

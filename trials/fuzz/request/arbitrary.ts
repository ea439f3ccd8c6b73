import * as fc from 'fast-check';
import { envelopes, goodEnvelope, plaintexts } from '../envelope/arbitrary.ts';
import { chunked, usually, type Framed } from '../http/arbitrary.ts';
import { mutated, mutations } from '../mutation.ts';
import { allSecrets, knownKeys, uselessKeys, type KnownKey } from './accounts.ts';

export interface RequestCase {
  /** All bytes that the client sends on the connection. */
  readonly bytes: string;
  /** The positions at which the bytes are split into writes. */
  readonly cuts: readonly number[];
  /** What the client does next: wait for the responses, end its side, or cut the connection. */
  readonly ending: 'wait' | 'finish' | 'cut';
}

const methods = usually(
  25,
  ['POST', 'POST', 'POST', 'GET', 'HEAD', 'PUT', 'DELETE', 'OPTIONS', 'PATCH'],
  ['post', 'CONNECT', 'TRACE', 'M-SEARCH', 'PRI', 'QUERY', '', 'P\0ST', 'GET,POST', 'PURGE', 'LINK'],
);

const targets = usually(
  12,
  [
    ['/api/s2s/pay', '/api/s2s/pay', '/API/S2s/pay/', '/api/s2s', '/api/s2s/', '/api/s2s/pay?a=1&b=%2F'],
    ['/api/v1/transactions/initialize', '/orders', '/orders/1?x=/../', '/', '/socket', '/only/post'],
    ['/api/s2s/aes-encrypt', '/api/s2s/AES-decrypt/'],
  ].flat(),
  [
    ['', '*', '//api/s2s/pay', '/api//s2s/pay', '/api/./s2s/pay', '/x/../api/s2s/pay', '/api/s2s/..', '/api/s2s/.'],
    ['/api/%2e%2e/pay', '/api%2fs2s/pay', '/api/%73%32s/pay', '/api/s2s;x/pay', '/api\\s2s\\pay', '/api/s2s/pay#x'],
    ['http://api.pay.example/api/s2s/pay', 'api.pay.example:443', '/api/s2s/\xe9', '/api/s2s/%c3%a9', '/api/s2s/%00'],
    ['/api/s2s/a b', '/api/s2s/%', '/api/s2s/%zz', '/?#', '/?\\', `/api/s2s/${'x'.repeat(9_000)}`, '/\0', '?x=1'],
    ['/api/s2s/%u002e', '/api/s2s/%c0%ae', '/socket/', '/api/s2s/pay\t', '/api/s2s/pay%20', '/api/s2s/pay%E2%80%AE'],
  ].flat(),
);

const versions = usually(
  30,
  ['HTTP/1.1'],
  ['HTTP/1.0', 'HTTP/1.0', 'HTTP/1.2', 'HTTP/2.0', 'HTTP/0.9', 'http/1.1', '', 'HTTP/1.1 '],
);

const hosts = ({ environment }: KnownKey): fc.Arbitrary<readonly string[]> =>
  usually<readonly string[]>(
    20,
    environment === 'live'
      ? [['api.pay.example']]
      : [['sandbox.pay.example'], ['sandbox.pay.example'], ['Sandbox.Pay.Example:8080']],
    [
      [['sandbox.pay.example'], ['api.pay.example'], [], [''], ['elsewhere.example'], ['[::1]:80'], ['a,b'], ['a/b']],
      [['sandbox.pay.example', 'api.pay.example'], ['user@sandbox.pay.example'], ['sandbox.pay.example.']],
    ].flat(),
  );

const authorizations = (key: KnownKey): fc.Arbitrary<readonly string[]> =>
  usually<readonly string[]>(
    20,
    [[`Bearer ${key.key}`], [`bearer   ${key.key}`]],
    [
      [
        [],
        [''],
        ['Basic YTpi'],
        ['Bearer'],
        [`Bearer ${key.key}`, `Bearer ${key.key}`],
        [`Bearer ${key.key} x`],
        [`Bearer\t${key.key}`],
      ],
      uselessKeys.map((useless) => [`Bearer ${useless}`]),
    ].flat(),
  );

/** Header lines that mean something to the sidecar, including some that clients may not send. */
const extras = fc.array(
  usually(
    25,
    [
      ['Content-Type: application/json', 'Accept: */*', 'User-Agent: fuzz', 'Connection: keep-alive'],
      ['Connection: close', 'Connection: X-Account-Id, Authorization, Content-Length', 'TE: trailers', 'X-Empty:'],
      ['X-Account-Id: evil', 'x_account_id: evil', 'X-Api-Key-Kind: secret', 'X-Environment: live', 'X.Account.Id: e'],
      ['X-Request-Id: mine', 'X-Request-Id: not mine', 'X-Forwarded-For: 10.0.0.1', 'Forwarded: for=10.0.0.1'],
      [
        'Connection: Upgrade\r\nUpgrade: websocket',
        'Connection: Upgrade\r\nUpgrade: h2c',
        'Upgrade: websocket',
        'Expect: 100-continue',
        'Expect: tea',
        'Range: bytes=0-1',
      ],
      ['If-None-Match: "a"', 'Content-Encoding: gzip', 'Content-Encoding: identity', 'Envelope: sealed'],
      [
        'Envelope-Credentials: current',
        'X-HTTP-Method-Override: DELETE',
        'X-Real-IP: 10.0.0.1',
        'Accept-Encoding: gzip',
        'Keep-Alive: 5',
      ],
      ['Origin: https://shop.example', 'Access-Control-Request-Method: POST', 'Proxy-Connection: keep-alive'],
      ['traceparent: 00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01', 'key: short', 'iv: short'],
      ['key: k7Jq2vXw9RtB4mNz8LpC1sDfG5hYeU3a', 'iv: Zx9Qw3Er7Ty1Ui5O', 'Cookie: a=b', 'X-Note: caf\xe9 \x80'],
    ].flat(),
    [
      ['X-Long: '.padEnd(3_000, 'x'), 'X-Longer: '.padEnd(17_000, 'x'), ' X-Folded: 1', 'X-A: 1\r\n folded', 'X-A : 1'],
      ['X A: 1', ': nameless', 'nocolon', 'X-A: 1\0', 'X-A: 1\rX-B: 2', 'X-A: 1\nX-Account-Id: evil', 'X-\xe9: 1'],
      [
        'X-A: \x7f',
        'Host : evil',
        '\tHost: evil',
        'Content-Length : 5',
        'Transfer-Encoding\v: chunked',
        'HTTP2-Settings: a',
      ],
    ].flat(),
  ),
  { maxLength: 4 },
);

/** Ways to frame a body. The first three are correct. */
const framings: readonly ((body: string, size: number) => Framed)[] = [
  (body) => [[`Content-Length: ${body.length}`], body],
  (body) => (body === '' ? [[], ''] : [[`Content-Length: ${body.length}`], body]),
  (body, size) => [['Transfer-Encoding: chunked'], chunked(body, size)],
  (body, size) => [['Transfer-Encoding: chunked'], chunked(body, size, ';ext="a"', 'X-Trailer: 1\r\nX-Length: 3\r\n')],
  (body, size) => [['Transfer-Encoding: chunked'], chunked(body, size, '', 'X-Trailer: 1\r\nContent-Length: 3\r\n')],
  (body) => [[], body],
  (body) => [[`Content-Length: ${body.length + 1}`], body],
  (body) => [[`Content-Length: ${Math.max(0, body.length - 1)}`], body],
  (body) => [[`Content-Length: ${body.length}`, `Content-Length: ${body.length}`], body],
  (body) => [[`Content-Length: ${body.length}, ${body.length}`], body],
  (body) => [[`Content-Length: +${body.length}`], body],
  (body) => [[`Content-Length: 0x${body.length.toString(16)}`], body],
  (body) => [['Content-Length: 99999999999999999999'], body],
  (body) => [['Content-Length: -1'], body],
  (body) => [['Content-Length:'], body],
  (body) => [['Content-Length: 2000000'], body],
  (body, size) => [[`Content-Length: ${body.length}`, 'Transfer-Encoding: chunked'], chunked(body, size)],
  (body, size) => [['Transfer-Encoding: chunked', `Content-Length: ${body.length}`], chunked(body, size)],
  (body, size) => [['Transfer-Encoding: chunked', 'Transfer-Encoding: chunked'], chunked(body, size)],
  (body, size) => [['Transfer-Encoding: chunked', 'Transfer-Encoding: identity'], chunked(body, size)],
  (body, size) => [['Transfer-Encoding: gzip, chunked'], chunked(body, size)],
  (body, size) => [['Transfer-Encoding: CHUNKED'], chunked(body, size)],
  (body, size) => [['Transfer-Encoding: "chunked"'], chunked(body, size)],
  (body, size) => [['Transfer-Encoding: chunked;q=1'], chunked(body, size)],
  (body, size) => [['Transfer-Encoding:\tchunked\t'], chunked(body, size)],
  (body, size) => [['Transfer-Encoding: xchunked'], chunked(body, size)],
  (body) => [['Transfer-Encoding: identity'], body],
  (body) => [['Transfer-Encoding:'], body],
  (body, size) => [['Transfer-Encoding: chunked'], chunked(body, size).replaceAll('\r\n', '\n')],
  (body, size) => [['Transfer-Encoding: chunked'], chunked(body, size).replace('\r\n', '\r')],
  (body, size) => [['Transfer-Encoding: chunked'], `0${chunked(body, size)}`],
  (body, size) => [['Transfer-Encoding: chunked'], `0x${chunked(body, size)}`],
  (body, size) => [['Transfer-Encoding: chunked'], ` ${chunked(body, size)}`],
  (body, size) => [['Transfer-Encoding: chunked'], chunked(body, size, ';a\n=')],
  (body, size) => [['Transfer-Encoding: chunked'], chunked(body, size, '', 'no trailer\r\n')],
  (body) => [['Transfer-Encoding: chunked'], `fffffffffffffff\r\n${body}`],
];

function bodies({ encryption }: KnownKey): fc.Arbitrary<string> {
  const own = encryption === undefined ? allSecrets : [encryption.current];
  const accepted = typeof encryption?.grace === 'object' ? [...own, encryption.grace] : own;
  return fc.oneof(
    { weight: 6, arbitrary: fc.constantFrom(...accepted).chain(goodEnvelope) },
    { weight: 3, arbitrary: envelopes([...accepted, ...allSecrets]) },
    { weight: 2, arbitrary: plaintexts },
    { weight: 2, arbitrary: fc.constant('') },
    { weight: 1, arbitrary: fc.constantFrom('{"encrypted_data":"00"}', ' '.repeat(70_000), '{'.padEnd(70_000)) },
  );
}

const usualFraming = fc.constantFrom(...framings.slice(0, 3));
const framing = fc.oneof(
  { weight: 4, arbitrary: usualFraming },
  { weight: 1, arbitrary: fc.constantFrom(...framings) },
);

/** A key, most often the secret key of an account that encrypts. */
const someKey = fc.oneof(
  fc.constantFrom(...knownKeys),
  fc.constantFrom(
    ...knownKeys.filter(({ kind, active, encryption }) => kind === 'secret' && active && encryption !== undefined),
  ),
);

const request: fc.Arbitrary<string> = someKey.chain((key) =>
  fc
    .record({
      method: methods,
      target: targets,
      version: versions,
      host: hosts(key),
      authorization: authorizations(key),
      extra: extras,
      body: bodies(key),
      frame: framing,
      size: fc.constantFrom(1, 7, 64, 100_000),
      changes: fc.oneof({ weight: 3, arbitrary: fc.constant([]) }, { weight: 1, arbitrary: mutations }),
    })
    .map(({ method, target, version, host, authorization, extra, body, frame, size, changes }) => {
      const [lines, content] = frame(body, body.length > 5_000 ? Math.max(64, size) : size);
      const head = [
        `${method} ${target} ${version}`,
        ...host.map((each) => `Host: ${each}`),
        ...authorization.map((each) => `Authorization: ${each}`),
        ...extra,
        ...lines,
      ];
      return mutated(`${head.join('\r\n')}\r\n\r\n${content}`, changes);
    }),
);

/** A mostly correct handshake, and data that is sent through the tunnel. */
const handshake: fc.Arbitrary<string> = someKey.chain((key) =>
  fc
    .record({
      target: usually(8, ['/socket', '/socket', '/Socket/?a=1'], ['/api/s2s/pay', '/orders', '/sockets']),
      upgrade: usually(8, ['Upgrade: websocket', 'Upgrade: WebSocket'], ['Upgrade: h2c', 'Upgrade: websocket, h2c']),
      connection: usually(8, ['Connection: Upgrade'], ['Connection: keep-alive, Upgrade', 'Connection: close']),
      host: hosts(key),
      authorization: authorizations(key),
      extra: extras,
      length: usually(10, [''], ['Content-Length: 0', 'Content-Length: 5', 'Transfer-Encoding: chunked']),
      said: fc.constantFrom('', 'hello', '\x81\x85\0\0\0\0hello', 'GET /last HTTP/1.1\r\n\r\n', 'x'.repeat(70_000)),
      changes: fc.oneof({ weight: 8, arbitrary: fc.constant([]) }, { weight: 1, arbitrary: mutations }),
    })
    .map(({ target, upgrade, connection, host, authorization, extra, length, said, changes }) => {
      const head = [
        `GET ${target} HTTP/1.1`,
        ...host.map((each) => `Host: ${each}`),
        ...authorization.map((each) => `Authorization: ${each}`),
        connection,
        upgrade,
        'Sec-WebSocket-Version: 13',
        'Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==',
        ...extra,
        ...(length === '' ? [] : [length]),
      ];
      return mutated(`${head.join('\r\n')}\r\n\r\n${said}`, changes);
    }),
);

/** Some requests on one connection, usually followed by a correct request that ends the connection. */
export const requestCases: fc.Arbitrary<RequestCase> = fc
  .record({
    requests: fc.oneof(
      { weight: 3, arbitrary: request.map((one) => [one]) },
      { weight: 1, arbitrary: fc.array(request, { maxLength: 4 }) },
      { weight: 1, arbitrary: fc.tuple(fc.array(request, { maxLength: 1 }), handshake).map((parts) => parts.flat()) },
    ),
    last: fc.constantFrom(
      '',
      '',
      `GET /last HTTP/1.1\r\nHost: sandbox.pay.example\r\nAuthorization: Bearer ${knownKeys[3]?.key}\r\nConnection: close\r\n\r\n`,
    ),
    cuts: fc.array(fc.nat(65_535), { maxLength: 3 }),
    ending: usually<RequestCase['ending']>(12, ['wait'], ['finish', 'cut']),
  })
  .map(({ requests, last, cuts, ending }) => ({ bytes: requests.join('') + last, cuts, ending }));

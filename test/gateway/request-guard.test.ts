import { describe, expect, test, vi } from 'vitest';
import { refusalOf, type RefusalCode } from '../../src/errors.ts';
import { openConnection, parseAnswers, parseOnly, type Connection, type RawAnswer } from '../support/connection.ts';
import { inFlight } from '../support/metrics.ts';
import { configOf, keys, startSidecar, type TestSidecar } from '../support/sidecar.ts';
import { startUpstream, type TestUpstream } from '../support/upstream.ts';

const authorization = `Authorization: Bearer ${keys.globex}`;
/** What would be served if it stood alone. */
const valid = `GET /behind HTTP/1.1\r\nHost: localhost\r\n${authorization}\r\n\r\n`;

async function start(limits: { header?: number; inFlight?: number } = {}, timeouts: { header?: number } = {}) {
  const upstream = await startUpstream();
  const sidecar = await startSidecar(configOf(upstream.origin, { limits, timeouts }));
  return { upstream, sidecar };
}

function request(line: string, ...headers: readonly string[]): string {
  return [line, ...headers, '', ''].join('\r\n');
}

/** A refusal on a connection without a request id to keep: its body, a fresh id, and word that the connection closes. */
function expectRefusal(answer: RawAnswer, code: RefusalCode): void {
  const { status, title, detail } = refusalOf(code);
  expect(answer.status).toBe(status);
  expect(answer.headers).toMatchObject({
    'content-type': 'application/problem+json',
    connection: 'close',
    'x-request-id': expect.stringMatching(/^[0-9a-f-]{36}$/),
  });
  const request_id = answer.headers['x-request-id'];
  expect(JSON.parse(answer.body)).toEqual({ type: `docs/errors.md#${code}`, title, status, detail, code, request_id });
}

/** Sends what is to be refused with a good request behind it, and expects one refusal, then the connection's end. */
async function expectOnlyRefused(sidecar: TestSidecar, upstream: TestUpstream, bytes: string, code: RefusalCode) {
  const client = await openConnection(sidecar.port);
  client.send(bytes + valid);
  expectRefusal(parseOnly(await client.untilEnded()), code);
  expect(client.ending).toBe('end');
  expect(upstream.heads()).toBe(0);
  await vi.waitFor(() => expect(sidecar.accessLines()).toHaveLength(1));
  expect(sidecar.accessLines()[0]).toMatchObject({ status: refusalOf(code).status, code, route: 'none' });
}

describe('a request that can be read in two ways is refused', () => {
  const targets: readonly (readonly [name: string, target: string])[] = [
    ['a dot segment', '/api/./s2s'],
    ['two dots', '/api/v1/../s2s/charge'],
    ['two dots at the end', '/api/s2s/..'],
    ['encoded dots', '/api/%2e%2E/s2s'],
    ['half-encoded dots', '/api/.%2e/s2s'],
    ['an empty segment', '/api//s2s'],
    ['an empty segment in front', '//api/s2s'],
    ['an encoded slash', '/api%2fs2s'],
    ['an encoded backslash', '/api%5Cs2s'],
    ['an encoded percent sign', '/api/%2573s2s'],
    ['an encoded NUL', '/api/%00'],
    ['an encoded letter', '/api/%73%32%73/charge'],
    ['an encoded tilde', '/%7Euser'],
    ['a backslash', '/api\\s2s'],
    ['a backslash in the query', '/api?a=\\b'],
    ['a fragment', '/api#fragment'],
    ['a fragment in the query', '/api?a#b'],
    ['a matrix parameter', '/api;v=1/s2s'],
    ['bytes outside ASCII', '/caf\xc3\xa9'],
    ['bytes outside ASCII in the query', '/api?name=\xe9'],
    ['the absolute form', 'http://localhost/api'],
    ['the absolute form of another host', 'https://evil.example/api'],
    ['the asterisk', '*'],
  ];
  test.each(targets)('for its target: %s', async (_name, target) => {
    const { upstream, sidecar } = await start();
    const bytes = request(`GET ${target} HTTP/1.1`, 'Host: localhost', authorization);
    await expectOnlyRefused(sidecar, upstream, bytes, 'ambiguous_request');
  });

  const heads: readonly (readonly [name: string, ...lines: readonly string[]])[] = [
    ['two Host headers', 'GET / HTTP/1.1', 'Host: localhost', 'Host: localhost'],
    ['two Host headers in other cases', 'GET / HTTP/1.1', 'host: localhost', 'HOST: other'],
    ['no Host', 'GET / HTTP/1.1'],
    ['an empty Host', 'GET / HTTP/1.1', 'Host:'],
    ['an empty Host on HTTP/1.0', 'GET / HTTP/1.0', 'Host: '],
    ['userinfo in Host', 'GET / HTTP/1.1', 'Host: api.pay.example@localhost'],
    ['two hosts in one Host', 'GET / HTTP/1.1', 'Host: localhost, other'],
    ['a space in Host', 'GET / HTTP/1.1', 'Host: local host'],
    ['a path in Host', 'GET / HTTP/1.1', 'Host: localhost/x'],
    ['a port in Host that is none', 'GET / HTTP/1.1', 'Host: localhost:http'],
    ['two Authorization headers', 'GET / HTTP/1.1', 'Host: localhost', authorization],
    ['gzip behind chunked', 'POST / HTTP/1.1', 'Host: localhost', 'Transfer-Encoding: chunked, gzip'],
    ['chunked twice', 'POST / HTTP/1.1', 'Host: localhost', 'Transfer-Encoding: chunked', 'Transfer-Encoding: chunked'],
    ['an empty Transfer-Encoding', 'POST / HTTP/1.1', 'Host: localhost', 'Transfer-Encoding:'],
    ['HTTP/0.9 in words', 'GET / HTTP/0.9', 'Host: localhost'],
    ['HTTP/1.2', 'GET / HTTP/1.2', 'Host: localhost'],
    ['HTTP/2.0', 'GET / HTTP/2.0', 'Host: localhost'],
    ['HTTP/3.0', 'GET / HTTP/3.0', 'Host: localhost'],
    ['CONNECT', 'CONNECT localhost:443 HTTP/1.1', 'Host: localhost'],
    ['CONNECT with a path', 'CONNECT / HTTP/1.1', 'Host: localhost'],
  ];
  test.each(heads)('for its head: %s', async (_name, line, ...headers) => {
    const { upstream, sidecar } = await start();
    await expectOnlyRefused(sidecar, upstream, request(line, ...headers, authorization), 'ambiguous_request');
  });

  const unending: readonly (readonly [name: string, line: string, coding: string])[] = [
    ['gzip before chunked', 'POST / HTTP/1.1', 'gzip, chunked'],
    ['gzip alone', 'POST / HTTP/1.1', 'gzip'],
    ['identity', 'POST / HTTP/1.1', 'identity'],
    ['what only looks like chunked', 'POST / HTTP/1.1', 'xchunked'],
    ['chunked on HTTP/1.0', 'POST / HTTP/1.0', 'chunked'],
  ];
  test.each(unending)('for its Transfer-Encoding, whatever stands behind: %s', async (_name, line, coding) => {
    const { upstream, sidecar } = await start();
    const client = await openConnection(sidecar.port);
    client.send(request(line, 'Host: localhost', authorization, `Transfer-Encoding: ${coding}`) + valid);
    await client.untilText('}');
    // Nobody can say where such a body ends, so the sidecar reads on for a while, until its client has the answer.
    client.socket.end();
    expectRefusal(parseOnly(await client.untilEnded()), 'ambiguous_request');
    expect(upstream.heads()).toBe(0);
    await vi.waitFor(() => expect(sidecar.accessLines()).toHaveLength(1));
    expect(sidecar.accessLines()[0]).toMatchObject({ status: 400, code: 'ambiguous_request' });
  });

  test('for its version: HTTP/0.9, which has none', async () => {
    const { upstream, sidecar } = await start();
    await expectOnlyRefused(sidecar, upstream, 'GET /\r\n\r\n', 'ambiguous_request');
  });

  test('for its version: the preface of HTTP/2', async () => {
    const { upstream, sidecar } = await start();
    await expectOnlyRefused(sidecar, upstream, 'PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n', 'ambiguous_request');
  });

  test.each(['localhost', 'LOCALHOST', 'localhost:8080', '127.0.0.1', '[::1]:8080', 'a_b.example', 'localhost.'])(
    'but not for the Host %s',
    async (host) => {
      const { upstream, sidecar } = await start();
      const client = await openConnection(sidecar.port);
      client.send(request('GET / HTTP/1.1', `Host: ${host}`, authorization, 'Connection: close'));
      expect(parseOnly(await client.untilEnded()).status).toBe(200);
      expect(upstream.seen[0]?.headers.host).toBe(host);
    },
  );

  test('but HTTP/1.0 without a Host is not', async () => {
    const { upstream, sidecar } = await start();
    const client = await openConnection(sidecar.port);
    client.send(request('GET /old HTTP/1.0', authorization));
    expect(parseOnly(await client.untilEnded()).status).toBe(200);
    expect(upstream.seen[0]?.url).toBe('/old');
  });
});

describe('what is no request by the parser', () => {
  const chunked = request('POST / HTTP/1.1', 'Host: localhost', authorization, 'Transfer-Encoding: chunked');
  const post = (...headers: string[]): string =>
    request('POST / HTTP/1.1', 'Host: localhost', authorization, ...headers);
  const malformed: readonly (readonly [name: string, bytes: string])[] = [
    ['Content-Length before Transfer-Encoding', `${post('Content-Length: 5', 'Transfer-Encoding: chunked')}0\r\n\r\n`],
    ['Content-Length behind Transfer-Encoding', `${post('Transfer-Encoding: chunked', 'Content-Length: 5')}0\r\n\r\n`],
    ['two lengths', `${post('Content-Length: 2', 'Content-Length: 3')}{}`],
    ['the same length twice', `${post('Content-Length: 2', 'Content-Length: 2')}{}`],
    ['a list of lengths', `${post('Content-Length: 2, 2')}{}`],
    ['a plus sign', `${post('Content-Length: +2')}{}`],
    ['a minus sign', `${post('Content-Length: -2')}{}`],
    ['a length in hex', `${post('Content-Length: 0x2')}{}`],
    ['an empty length', `${post('Content-Length:')}{}`],
    ['a length beyond all bounds', `${post('Content-Length: 99999999999999999999')}{}`],
    ['bare line feeds', 'GET / HTTP/1.1\nHost: localhost\n\n'],
    ['a bare line feed between headers', 'GET / HTTP/1.1\r\nHost: localhost\nX: y\r\n\r\n'],
    ['a bare carriage return', 'GET / HTTP/1.1\r\nHost: localhost\rX: y\r\n\r\n'],
    ['a folded header', 'GET / HTTP/1.1\r\nHost: localhost\r\nX: y\r\n z\r\n\r\n'],
    ['a space before the first header', 'GET / HTTP/1.1\r\n Host: localhost\r\n\r\n'],
    ['a space before the colon', 'GET / HTTP/1.1\r\nHost : localhost\r\n\r\n'],
    ['a NUL in a header', 'GET / HTTP/1.1\r\nHost: localhost\r\nX: y\0z\r\n\r\n'],
    ['a method that is none', 'BREW / HTTP/1.1\r\nHost: localhost\r\n\r\n'],
    ['a space in the target', 'GET /a b HTTP/1.1\r\nHost: localhost\r\n\r\n'],
    ['the greeting of TLS', '\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03'],
  ];
  test.each(malformed)('is refused with a body and a request id: %s', async (_name, bytes) => {
    const { upstream, sidecar } = await start();
    await expectOnlyRefused(sidecar, upstream, bytes, 'malformed_request');
  });

  const badChunks: readonly (readonly [name: string, body: string])[] = [
    ['a size that is no number', 'zz\r\nab\r\n0\r\n\r\n'],
    ['a size with a sign', '+2\r\nab\r\n0\r\n\r\n'],
    ['a size with a prefix', '0x2\r\nab\r\n0\r\n\r\n'],
    ['a size beyond all bounds', 'fffffffffffffffff\r\nab'],
    ['a bare line feed behind the size', '2\nab\r\n0\r\n\r\n'],
    ['more than its size', '2\r\nabc\r\n0\r\n\r\n'],
    ['no line break behind it', '2\r\nab0\r\n\r\n'],
  ];
  test.each(badChunks)('is broken off where an envelope has a chunk with %s', async (_name, body) => {
    const { upstream, sidecar } = await start();
    const client = await openConnection(sidecar.port);
    client.send(
      request(
        'POST /api/s2s/charge HTTP/1.1',
        'Host: localhost',
        `Authorization: Bearer ${keys.acme}`,
        'Transfer-Encoding: chunked',
      ) +
        body +
        valid,
    );
    const answer = parseOnly(await client.untilText('}'));
    expect(answer.headers['connection']).toBe('close');
    expect(JSON.parse(answer.body)).toMatchObject({ code: 'malformed_request' });
    client.socket.end();
    await client.untilEnded();
    parseOnly(client.received);
    expect(upstream.heads()).toBe(0);
    await vi.waitFor(() => expect(sidecar.accessLines()).toHaveLength(1));
    expect(sidecar.accessLines()[0]).toMatchObject({ status: 400, code: 'malformed_request', route: '/api/s2s/*' });
  });

  test.each(badChunks)(
    'never becomes a whole request of the upstream where a streamed body has a chunk with %s',
    async (_name, body) => {
      const { upstream, sidecar } = await start();
      const client = await openConnection(sidecar.port);
      client.send(`${chunked}5\r\nwhole\r\n${body}${valid}`);
      const answer = parseOnly(await client.untilText('}'));
      expect(JSON.parse(answer.body)).toMatchObject({ code: 'malformed_request' });
      client.socket.end();
      await client.untilEnded();
      expect(upstream.seen).toHaveLength(0);
      await vi.waitFor(async () => expect(await inFlight(sidecar)).toBe(0));
    },
  );

  test('is refused once, however much more of it comes, and the answer is not lost to a reset', async () => {
    const { sidecar } = await start();
    const client = await openConnection(sidecar.port);
    const garbage = Buffer.alloc(262_144, 'x');
    client.send('no request at all\r\n\r\n');
    for (let i = 0; i < 16; i += 1) {
      client.send(garbage);
      await new Promise((resolve) => void setTimeout(resolve, 5));
    }
    client.socket.end();
    const answer = parseOnly(await client.untilEnded());
    expect(client.ending).toBe('end');
    expectRefusal(answer, 'malformed_request');
    expect(sidecar.accessLines()).toHaveLength(1);
    expect(await (await fetch(`${sidecar.adminUrl}/metrics`)).text()).toContain(
      'envelope_sidecar_refusals_total{environment="none",code="malformed_request"} 1',
    );
  });

  test('is answered behind the answers to the whole requests before it', async () => {
    const { sidecar } = await start();
    const client = await openConnection(sidecar.port);
    client.send(`${valid}${valid}no request at all\r\n\r\n`);
    const answers = parseAnswers(await client.untilEnded());
    expect(answers.map(({ status }) => status)).toEqual([200, 200, 400]);
    expect(client.ending).toBe('end');
    expectRefusal(answers[2] as RawAnswer, 'malformed_request');
  });

  test('closes the connection although the client keeps it open', async () => {
    const { sidecar } = await start();
    const client = await openConnection(sidecar.port);
    client.send('no request at all\r\n\r\n');
    await client.untilEnded();
    // The client has not ended its side; the sidecar does not wait for that for long.
    await untilGone(client);
  });
});

describe('a client that leaves', () => {
  test.each([
    ['before it has said anything', ''],
    ['in a head', 'GET / HTTP/1.1\r\nHost: local'],
    ['between two requests', valid],
    ['after CONNECT', 'CONNECT localhost:443 HTTP/1.1\r\nHost: localhost\r\n\r\n'],
  ])('by a reset %s does no harm and is no malformed request', async (_name, bytes) => {
    const { sidecar } = await start();
    for (let i = 0; i < 5; i += 1) {
      const client = await openConnection(sidecar.port);
      client.send(bytes);
      if (bytes.endsWith('\r\n\r\n')) await client.untilText('}');
      client.socket.resetAndDestroy();
    }
    const client = await openConnection(sidecar.port);
    client.send(valid);
    await client.untilText('{"ok":true}');
    expect(sidecar.accessLines().map(({ code }) => code)).not.toContain('malformed_request');
  });
});

describe('the size of a head', () => {
  const limit = 2_000;
  // Node counts the target and the headers' names and values, not what stands between them.
  const counted = '/'.length + `Hostlocalhost`.length + authorization.replace(': ', '').length + 'X'.length;

  test('may be just below the limit', async () => {
    const { sidecar } = await start({ header: limit });
    const client = await openConnection(sidecar.port);
    client.send(request('GET / HTTP/1.1', 'Host: localhost', authorization, `X: ${'x'.repeat(limit - 1 - counted)}`));
    expect(await client.untilText('{"ok":true}')).toContain('200 OK');
  });

  test.each([
    ['a header', request('GET / HTTP/1.1', 'Host: localhost', authorization, `X: ${'x'.repeat(limit - counted)}`)],
    ['the target', request(`GET /${'x'.repeat(limit)} HTTP/1.1`, 'Host: localhost', authorization)],
    [
      'many headers',
      request('GET / HTTP/1.1', 'Host: localhost', ...Array.from({ length: 500 }, (_, i) => `X-${i}: y`)),
    ],
    ['a head without an end', `GET / HTTP/1.1\r\nX: ${'x'.repeat(200_000)}`],
  ])('is refused at the limit: %s', async (_name, bytes) => {
    const { upstream, sidecar } = await start({ header: limit });
    await expectOnlyRefused(sidecar, upstream, bytes, 'headers_too_large');
  });

  test('is limited for trailers as well', async () => {
    const { upstream, sidecar } = await start({ header: limit });
    const client = await openConnection(sidecar.port);
    client.send(
      request('POST / HTTP/1.1', 'Host: localhost', authorization, 'Transfer-Encoding: chunked') +
        `2\r\nab\r\n0\r\nX: ${'x'.repeat(limit)}\r\n\r\n`,
    );
    const answer = parseOnly(await client.untilText('}'));
    expect(JSON.parse(answer.body)).toMatchObject({ code: 'headers_too_large' });
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

  test('does not keep its connection, although the client keeps it open', async () => {
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
    const [first, second] = parseAnswers(await client.untilEnded());
    expect(first?.status).toBe(200);
    expectRefusal(second as RawAnswer, 'request_timeout');
  });

  test('is refused although a byte comes now and then', async () => {
    const { sidecar } = await start({}, { header: 200 });
    const client = await openConnection(sidecar.port);
    client.send('GET / HTTP/1.1\r\nX: ');
    const drip = setInterval(() => client.send('x'), 20);
    expectRefusal(parseOnly(await client.untilText('}')), 'request_timeout');
    clearInterval(drip);
  });
});

describe('pipelined requests', () => {
  test('are answered in order, and reach the upstream one after the other', async () => {
    let active = 0;
    let most = 0;
    const upstream = await startUpstream((seen, res) => {
      active += 1;
      most = Math.max(most, active);
      // The earlier, the slower.
      setTimeout(
        () => {
          active -= 1;
          res.end(seen.url);
        },
        60 - 5 * Number(seen.url.slice(1)),
      );
    });
    const sidecar = await startSidecar(configOf(upstream.origin));
    const client = await openConnection(sidecar.port);
    const paths = Array.from({ length: 12 }, (_, i) => `/${i}`);
    const head = (path: string): string => request(`GET ${path} HTTP/1.1`, 'Host: localhost', authorization);
    client.send(paths.map(head).join(''));
    await client.until((received) => received.includes('/11', received.lastIndexOf('\r\n\r\n')));
    expect(parseAnswers(client.received).map(({ body }) => body)).toEqual(paths);
    expect(upstream.seen.map(({ url }) => url)).toEqual(paths);
    expect(most).toBe(1);
  });

  test('keep their bodies apart', async () => {
    const upstream = await startUpstream((seen, res) => void res.end(`${seen.method} ${seen.body}`));
    const sidecar = await startSidecar(configOf(upstream.origin));
    const client = await openConnection(sidecar.port);
    client.send(
      `${request('POST /1 HTTP/1.1', 'Host: localhost', authorization, 'Content-Length: 3')}one` +
        `${request('PUT /2 HTTP/1.1', 'Host: localhost', authorization, 'Transfer-Encoding: chunked')}3\r\ntwo\r\n0\r\n\r\n` +
        `${request('POST /3 HTTP/1.1', 'Host: localhost', authorization, 'Content-Length: 5', 'Connection: close')}three`,
    );
    const answers = parseAnswers(await client.untilEnded());
    expect(answers.map(({ body }) => body)).toEqual(['POST one', 'PUT two', 'POST three']);
  });

  test('leave nothing behind on the connection, and no warning, however many they are', async () => {
    const { sidecar } = await start();
    const warnings: string[] = [];
    const onWarning = (warning: Error): void => void warnings.push(String(warning));
    process.on('warning', onWarning);
    const client = await openConnection(sidecar.port);
    client.send(valid.repeat(100));
    await client.untilText('{"ok":true}', 100);
    process.off('warning', onWarning);
    expect(warnings).toEqual([]);
    expect(sidecar.accessLines()).toHaveLength(100);
  });

  test('behind one that asks to close are not served', async () => {
    const { upstream, sidecar } = await start();
    const client = await openConnection(sidecar.port);
    client.send(request('GET /last HTTP/1.1', 'Host: localhost', authorization, 'Connection: close') + valid);
    expect(parseOnly(await client.untilEnded()).status).toBe(200);
    expect(upstream.seen.map(({ url }) => url)).toEqual(['/last']);
    expect(await inFlight(sidecar)).toBe(0);
  });

  test('that wait are not in flight, so that one connection cannot use up the limit', async () => {
    const upstream = await startUpstream((seen, res) => void (seen.url === '/other' && res.end('other')));
    const sidecar = await startSidecar(configOf(upstream.origin, { limits: { inFlight: 2 } }));
    const client = await openConnection(sidecar.port);
    client.send(valid.repeat(50));
    await vi.waitFor(async () => expect(await inFlight(sidecar)).toBe(1));
    const other = await openConnection(sidecar.port);
    other.send(request('GET /other HTTP/1.1', 'Host: localhost', authorization));
    expect(parseOnly(await other.untilText('other')).status).toBe(200);
    client.socket.destroy();
    await vi.waitFor(async () => expect(await inFlight(sidecar)).toBe(0));
    expect(upstream.heads()).toBe(2);
  });

  test('are 101 at most on one connection: with one more it ends', async () => {
    const upstream = await startUpstream(() => {});
    const sidecar = await startSidecar(configOf(upstream.origin));
    const bearable = await openConnection(sidecar.port);
    bearable.send(valid.repeat(101));
    const greedy = await openConnection(sidecar.port);
    greedy.send(valid.repeat(102));
    expect(await greedy.untilEnded()).toBe('');
    expect(await inFlight(sidecar)).toBe(1);
    bearable.socket.destroy();
  });

  test('with CONNECT behind them, and then a reset, harm nobody', async () => {
    const upstream = await startUpstream(() => {});
    const sidecar = await startSidecar(configOf(upstream.origin));
    for (let i = 0; i < 20; i += 1) {
      const client = await openConnection(sidecar.port);
      client.send(`${valid}CONNECT x:1 HTTP/1.1\r\nHost: localhost\r\n\r\n`);
      await vi.waitFor(async () => expect(await inFlight(sidecar)).toBeGreaterThan(0));
      client.socket.resetAndDestroy();
    }
    await vi.waitFor(async () => expect(await inFlight(sidecar)).toBe(0));
  });

  test('with garbage dripping behind them add no listeners', async () => {
    const upstream = await startUpstream(() => {});
    const sidecar = await startSidecar(configOf(upstream.origin));
    const warnings: string[] = [];
    const onWarning = (warning: Error): void => void warnings.push(String(warning));
    process.on('warning', onWarning);
    const client = await openConnection(sidecar.port);
    client.send(valid);
    await vi.waitFor(() => expect(upstream.heads()).toBe(1));
    for (let i = 0; i < 20; i += 1) {
      client.send('\x01garbage\r\n');
      await new Promise((resolve) => void setTimeout(resolve, 5));
    }
    process.off('warning', onWarning);
    expect(warnings).toEqual([]);
    client.socket.destroy();
  });
});

/** Waits until nobody is at the other end any more: what is sent comes back as a reset. */
async function untilGone(client: Connection): Promise<void> {
  const drip = setInterval(() => client.send('x'), 50);
  await new Promise((resolve) => void client.socket.once('close', resolve));
  clearInterval(drip);
}

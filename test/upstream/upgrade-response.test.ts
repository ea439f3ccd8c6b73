import { describe, expect, test, vi } from 'vitest';
import { startByteUpstream } from '../support/byte-upstream.ts';
import { openConnection, parseOnly } from '../support/connection.ts';
import { eventually } from '../support/eventually.ts';
import { inFlight } from '../support/metrics.ts';
import { authorization, request } from '../support/refused.ts';
import { configOf, route, startSidecar } from '../support/sidecar.ts';
import { settle } from '../support/turns.ts';

const routes = [route('/ws/*', { upgrade: true })];
const upgrade = ['Connection: Upgrade', 'Upgrade: websocket', 'Sec-WebSocket-Version: 13'];
const ok = 'HTTP/1.1 200 OK\r\n';
const sized = `${ok}Content-Length: 2\r\n`;
const chunked = `${ok}Transfer-Encoding: chunked\r\n`;

/** Starts a sidecar in front of an upstream that responds to each request with these pieces and then closes the connection. */
async function startSending(pieces: readonly string[]) {
  const upstream = await startByteUpstream(({ socket }) => {
    socket.setNoDelay(true);
    const send = (at: number): void => {
      if (at === pieces.length) socket.end();
      else socket.write(Buffer.from(pieces[at] ?? '', 'latin1'), () => void settle().then(() => send(at + 1)));
    };
    send(0);
  });
  return { upstream, sidecar: await startSidecar(configOf(upstream.origin, { routes })) };
}

/** A response as the client and the log get it, without the parts that differ for each request. */
interface Outcome {
  readonly received: string;
  readonly logged: readonly Record<string, unknown>[];
}

/** The outcome of an ordinary request and that of a handshake to an upstream that sends these pieces. */
async function outcomes(
  ...pieces: readonly string[]
): Promise<{ readonly ordinary: Outcome; readonly handshake: Outcome }> {
  const { upstream, sidecar } = await startSending(pieces);
  const outcome = async (...headers: readonly string[]): Promise<Outcome> => {
    const before = sidecar.accessLines().length;
    const client = await openConnection(sidecar.port);
    client.send(request('GET /ws/feed HTTP/1.1', 'Host: localhost', authorization, 'X-Request-Id: one', ...headers));
    const received = (await client.untilEnded()).replace(/\r\nDate: [^\r]*/, '');
    await vi.waitFor(() => expect(sidecar.accessLines()).toHaveLength(before + 1));
    const logged = sidecar.accessLines().slice(before);
    return { received, logged: logged.map(({ status, code, upstream_error: error }) => ({ status, code, error })) };
  };
  const ordinary = await outcome('Connection: close');
  const handshake = await outcome(...upgrade);
  await vi.waitFor(() => expect(upstream.connections.map(({ closed }) => closed)).toEqual([true, true]));
  expect(await inFlight(sidecar)).toBe(0);
  return { ordinary, handshake };
}

describe('a response other than 101 to a handshake is read as strictly as any other', () => {
  test.each([
    ['without a length', `${ok}\r\n{"amount": 12`, 'NO_LENGTH'],
    ['without a length, that closes', `${ok}Connection: close\r\n\r\n{"amount": 12`, 'NO_LENGTH'],
    ['of HTTP/1.0 without a length', 'HTTP/1.0 200 OK\r\n\r\nhalf', 'NO_LENGTH'],
    ['of HTTP/1.0 in chunks', 'HTTP/1.0 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n', 'BAD_LENGTH'],
    ['with another coding', `${ok}Transfer-Encoding: gzip\r\n\r\nhalf`, 'BAD_LENGTH'],
    ['with two codings', `${ok}Transfer-Encoding: gzip, chunked\r\n\r\n0\r\n\r\n`, 'BAD_LENGTH'],
    ['with codings on two lines', `${chunked}Transfer-Encoding: chunked\r\n\r\n0\r\n\r\n`, 'BAD_LENGTH'],
    ['with a length and chunks', `${chunked}Content-Length: 5\r\n\r\n0\r\n\r\n`, 'BAD_LENGTH'],
    ['with two lengths', `${sized}Content-Length: 2\r\n\r\n{}`, 'BAD_LENGTH'],
    ['with a list of lengths', `${ok}Content-Length: 2, 2\r\n\r\n{}`, 'BAD_LENGTH'],
    ['with a signed length', `${ok}Content-Length: +2\r\n\r\n{}`, 'BAD_LENGTH'],
    ['with a folded header', `${sized}X: a\r\n b\r\n\r\n{}`, 'BAD_HEAD'],
    ['with bare line feeds', 'HTTP/1.1 200 OK\nContent-Length: 2\n\n{}', 'BAD_HEAD'],
    ['with a space before the colon', `${ok}Content-Length : 2\r\n\r\n{}`, 'BAD_HEAD'],
    ['with a control character', `${sized}X: \x01\r\n\r\n{}`, 'BAD_HEAD'],
    ['with a head of over 32 KiB', `${sized}X: ${'x'.repeat(32_768)}\r\n\r\n{}`, 'HEAD_TOO_LARGE'],
    ['that breaks off in its head', `${ok}Content-Le`, undefined],
  ])('%s: the response is 502', async (_name, bytes, error) => {
    const { ordinary, handshake } = await outcomes(bytes);
    expect(handshake.received).toBe(ordinary.received);
    expect(parseOnly(handshake.received).status).toBe(502);
    const line = { status: 502, code: 'upstream_unavailable' };
    expect(handshake.logged).toEqual([{ ...line, error: error ?? expect.any(String) }]);
  });

  test.each([
    ['of its stated length', `${ok}Content-Length: 10\r\n\r\nabc`],
    ['in a chunk', `${chunked}\r\n5\r\nabc`],
    ['after a chunk', `${chunked}\r\n3\r\nabc\r\n`],
    ['in its trailers', `${chunked}\r\n3\r\nabc\r\n0\r\nX: a\r\n`],
    ['by a bad chunk', `${chunked}\r\n3\r\nabc\r\nZZ\r\n`],
    ['by a chunk without an end', `${chunked}\r\n3\r\nabcd\r\n0\r\n\r\n`],
  ])('a body that breaks off %s breaks the response off', async (_name, bytes) => {
    const { ordinary, handshake } = await outcomes(bytes);
    // A part of the response that has arrived together with the fault may be lost.
    expect(ordinary.received.startsWith(handshake.received)).toBe(true);
    expect(() => parseOnly(handshake.received)).toThrow(/not a whole|^0 responses/);
    expect(handshake.logged).toMatchObject([{ status: 200, error: expect.any(String) }]);
  });

  test.each([
    ['a length', `${sized}\r\n{}`],
    ['a length, and bytes after it', `${sized}\r\n{}HTTP/1.1 200 OK\r\n`],
    ['chunks and trailers', `${chunked}\r\n2;a=b\r\n{}\r\n0\r\nX: a\r\n\r\n`],
    ['no body', 'HTTP/1.1 204 No Content\r\n\r\n'],
    ['no body, and bytes after it', 'HTTP/1.1 304 Not Modified\r\n\r\nHTTP/1.1 101 Switching Protocols\r\n'],
    ['a head of almost 32 KiB', `${sized}X: ${'x'.repeat(32_600)}`, '\r\n\r\n{}'],
  ])('%s: the response is forwarded', async (_name, bytes, rest = '') => {
    const { ordinary, handshake } = await outcomes(bytes, rest);
    expect(handshake.received).toBe(ordinary.received);
    expect(parseOnly(handshake.received).status).toBe(Number(bytes.slice(9, 12)));
  });

  test('a large body waits for a client that reads slowly', async () => {
    const piece = `10000\r\n${'x'.repeat(65_536)}\r\n`;
    let sent = 0;
    let isEnough = false;
    // The response ends only after the test has seen it wait, because the kernel may hold more than any length chosen in advance.
    const upstream = await startByteUpstream(({ socket }) => {
      socket.write('HTTP/1.1 403 No\r\nTransfer-Encoding: chunked\r\n\r\n');
      const send = (): void => {
        if (isEnough) {
          socket.end('0\r\n\r\n');
          return;
        }
        sent += 1;
        socket.write(piece, () => void settle().then(send));
      };
      send();
    });
    const sidecar = await startSidecar(configOf(upstream.origin, { routes, timeouts: { idle: 30_000 } }));
    const client = await openConnection(sidecar.port);
    client.socket.pause();
    client.send(request('GET /ws/feed HTTP/1.1', 'Host: localhost', authorization, ...upgrade));
    // On a busy machine, a single check could mistake a pause of the process for waiting.
    const looks: number[] = [];
    await eventually(
      'the upstream has sent nothing for four checks',
      () => {
        looks.unshift(sent);
        return sent > 1 && looks[3] === sent;
      },
      { interval: 150, timeout: 20_000 },
    );
    isEnough = true;
    client.socket.resume();
    const response = parseOnly(await client.untilEnded());
    expect(response.status).toBe(403);
    expect(response.body === 'x'.repeat(65_536 * sent)).toBe(true);
  });
});

describe('a 101', () => {
  const nominated = 'Connection: Upgrade\r\n';
  test.each([
    ['to another protocol', `HTTP/1.1 101 Switching\r\n${nominated}Upgrade: h2c\r\n\r\nbytes`],
    ['to two protocols', `HTTP/1.1 101 Switching\r\n${nominated}Upgrade: websocket, h2c\r\n\r\nbytes`],
    [
      'to two protocols on two lines',
      `HTTP/1.1 101 S\r\n${nominated}Upgrade: websocket\r\nUpgrade: websocket\r\n\r\nbytes`,
    ],
    ['to no protocol', `HTTP/1.1 101 Switching\r\n${nominated}\r\nbytes`],
    ['without Connection', 'HTTP/1.1 101 Switching\r\nUpgrade: websocket\r\n\r\nbytes'],
    ['of HTTP/1.0', `HTTP/1.0 101 Switching\r\n${nominated}Upgrade: websocket\r\n\r\nbytes`],
    ['with bare line feeds', `HTTP/1.1 101 Switching\n${nominated}Upgrade: websocket\n\nbytes`],
    ['with a folded header', `HTTP/1.1 101 Switching\r\n${nominated}Upgrade: websocket\r\n x\r\n\r\nbytes`],
  ])('%s is refused', async (_name, bytes) => {
    const { ordinary, handshake } = await outcomes(bytes);
    expect(handshake).toEqual(ordinary);
    expect(parseOnly(handshake.received).status).toBe(502);
  });

  test('is accepted in any letter case and in small pieces, and the bytes after it are forwarded', async () => {
    const pieces = [
      ...'HTTP/1.1 101 S\r\nCONNECTION: keep-alive , UPGRADE\r\nupgrade: WebSocket\r\n\r'.split(''),
      '\nbytes',
      ' more',
    ];
    const { sidecar } = await startSending(['HTTP/1.1 103 Early Hints\r\n\r\n', ...pieces]);
    const client = await openConnection(sidecar.port);
    client.send(request('GET /ws/feed HTTP/1.1', 'Host: localhost', authorization, ...upgrade));
    const received = await client.untilEnded();
    expect(received).toMatch(/^HTTP\/1\.1 101 /);
    expect(received.endsWith('\r\n\r\nbytes more')).toBe(true);
  });

  test('may repeat a field thousands of times, and all of them reach the client in their order', async () => {
    const values = Array.from({ length: 2_000 }, (_, i) => `${i}`);
    const fields = values.map((value) => `X: ${value}\r\n`).join('');
    const { sidecar } = await startSending([
      `HTTP/1.1 101 S\r\nConnection: Upgrade\r\n${fields}Upgrade: websocket\r\n\r\n`,
    ]);
    const client = await openConnection(sidecar.port);
    client.send(request('GET /ws/feed HTTP/1.1', 'Host: localhost', authorization, ...upgrade));
    const received = await client.untilEnded();
    expect([...received.matchAll(/^x: (.*)\r$/gim)].map(([, value]) => value)).toEqual(values);
  });
});

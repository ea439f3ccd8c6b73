import { subscribe, unsubscribe } from 'node:diagnostics_channel';
import { connect as connectPlain } from 'node:net';
import { setTimeout as sleep } from 'node:timers/promises';
import { connect as connectTls } from 'node:tls';
import { describe, expect, onTestFinished, test, vi } from 'vitest';
import { createAuthority } from '../support/certificates.ts';
import { openConnection, parseResponses, parseOnly } from '../support/connection.ts';
import { inFlight, limitUsed } from '../support/metrics.ts';
import { authorization, request, start, valid } from '../support/refused.ts';
import { admin, configOf, keys, operatorsOf, route, startSidecar, type TestSidecar } from '../support/sidecar.ts';
import { startUpstream } from '../support/upstream.ts';
import { settle, turnsOfResponses } from '../support/turns.ts';

describe('pipelined requests', () => {
  test('get their responses in order, and reach the upstream one after another', async () => {
    let active = 0;
    let most = 0;
    const upstream = await startUpstream((seen, res) => {
      active += 1;
      most = Math.max(most, active);
      // Make earlier requests take longer.
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
    expect(parseResponses(client.received).map(({ body }) => body)).toEqual(paths);
    expect(upstream.seen.map(({ url }) => url)).toEqual(paths);
    expect(most).toBe(1);
  });

  test.each([
    ['many', 80, 0],
    ['large', 1, 7_000],
  ])('are served in bursts that are %s, one after another', async (_name, times, size) => {
    const upstream = await startUpstream();
    const sidecar = await startSidecar(configOf(upstream.origin, { limits: { header: 16_384 } }));
    const client = await openConnection(sidecar.port);
    const head = request('GET / HTTP/1.1', 'Host: localhost', authorization, `X: ${'x'.repeat(size)}`);
    for (let round = 1; round <= 3; round += 1) {
      client.send(head.repeat(times + 1));
      await client.untilText('{"ok":true}', round * (times + 1));
    }
    expect(upstream.heads()).toBe(3 * (times + 1));
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
    const responses = parseResponses(await client.untilEnded());
    expect(responses.map(({ body }) => body)).toEqual(['POST one', 'PUT two', 'POST three']);
  });

  test('leave no listeners on the connection, however many they are', async () => {
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

  test('are not served after a request with Connection: close', async () => {
    const { upstream, sidecar } = await start();
    const client = await openConnection(sidecar.port);
    client.send(request('GET /last HTTP/1.1', 'Host: localhost', authorization, 'Connection: close') + valid);
    expect(parseOnly(await client.untilEnded()).status).toBe(200);
    expect(upstream.seen.map(({ url }) => url)).toEqual(['/last']);
    expect(await inFlight(sidecar)).toBe(0);
  });

  test('are not in flight while they wait, so that one connection cannot take all slots', async () => {
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

  test.each([
    ['with a secret key', ['GET', authorization]],
    ['with a public key', ['GET', `Authorization: Bearer ${keys.globexPublic}`]],
    ['without a key', ['OPTIONS', 'Origin: https://shop.example', 'Access-Control-Request-Method: GET']],
  ] as const)(
    '%s are held up to 16 KiB and one read, in any number, and all are served',
    async (_, [method, ...fields]) => {
      let respond = (): void => {};
      const upstream = await startUpstream((_seen, res) => {
        if (upstream.heads() > 1) res.end();
        else respond = () => void res.end();
      });
      const sidecar = await startSidecar(configOf(upstream.origin, { routes: [route('/x', { keys: ['public'] })] }));
      const client = await openConnection(sidecar.port);
      const times = 2_000;
      client.send(request(`${method} /x HTTP/1.1`, 'Host: localhost', ...fields).repeat(times));
      await vi.waitFor(() => expect(upstream.heads()).toBe(1));
      await settle();
      const held = await limitUsed(sidecar, 'buffered');
      expect(held).toBeGreaterThanOrEqual(16_384);
      expect(held).toBeLessThan(16_384 + 65_536);
      expect(await inFlight(sidecar)).toBe(1);
      respond();
      await client.untilText('HTTP/1.1 200', times);
      expect(upstream.heads()).toBe(times);
      await vi.waitFor(async () => expect(await limitUsed(sidecar, 'buffered')).toBe(0));
    },
  );

  test.each([
    ['CONNECT', ''],
    ['CONNECT and a part of its body', 'Content-Length: 5\r\n'],
  ])('followed by %s and a reset leave nothing in flight', async (_name, framing) => {
    const upstream = await startUpstream(() => {});
    const sidecar = await startSidecar(configOf(upstream.origin));
    for (let i = 0; i < 20; i += 1) {
      const client = await openConnection(sidecar.port);
      client.send(`${valid}CONNECT x:1 HTTP/1.1\r\nHost: localhost\r\n${framing}\r\n`);
      await vi.waitFor(async () => expect(await inFlight(sidecar)).toBeGreaterThan(0));
      client.socket.resetAndDestroy();
    }
    await vi.waitFor(async () => expect(await inFlight(sidecar)).toBe(0));
  });

  test('followed by trickling garbage leave no listeners', async () => {
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
      await sleep(5);
    }
    process.off('warning', onWarning);
    expect(warnings).toEqual([]);
    client.socket.destroy();
  });
});

test('at most eight pipelined requests of all connections together begin in a turn of the event loop', async () => {
  const { sidecar } = await start();
  const clients = await Promise.all(Array.from({ length: 40 }, () => openConnection(sidecar.port)));
  const turns = turnsOfResponses();
  for (const client of clients) client.send(request('GET / HTTP/1.1', 'Host: localhost').repeat(11));
  await Promise.all(clients.map((client) => client.untilText('missing_api_key', 11)));
  expect(turns).toHaveLength(40 * 11);
  expect(new Set(turns).size).toBeGreaterThanOrEqual((40 * 10) / 8);
});

/** The operators' and the admin listener use Node's parser, and answer one request of a connection at a time. */
describe('the bytes that were read on a closing connection', () => {
  /** The number of requests that Node parses if 1,000 are sent in one piece. */
  async function requestsOf(port: number, tls: boolean): Promise<number> {
    let requests = 0;
    const count = (): void => void (requests += 1);
    subscribe('http.server.request.start', count);
    onTestFinished(() => void unsubscribe('http.server.request.start', count));
    const at = { host: '127.0.0.1', port };
    const socket = tls ? connectTls({ ...at, rejectUnauthorized: false }) : connectPlain(at);
    onTestFinished(() => void socket.destroy());
    const closed = new Promise((resolve) => void socket.on('error', () => {}).once('close', resolve));
    socket.resume().write('GET / HTTP/1.1\r\nHost: localhost\r\n\r\n'.repeat(1_000));
    await closed;
    return requests;
  }

  test.each([
    ['admin', false],
    ['operators', false],
    ['operators', true],
  ] as const)('are not parsed: of 1,000 requests to the %s listener (TLS: %s), two are', async (name, isTls) => {
    const own = createAuthority().issue('IP:127.0.0.1');
    const tls = isTls ? { ...own, clientCa: undefined } : undefined;
    const upstream = await startUpstream();
    const sidecar = await startSidecar(
      configOf(upstream.origin, {
        operators: operatorsOf([admin('ana', 'token-of-ana-token-of-ana-token-of')], { tls }),
      }),
    );
    expect(await requestsOf(sidecar.app.addresses[name]?.port ?? 0, isTls)).toBe(2);
  });
});

describe('a pipelined request that waits', () => {
  const post = (length: number): string =>
    request('POST /echo HTTP/1.1', 'Host: localhost', authorization, `Content-Length: ${length}`);
  const cors = ['Origin: https://shop.example', 'Access-Control-Request-Method: GET'];
  const preflight = request('OPTIONS /slow HTTP/1.1', 'Host: localhost', ...cors);
  const manyFields = request('GET / HTTP/1.1', 'Host: localhost', ...Array.from({ length: 90 }, (_, i) => `f${i}: v`));

  /** Starts a sidecar whose upstream does not respond to preflights. Requests without a key get an eighth of `buffered`. */
  async function startSlow(buffered: number): Promise<TestSidecar> {
    const upstream = await startUpstream(() => {});
    const limits = { buffered, requestBody: 500 };
    return startSidecar(
      configOf(upstream.origin, { limits, routes: [route('/slow', { keys: ['public'], methods: ['GET'] })] }),
    );
  }

  test('is charged for what has arrived of it, 16 KiB and one read at most, until its turn', async () => {
    let respond = (): void => {};
    const upstream = await startUpstream((seen, res) => {
      if (seen.url === '/slow') respond = () => void res.end('slow');
      else res.end(String(seen.body.length));
    });
    const sidecar = await startSidecar(configOf(upstream.origin));
    const client = await openConnection(sidecar.port);
    const slow = request('GET /slow HTTP/1.1', 'Host: localhost', authorization);
    client.send(slow + post(200_000) + 'x'.repeat(200_000));
    await vi.waitFor(() => expect(upstream.heads()).toBe(1));
    await settle();
    const held = await limitUsed(sidecar, 'buffered');
    expect(held).toBeGreaterThanOrEqual(16_384);
    expect(held).toBeLessThan(16_384 + 65_536);
    respond();
    await client.untilText('200000');
    await vi.waitFor(async () => expect(await limitUsed(sidecar, 'buffered')).toBe(0));
  });

  test.each([
    ['body', post(12_000) + 'x'.repeat(12_000)],
    ['fields', manyFields],
  ])('closes its connection if there is no room for its %s; a connection’s end frees its bytes', async (_, waiting) => {
    const held = waiting.length;
    const sidecar = await startSlow(8 * (2 * held - 1));
    const first = (await openConnection(sidecar.port)).send(preflight + waiting);
    await vi.waitFor(async () => expect(await limitUsed(sidecar, 'buffered')).toBe(held));
    await (await openConnection(sidecar.port)).send(preflight + waiting).untilEnded();
    expect(first.ending).toBe('open');
    expect(await limitUsed(sidecar, 'buffered')).toBe(held);
    first.socket.destroy();
    await vi.waitFor(async () => expect(await limitUsed(sidecar, 'buffered')).toBe(0));
  });

  test('is held if the budget has just the room for it', async () => {
    const sidecar = await startSlow(8 * 2 * manyFields.length);
    const clients = await Promise.all([openConnection(sidecar.port), openConnection(sidecar.port)]);
    for (const client of clients) client.send(preflight + manyFields);
    await vi.waitFor(async () => expect(await limitUsed(sidecar, 'buffered')).toBe(2 * manyFields.length));
    expect(clients.map(({ ending }) => ending)).toEqual(['open', 'open']);
  });

  test('of a merchant has room if those of clients without a key fill their part of the budget', async () => {
    const sidecar = await startSlow(8 * manyFields.length);
    (await openConnection(sidecar.port)).send(preflight + manyFields);
    await vi.waitFor(async () => expect(await limitUsed(sidecar, 'buffered')).toBe(manyFields.length));
    const merchant = await openConnection(sidecar.port);
    const refused = request('PUT /slow HTTP/1.1', 'Host: localhost', authorization);
    await merchant.send(refused.repeat(3)).untilText('method_not_allowed', 3);
  });
});

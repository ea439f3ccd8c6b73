import { describe, expect, onTestFinished, test, vi } from 'vitest';
import { PieceBuffers } from '../../src/http1/piece-buffers.ts';
import { createAuthority } from '../support/certificates.ts';
import { openConnection } from '../support/connection.ts';
import { eventually } from '../support/eventually.ts';
import { openRaw13 } from '../support/key-updates.ts';
import { inFlight, limitUsed, scrape } from '../support/metrics.ts';
import { authorization, post, request, valid } from '../support/refused.ts';
import { configOf, keys, startSidecar, type TestSidecar } from '../support/sidecar.ts';
import { startUpstream } from '../support/upstream.ts';

/** A sidecar whose upstream never responds to `/never`, and sends only half of a body in response to `/half`. */
async function start(more: Parameters<typeof configOf>[1] = {}): Promise<TestSidecar> {
  const upstream = await startUpstream((seen, res) => {
    if (seen.url === '/never') return;
    if (seen.url === '/half') res.writeHead(200, { 'Content-Length': 4 }).write('ab');
    else if (seen.url === '/large') res.end(Buffer.alloc(32 << 20));
    else res.end('{"ok":true}');
  });
  return startSidecar(configOf(upstream.origin, more));
}

const get = (path: string): string => request(`GET ${path} HTTP/1.1`, 'Host: localhost', authorization);

/** The number of connections closed for each reason, according to the metric. */
async function closed(sidecar: TestSidecar): Promise<Record<string, number>> {
  const samples = (await scrape(sidecar)).matchAll(
    /^envelope_sidecar_connections_closed_total\{reason="(\w+)"\} (\d+)$/gm,
  );
  return Object.fromEntries(
    [...samples].map(([, reason, count]) => [reason ?? '', Number(count)] as const).filter(([, n]) => n > 0),
  );
}

/** Expects that one connection was closed, for this reason alone, and that the log says so. */
async function expectClosed(sidecar: TestSidecar, reason: string): Promise<void> {
  await vi.waitFor(async () => expect(await closed(sidecar)).toEqual({ [reason]: 1 }));
  await vi.waitFor(
    () =>
      expect(sidecar.log.filter(({ msg }) => msg === 'connections closed')).toMatchObject([{ reason, connections: 1 }]),
    3_000,
  );
}

describe('a connection that the sidecar closes is counted and logged with its reason, and its request is never logged as one that its client left', () => {
  test('because its client replaces the keys of TLS again and again', async () => {
    const { cert, key } = createAuthority().issue('DNS:localhost');
    const tls = { cert, key, clientCa: undefined };
    const sidecar = await start({ listen: { host: '127.0.0.1', port: 0, tls } });
    const client = await openRaw13(sidecar.port);
    client.replaceKeys(1_000);
    await eventually('the connection is closed', () => client.socket.destroyed);
    await expectClosed(sidecar, 'limit');
  });

  test('because there is no room for its pipelined requests', async () => {
    const sidecar = await start({ limits: { buffered: 4_000, requestBody: 1_000 } });
    const client = await openConnection(sidecar.port);
    client.send(get('/never').repeat(150));
    await client.untilEnded();
    await expectClosed(sidecar, 'pipeline');
    expect(await limitUsed(sidecar, 'buffered')).toBe(0);
    expect(sidecar.accessLines()).toMatchObject([{ status: 444, closed: 'pipeline', account: 'globex' }]);
  });

  test('to make room for a new one, while it sends a body', async () => {
    const sidecar = await start({ limits: { connections: 1 }, routes: [] });
    const client = await openConnection(sidecar.port);
    client.send(request('GET / HTTP/1.1', 'Host: localhost'));
    await client.untilText('missing_api_key');
    await openConnection(sidecar.port);
    await client.untilEnded();
    await expectClosed(sidecar, 'limit');
    expect(sidecar.accessLines().map(({ status }) => status)).toEqual([401]);
  });

  test('although it is new, because all others have carried a known key', async () => {
    const sidecar = await start({ limits: { connections: 1 } });
    const known = await openConnection(sidecar.port);
    await known.send(valid).untilText('{"ok":true}');
    const second = await openConnection(sidecar.port);
    await second.untilEnded();
    await expectClosed(sidecar, 'limit');
  });

  test('because the account of its key has no room for it', async () => {
    const sidecar = await start({ limits: { connections: 20, account: 0.05 } });
    const first = await openConnection(sidecar.port);
    await first.send(valid).untilText('{"ok":true}');
    const second = await openConnection(sidecar.port);
    await second.send(valid).untilEnded();
    expect(second.received).toContain('overloaded');
    await expectClosed(sidecar, 'limit');
  });

  test('with a request in progress, to make room', async () => {
    const sidecar = await start({ limits: { connections: 1 } });
    const client = await openConnection(sidecar.port);
    const test = request(
      'POST /api/s2s/aes-encrypt HTTP/1.1',
      'Host: localhost',
      `key: ${'k'.repeat(32)}`,
      `iv: ${'i'.repeat(16)}`,
      'Content-Length: 10',
    );
    client.send(`${test}half`);
    await vi.waitFor(async () => expect(await inFlight(sidecar)).toBe(1));
    await openConnection(sidecar.port);
    await client.untilEnded();
    await expectClosed(sidecar, 'limit');
    expect(sidecar.accessLines()).toMatchObject([{ status: 444, closed: 'limit' }]);
  });

  test.each([
    ['a head', 'GET / HTTP/1.1\r\nHost'],
    ['a body', `${post('Content-Length: 10')}half`],
    [
      'an enveloped body',
      request(
        'POST /api/s2s/x HTTP/1.1',
        'Host: localhost',
        `Authorization: Bearer ${keys.acme}`,
        'Content-Length: 10',
      ),
    ],
  ])('because %s takes too long', async (_name, bytes) => {
    const sidecar = await start({ timeouts: { header: 300, request: 300 } });
    const client = await openConnection(sidecar.port);
    client.send(bytes);
    const drip = setTimeout(() => client.socket.end(), 1_000);
    onTestFinished(() => clearTimeout(drip));
    expect(await client.untilEnded()).toContain('"code":"request_timeout"');
    await expectClosed(sidecar, 'timeout');
    expect(sidecar.accessLines()).toMatchObject([{ status: 408, code: 'request_timeout' }]);
  });

  test('because its client has stopped reading', async () => {
    const sidecar = await start({ timeouts: { idle: 300 } });
    const client = await openConnection(sidecar.port);
    client.socket.pause();
    client.send(get('/large'));
    await expectClosed(sidecar, 'timeout');
    client.socket.resume();
    await client.untilEnded();
    expect(sidecar.accessLines()).toMatchObject([{ status: 200, closed: 'timeout' }]);
  });

  test.each([
    ['bytes that are no request', 'no request\r\n\r\n'],
    ['a broken chunk', `${post('Transfer-Encoding: chunked')}zz\r\n`],
  ])('after %s', async (_name, bytes) => {
    const sidecar = await start();
    const client = await openConnection(sidecar.port);
    client.send(bytes);
    await client.untilText('"code":"malformed_request"');
    client.socket.end();
    await client.untilEnded();
    await expectClosed(sidecar, 'malformed');
  });

  test('because the core breaks its response off', async () => {
    const upstream = await startUpstream((_seen, res) => {
      res.writeHead(200, { 'Content-Length': 4 }).write('ab', () => void setTimeout(() => res.destroy(), 50));
    });
    const sidecar = await startSidecar(configOf(upstream.origin));
    const client = await openConnection(sidecar.port);
    await client.send(get('/x')).untilEnded();
    await expectClosed(sidecar, 'upstream');
    expect(sidecar.accessLines()).toMatchObject([{ status: 200, closed: 'upstream' }]);
  });

  test('because of an error in the sidecar itself, while a request arrives', async () => {
    const sidecar = await start();
    const client = await openConnection(sidecar.port);
    client.send(`${post('Content-Length: 10')}half`);
    await vi.waitFor(async () => expect(await inFlight(sidecar)).toBe(1));
    const copy = vi.spyOn(PieceBuffers.prototype, 'copy').mockImplementation(() => {
      throw new Error('a fault');
    });
    onTestFinished(() => copy.mockRestore());
    client.send('body');
    await client.untilEnded();
    await expectClosed(sidecar, 'error');
    expect(sidecar.accessLines()).toMatchObject([{ status: 444, closed: 'error' }]);
  });

  test('but a client that leaves is not counted', async () => {
    const sidecar = await start();
    const client = await openConnection(sidecar.port);
    client.send(get('/never'));
    await vi.waitFor(async () => expect(await inFlight(sidecar)).toBe(1));
    client.socket.destroy();
    await vi.waitFor(() => expect(sidecar.accessLines()).toMatchObject([{ status: 499 }]));
    expect(sidecar.accessLines()[0]).not.toHaveProperty('closed');
    expect(await closed(sidecar)).toEqual({});
  });
});

test('the log has one line a second for a flood of closed connections', async () => {
  const sidecar = await start({ limits: { connections: 1 } });
  const known = await openConnection(sidecar.port);
  await known.send(valid).untilText('{"ok":true}');
  const flood = await Promise.all(Array.from({ length: 50 }, () => openConnection(sidecar.port)));
  await Promise.all(flood.map((client) => client.untilEnded()));
  await vi.waitFor(async () => expect(await closed(sidecar)).toEqual({ limit: 50 }));
  const lines = (): Record<string, unknown>[] => sidecar.log.filter(({ msg }) => msg === 'connections closed');
  const sum = (): number => lines().reduce((total, { connections }) => total + Number(connections), 0);
  await vi.waitFor(() => expect(sum()).toBe(50), 3_000);
  expect(lines().length).toBeLessThan(10);
});

import { describe, expect, test, vi } from 'vitest';
import { openConnection, parseResponses, parseOnly } from '../support/connection.ts';
import { inFlight } from '../support/metrics.ts';
import { authorization, request, start, valid } from '../support/refused.ts';
import { configOf, startSidecar } from '../support/sidecar.ts';
import { startUpstream } from '../support/upstream.ts';

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
    expect(parseResponses(client.received).map(({ body }) => body)).toEqual(paths);
    expect(upstream.seen.map(({ url }) => url)).toEqual(paths);
    expect(most).toBe(1);
  });

  test.each([
    ['many', 80, 0],
    ['large', 1, 7_000],
  ])('that are %s may follow others that were answered', async (_name, times, size) => {
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

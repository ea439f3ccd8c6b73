import { request } from 'node:http';
import { networkInterfaces } from 'node:os';
import { describe, expect, onTestFinished, test, vi } from 'vitest';
import { send } from '../support/client.ts';
import { openConnection } from '../support/connection.ts';
import { inFlight, scrape } from '../support/metrics.ts';
import { configOf, drainToken, keys, route, startSidecar, type TestSidecar } from '../support/sidecar.ts';
import { turnsOfOtherResponses } from '../support/turns.ts';
import { startUpstream } from '../support/upstream.ts';

async function start(more: Parameters<typeof configOf>[1] = {}): Promise<TestSidecar> {
  return startSidecar(configOf((await startUpstream()).origin, more));
}

async function ask(sidecar: TestSidecar, line: string): Promise<readonly [number, string]> {
  const [method, path] = line.split(' ');
  const headers = path === '/drain' && method === 'POST' ? { Authorization: `Bearer ${drainToken}` } : {};
  const response = await send({ port: Number(new URL(sidecar.adminUrl).port) }, line, { headers });
  return [response.status, response.body];
}

describe('the admin listener', () => {
  test.each([
    ['GET /livez', 200, 'ok\n'],
    ['HEAD /livez', 200, ''],
    ['GET /livez?verbose', 200, 'ok\n'],
    ['GET /readyz', 200, 'ready\n'],
    ['HEAD /readyz', 200, ''],
    ['HEAD /metrics', 200, ''],
    ['GET /', 404, 'not found\n'],
    ['GET /api/v1/x', 404, 'not found\n'],
    ['GET /livez/', 404, 'not found\n'],
    ['POST /livez', 404, 'not found\n'],
    ['DELETE /metrics', 404, 'not found\n'],
    ['GET /drain', 404, 'not found\n'],
  ])('responds to %s with %d', async (line, status, body) => {
    const sidecar = await start();
    expect(await ask(sidecar, line)).toEqual([status, body]);
  });

  test('is ready whether or not the upstream is reachable', async () => {
    const sidecar = await startSidecar(configOf('http://127.0.0.1:9'));
    expect(await ask(sidecar, 'GET /readyz')).toEqual([200, 'ready\n']);
  });

  test('does not share its paths with the listener for merchants', async () => {
    const sidecar = await start();
    for (const line of ['GET /livez', 'GET /readyz', 'GET /metrics', 'POST /drain']) {
      expect((await send(sidecar, line)).status).toBe(401);
    }
    expect(await ask(sidecar, 'GET /readyz')).toEqual([200, 'ready\n']);
  });

  test('exposes metrics in the Prometheus text format', async () => {
    const sidecar = await start();
    await send(sidecar, 'GET /x', { key: keys.globex });
    const response = await fetch(`${sidecar.adminUrl}/metrics`);
    expect(response.headers.get('content-type')).toMatch(/^text\/plain; version=/);
    const metrics = await response.text();
    expect(metrics).toContain(
      'envelope_sidecar_requests_total{environment="test",route="unlisted",method="GET",status="200"} 1',
    );
    for (const line of metrics.split('\n')) {
      expect(line).toMatch(
        /^(?:|# (?:HELP|TYPE) \w+ .+|\w+(?:\{\w+="[^"]*"(?:,\w+="[^"]*")*\})? (?:[0-9.e+-]+|nan))$/i,
      );
    }
  });
});

describe('/metrics', () => {
  test('is rendered once for any number of scrapes, and again after a second', async () => {
    const sidecar = await start();
    const render = vi.spyOn(sidecar.registry, 'metrics');
    vi.useFakeTimers({ toFake: ['setTimeout', 'clearTimeout'] });
    onTestFinished(() => void vi.useRealTimers());
    const texts = await Promise.all(Array.from({ length: 30 }, async () => (await ask(sidecar, 'GET /metrics'))[1]));
    texts.push((await ask(sidecar, 'GET /metrics'))[1]);
    expect(render).toHaveBeenCalledTimes(1);
    expect(new Set(texts).size).toBe(1);
    vi.advanceTimersByTime(999);
    await ask(sidecar, 'GET /metrics');
    expect(render).toHaveBeenCalledTimes(1);
    vi.advanceTimersByTime(1);
    await ask(sidecar, 'GET /metrics');
    expect(render).toHaveBeenCalledTimes(2);
  });

  test('is rendered again after a failure', async () => {
    const sidecar = await start();
    vi.spyOn(sidecar.registry, 'metrics').mockRejectedValueOnce(new Error('unforeseen'));
    await expect(ask(sidecar, 'GET /metrics')).rejects.toThrow(/socket hang up|ECONNRESET/);
    expect((await ask(sidecar, 'GET /metrics'))[0]).toBe(200);
  });

  test('is sent once per connection, and requests pipelined behind it end the connection', async () => {
    const sidecar = await start();
    const client = await openConnection(sidecar.app.addresses.admin.port);
    client.send('GET /metrics HTTP/1.1\r\nHost: localhost\r\n\r\n'.repeat(100));
    expect(await client.untilEnded()).toBe('');
    const other = await openConnection(sidecar.app.addresses.admin.port);
    other.send('GET /metrics HTTP/1.1\r\nHost: localhost\r\n\r\n');
    expect(await other.untilEnded()).toMatch(/^HTTP\/1.1 200 [^]*connection: close[^]*envelope_sidecar_build_info{/i);
  });

  test('of 1,000 routes is rendered once for 100 pipelined scrapes on each of many connections, and merchants are served', async () => {
    const routes = Array.from({ length: 1_000 }, (_, i) => route(`/r${i}`));
    const sidecar = await start({ routes });
    for (let i = 0; i < 20; i += 1) await send(sidecar, `GET /r${i}`, { key: keys.globex });
    const rendered = Promise.withResolvers<void>();
    const metrics = sidecar.registry.metrics.bind(sidecar.registry);
    const render = vi.spyOn(sidecar.registry, 'metrics').mockImplementation(async () => {
      await rendered.promise;
      return metrics();
    });
    const { port } = sidecar.app.addresses.admin;
    const scrapes = 'GET /metrics HTTP/1.1\r\nHost: localhost\r\n\r\n';
    const floods = await Promise.all(Array.from({ length: 30 }, () => openConnection(port)));
    for (const client of floods) client.send(scrapes.repeat(100));
    const readers = await Promise.all(Array.from({ length: 30 }, () => openConnection(port)));
    for (const client of readers) client.send(scrapes);
    for (const client of floods) expect(await client.untilEnded()).toBe('');
    expect((await send(sidecar, 'GET /r0', { key: keys.globex })).status).toBe(200);
    await vi.waitFor(() => expect(render).toHaveBeenCalledTimes(1));
    rendered.resolve();
    for (const client of readers) expect(await client.untilEnded()).toContain('route="/r19"');
    expect(render).toHaveBeenCalledTimes(1);
  });

  test('is no longer sent to a client that has not read it in time', async () => {
    const sidecar = await start();
    vi.spyOn(sidecar.registry, 'metrics').mockResolvedValue('x'.repeat(64 << 20));
    vi.useFakeTimers({ toFake: ['setTimeout', 'clearTimeout'] });
    onTestFinished(() => void vi.useRealTimers());
    const client = await openConnection(sidecar.app.addresses.admin.port);
    client.send('GET /metrics HTTP/1.1\r\nHost: localhost\r\n\r\n');
    await client.untilText('\r\n\r\n');
    client.socket.pause();
    vi.advanceTimersByTime(9_999);
    expect(client.ending).toBe('open');
    vi.advanceTimersByTime(1);
    client.socket.resume();
    await client.untilEnded();
    expect(client.received.length).toBeLessThan(64 << 20);
  });
});

test('a probe gets a response, no matter how many connections clients hold open', async () => {
  const sidecar = await start();
  const { port } = sidecar.app.addresses.admin;
  const idle = await Promise.all(Array.from({ length: 64 }, () => openConnection(port)));
  expect(await ask(sidecar, 'GET /livez')).toEqual([200, 'ok\n']);
  await idle[0]?.untilEnded();
  expect(idle.filter(({ ending }) => ending === 'open')).toHaveLength(63);
});

test('requests get their responses one per turn of the event loop, however many connections clients have', async () => {
  const sidecar = await start();
  const { port } = sidecar.app.addresses.admin;
  const clients = await Promise.all(Array.from({ length: 60 }, () => openConnection(port)));
  expect(await ask(sidecar, 'GET /livez')).toEqual([200, 'ok\n']);
  const { turns } = turnsOfOtherResponses();
  for (const client of clients) client.send('GET /livez HTTP/1.1\r\nHost: localhost\r\n\r\n');
  await Promise.all(clients.map((client) => client.untilEnded()));
  expect(turns).toHaveLength(60);
  expect(new Set(turns).size).toBe(60);
});

describe('the number of series', () => {
  test('does not grow, whatever clients send', async () => {
    const upstream = await startUpstream();
    const base = configOf(upstream.origin, { limits: { failedKeys: { attempts: 100_000, window: 60_000 } } });
    const environments = base.environments.map((environment) => ({ ...environment, hosts: ['sandbox.pay.example'] }));
    const sidecar = await startSidecar({ ...base, environments });
    const methods = ['GET', 'PROPFIND', 'M-SEARCH', 'PURGE', 'LINK', 'QUERY', 'MKCOL', 'TRACE'];

    /** One request of each odd kind. */
    const odd = async (i: number): Promise<void> => {
      const headers = { Host: 'sandbox.pay.example' };
      const method = methods[i % methods.length];
      const responses = await Promise.all([
        send(sidecar, `GET /path-${i}/${'x'.repeat(i)}?q=${i}`, { key: keys.globex, headers }),
        send(sidecar, `${method} /path`, { key: keys.globex, headers }),
        send(sidecar, 'GET /path', { key: keys.globex, headers: { Host: `host-${i}.example` } }),
        send(sidecar, 'GET /path', { key: `sk_test_${String(i).padStart(20, '0')}`, headers }),
        send(sidecar, 'GET /path', { key: keys.globex, headers: { ...headers, 'X-Request-Id': `id-${i}` } }),
        send(sidecar, `GET //path-${i}`, { key: keys.globex, headers }),
      ]);
      expect(responses.map(({ status }) => status)).toEqual([200, 200, 421, 401, 200, 400]);
    };
    const series = async (): Promise<string[]> => {
      const lines = (await scrape(sidecar)).split('\n').filter((line) => line.startsWith('envelope_sidecar_'));
      return lines.map((line) => line.slice(0, line.lastIndexOf(' '))).toSorted();
    };
    for (let i = 0; i < methods.length; i += 1) await odd(i);
    const before = await series();
    for (let i = methods.length; i < 300; i += 1) await odd(i);
    expect(await series()).toEqual(before);
    expect(before.filter((name) => name.startsWith('envelope_sidecar_requests_total'))).toHaveLength(5);
  });
});

describe('POST /drain', () => {
  test('ends readiness at once and responds when no request is in flight', async () => {
    let response = (): void => {};
    const upstream = await startUpstream((_seen, res) => {
      response = () => void res.end('{}');
    });
    const sidecar = await startSidecar(configOf(upstream.origin));
    const pending = send(sidecar, 'GET /slow', { key: keys.globex });
    await vi.waitFor(() => expect(upstream.heads()).toBe(1));

    const drained = ask(sidecar, 'POST /drain');
    await vi.waitFor(async () => expect(await ask(sidecar, 'GET /readyz')).toEqual([503, 'not ready\n']));
    expect(await ask(sidecar, 'GET /livez')).toEqual([200, 'ok\n']);
    expect(await Promise.race([drained, new Promise((resolve) => void setTimeout(resolve, 100, 'still'))])).toBe(
      'still',
    );
    response();
    expect((await pending).status).toBe(200);
    expect(await drained).toEqual([200, expect.stringContaining('"ready":false,"in_flight":0')]);
    expect(await ask(sidecar, 'POST /drain')).toEqual([200, expect.stringContaining('"ready":false,"in_flight":0')]);
  });

  test('gets its response, no matter how many connections are opened before the drain is over', async () => {
    let respond = (): void => {};
    const upstream = await startUpstream((_seen, res) => {
      respond = () => void res.end('{}');
    });
    const sidecar = await startSidecar(configOf(upstream.origin));
    const pending = send(sidecar, 'GET /slow', { key: keys.globex });
    await vi.waitFor(() => expect(upstream.heads()).toBe(1));
    const drained = ask(sidecar, 'POST /drain');
    await vi.waitFor(async () => expect(await ask(sidecar, 'GET /readyz')).toEqual([503, 'not ready\n']));
    const { port } = sidecar.app.addresses.admin;
    const idle = await Promise.all(Array.from({ length: 70 }, () => openConnection(port)));
    await vi.waitFor(() => expect(idle.filter(({ ending }) => ending === 'open')).toHaveLength(63));
    respond();
    expect((await pending).status).toBe(200);
    expect(await drained).toEqual([200, expect.stringContaining('"ready":false,"in_flight":0')]);
  });

  test('responds when its time is over, even if requests are in flight', async () => {
    const upstream = await startUpstream(() => {});
    const sidecar = await startSidecar(configOf(upstream.origin, { timeouts: { drain: 200 } }));
    const pending = send(sidecar, 'GET /slow', { key: keys.globex }).catch(() => 'broken off');
    await vi.waitFor(() => expect(upstream.heads()).toBe(1));
    expect(await ask(sidecar, 'POST /drain')).toEqual([200, expect.stringContaining('"ready":false,"in_flight":1')]);
    expect(await inFlight(sidecar)).toBe(1);
    await sidecar.app.stop();
    expect(await pending).toBe('broken off');
  });

  const loopback = { Host: 'localhost', Authorization: `Bearer ${drainToken}` };

  test.each([
    ['no token', { Host: 'localhost' }],
    ['an empty token', { ...loopback, Authorization: 'Bearer ' }],
    ['another token', { ...loopback, Authorization: `Bearer ${drainToken}x` }],
    ['a part of the token', { ...loopback, Authorization: `Bearer ${drainToken.slice(0, -1)}` }],
    ['the token by another scheme', { ...loopback, Authorization: `Basic ${drainToken}` }],
    ['an Origin', { ...loopback, Origin: 'http://localhost' }],
    ['an empty Origin', { ...loopback, Origin: '' }],
    ['a Sec-Fetch-Site', { ...loopback, 'Sec-Fetch-Site': 'same-origin' }],
    ['a Host that is not loopback’s', { ...loopback, Host: 'evil.example' }],
    ['a Host that begins like loopback', { ...loopback, Host: '127.0.0.1.evil.example:9090' }],
    ['a Host in the pod’s network', { ...loopback, Host: '10.0.0.1:9090' }],
  ])('is refused with %s', async (_name, headers) => {
    const sidecar = await start();
    const { port } = sidecar.app.addresses.admin;
    expect((await send({ port }, 'POST /drain', { headers })).status).toBe(403);
    expect(await ask(sidecar, 'GET /readyz')).toEqual([200, 'ready\n']);
  });

  test.each(['localhost', 'LocalHost:9090', '127.0.0.1:1', '127.9.9.9', '[::1]:9090'])(
    'is accepted with the token and Host %s',
    async (Host) => {
      const { port } = (await start()).app.addresses.admin;
      expect((await send({ port }, 'POST /drain', { headers: { ...loopback, Host } })).status).toBe(200);
    },
  );

  const outside = Object.values(networkInterfaces())
    .flatMap((addresses) => addresses ?? [])
    .find(({ internal, family }) => !internal && family === 'IPv4')?.address;

  test.skipIf(outside === undefined)('is refused from outside the pod, while the other paths respond', async () => {
    const sidecar = await start({ admin: { host: '0.0.0.0', port: 0 } });
    const headers = { Host: 'localhost', Authorization: `Bearer ${drainToken}` };
    const from = (path: string, method: string): Promise<number> =>
      new Promise((resolve, reject) => {
        const port = sidecar.app.addresses.admin.port;
        request({ host: outside, port, path, method, headers, agent: false }, (res) =>
          resolve(res.resume().statusCode ?? 0),
        )
          .on('error', reject)
          .end();
      });
    expect(await from('/readyz', 'GET')).toBe(200);
    expect(await from('/metrics', 'GET')).toBe(200);
    expect(await from('/drain', 'POST')).toBe(403);
    expect(await ask(sidecar, 'GET /readyz')).toEqual([200, 'ready\n']);
  });
});

import { Socket } from 'node:net';
import { setTimeout as sleep } from 'node:timers/promises';
import { describe, expect, onTestFinished, test, vi } from 'vitest';
import { ask, ignored, upstreamAt } from '../support/ask-upstream.ts';
import { startByteUpstream, type UpstreamConnection } from '../support/byte-upstream.ts';
import { opened, send } from '../support/client.ts';
import { scrape } from '../support/metrics.ts';
import { acmeTest, configOf, keys, startSidecar, type TestSidecar } from '../support/sidecar.ts';
import { settle } from '../support/turns.ts';

const ok = 'HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n{}';

/** The request ids that a connection has carried. */
function idsOf({ received }: UpstreamConnection): string[] {
  return [...received.matchAll(/^X-Request-Id: (.*)\r$/gm)].map(([, id = '']) => id);
}

/** Starts a core that sends what `respond` returns for each request, and a sidecar in front of it. */
async function start(respond: (ids: readonly string[], connection: UpstreamConnection) => string) {
  const upstream = await startByteUpstream(
    (connection) => void connection.socket.write(respond(idsOf(connection), connection)),
    { every: true },
  );
  return { upstream, sidecar: await startSidecar(configOf(upstream.origin)) };
}

const withId = (id: string, body = '{}'): string =>
  `HTTP/1.1 200 OK\r\nx-request-id: ${id}\r\nContent-Length: ${body.length}\r\n\r\n${body}`;

async function unasked(sidecar: TestSidecar): Promise<number> {
  return Number(
    /^envelope_sidecar_upstream_unasked_total\{environment="test"\} (\d+)$/m.exec(await scrape(sidecar))?.[1] ?? 0,
  );
}

const warning = 'the upstream sent unsolicited bytes: no connection is reused for 60 s';
const warnings = ({ log }: TestSidecar): unknown[] => log.filter(({ msg }) => msg === warning);

describe('a response with the id of an earlier request of its connection', () => {
  test.each([
    ['of the one before', 1],
    ['of 32 requests before', 32],
  ])('%s is withheld, and the connection is closed', async (_name, back) => {
    const { upstream, sidecar } = await start((ids) =>
      withId(ids.length > back ? (ids.at(-1 - back) ?? '') : (ids.at(-1) ?? '')),
    );
    for (let i = 0; i < back; i += 1) {
      expect((await send(sidecar, 'GET /own', { key: keys.acme })).status).toBe(200);
      await settle();
    }
    expect(upstream.connections).toHaveLength(1);
    const response = await send(sidecar, 'GET /other', { key: keys.globex });
    expect(response.status).toBe(502);
    expect(JSON.parse(response.body)).toMatchObject({ code: 'upstream_unavailable' });
    await vi.waitFor(() => expect(upstream.connections[0]?.closed).toBe(true));
    // The request may have been carried out, so it is not sent again, although it is a GET.
    expect(upstream.connections.flatMap(idsOf)).toHaveLength(back + 1);
    expect(sidecar.accessLines().at(-1)).toMatchObject({ status: 502, upstream_error: 'EARLIER_RESPONSE' });
    expect(await unasked(sidecar)).toBe(1);
    expect(warnings(sidecar)).toMatchObject([{ level: 'error', environment: 'test' }]);
  });

  test('cannot reach another account that chose the same id, because its request is sent on another connection', async () => {
    const { upstream, sidecar } = await start((ids) => withId(ids.at(-1) ?? ''));
    const headers = { 'X-Request-Id': 'order-1' };
    for (const key of [keys.acme, keys.acme, keys.globex, keys.globex, keys.acme]) {
      expect((await send(sidecar, 'GET /', { key, headers })).status).toBe(200);
      await settle();
    }
    const accounts = upstream.connections.map(({ received }) =>
      [...received.matchAll(/^X-Account-Id: (.*)\r$/gm)].map(([, id]) => id),
    );
    expect(accounts).toEqual([
      ['acme', 'acme', 'acme'],
      ['globex', 'globex'],
    ]);
    // Requests with other ids are sent on either connection.
    expect((await send(sidecar, 'GET /', { key: keys.globex })).status).toBe(200);
    expect(upstream.connections).toHaveLength(2);
  });

  test('is withheld, but is not a fault of a core whose echo makes two ids equal, because their client may have chosen them', async () => {
    const { upstream, sidecar } = await start((ids) => withId((ids.at(-1) ?? '').replace('.', '')));
    const statuses: number[] = [];
    for (const id of ['ab', 'a.b', 'c', 'd']) {
      const { status } = await send(sidecar, 'GET /', { key: keys.globex, headers: { 'X-Request-Id': id } });
      statuses.push(status);
      await settle();
    }
    expect(statuses).toEqual([200, 502, 200, 200]);
    expect(upstream.connections.map(idsOf)).toEqual([
      ['ab', 'a.b'],
      ['c', 'd'],
    ]);
    expect(await unasked(sidecar)).toBe(0);
  });

  test('is not noticed if that request was 33 requests before, because no connection remembers all ids', async () => {
    const { upstream, sidecar } = await start((ids) => withId(ids.at(-34) ?? ids.at(-1) ?? ''));
    for (let i = 0; i < 34; i += 1) {
      expect((await send(sidecar, 'GET /', { key: keys.globex })).status).toBe(200);
      await settle();
    }
    expect(upstream.connections).toHaveLength(1);
  });

  test('cannot reach another account that chose the id of the latest of many requests', async () => {
    const { upstream, sidecar } = await start((ids) => withId(ids.at(-1) ?? ''));
    // Fill the memory of ids, so that the next id takes the place of the first.
    for (let i = 0; i < 32; i += 1) {
      await send(sidecar, 'GET /', { key: keys.globex });
      await settle();
    }
    for (const key of [keys.acme, keys.globex]) {
      expect((await send(sidecar, 'GET /', { key, headers: { 'X-Request-Id': 'order-1' } })).status).toBe(200);
      await settle();
    }
    expect(upstream.connections.map((each) => idsOf(each).length)).toEqual([33, 1]);
  });

  test('cannot reach a client with a public key that chose the same id, because anyone can have that key', async () => {
    const { upstream, sidecar } = await start((ids) => withId(ids.at(-1) ?? ''));
    const headers = { 'X-Request-Id': 'order-1' };
    for (const key of [keys.globex, keys.globexPublic, keys.globexPublic, keys.globex]) {
      expect((await send(sidecar, 'POST /api/v1/transactions/initialize', { key, headers })).status).toBe(200);
      await settle();
    }
    const kinds = upstream.connections.map(({ received }) =>
      [...received.matchAll(/^X-Api-Key-Kind: (.*)\r$/gm)].map(([, kind]) => kind),
    );
    expect(kinds).toEqual([['secret', 'secret'], ['public'], ['public']]);
  });

  test('leads to no more than 32 idle connections, however often clients with a public key repeat an id', async () => {
    const { upstream, sidecar } = await start((ids) => withId(ids.at(-1) ?? ''));
    const headers = { 'X-Request-Id': 'order-1' };
    const open = (): number => upstream.connections.filter(({ closed }) => !closed).length;
    for (let i = 1; i <= 35; i += 1) {
      const key = keys.globexPublic;
      expect((await send(sidecar, 'POST /api/v1/transactions/initialize', { key, headers })).status).toBe(200);
      await settle();
      await vi.waitFor(() => expect(open()).toBe(Math.min(i, 32)));
    }
    // A request with any other id is sent on one of these connections.
    expect((await send(sidecar, 'GET /', { key: keys.acme })).status).toBe(200);
    expect(upstream.connections).toHaveLength(35);
  });

  test('is withheld on an enveloped route, as an informational response, and as the second of two ids', async () => {
    const responses: ((earlier: string, id: string) => string)[] = [
      (earlier) => withId(earlier),
      (earlier, id) => `HTTP/1.1 103 Early Hints\r\nX-Request-Id: ${earlier}\r\n\r\n${withId(id)}`,
      (earlier, id) =>
        `HTTP/1.1 200 OK\r\nX-Request-Id: ${id}\r\nX-Request-Id: ${earlier}\r\nContent-Length: 2\r\n\r\n{}`,
    ];
    for (const respond of responses) {
      const { sidecar } = await start(([first = '', second]) =>
        second === undefined ? withId(first) : respond(first, second),
      );
      expect(opened(acmeTest, await send(sidecar, 'GET /api/s2s/x', { key: keys.acme }))).toBe('{}');
      await settle();
      const response = await send(sidecar, 'GET /api/s2s/x', { key: keys.acme });
      expect(response.status).toBe(502);
      expect(JSON.parse(opened(acmeTest, response))).toMatchObject({ code: 'upstream_unavailable' });
    }
  });

  test.each<[string, (ids: readonly string[]) => string]>([
    ['its own id', (ids) => withId(ids.at(-1) ?? '')],
    ['an id of the core’s', (ids) => withId(`core-${ids.length}`)],
    ['the same id of the core’s each time', () => withId('core')],
    ['no id', () => ok],
  ])('is not one with %s', async (_name, respond) => {
    const { upstream, sidecar } = await start(respond);
    for (let i = 0; i < 5; i += 1) {
      expect((await send(sidecar, 'GET /', { key: keys.globex })).status).toBe(200);
      await settle();
    }
    expect(upstream.connections).toHaveLength(1);
    expect(await unasked(sidecar)).toBe(0);
  });

  test('is not one if the client sends the same id each time', async () => {
    const { sidecar } = await start((ids) => withId(ids.at(-1) ?? ''));
    for (let i = 0; i < 5; i += 1) {
      const sent = { key: keys.globex, headers: { 'X-Request-Id': 'always' } };
      expect((await send(sidecar, 'GET /', sent)).status).toBe(200);
      await settle();
    }
  });
});

describe('after bytes that nobody asked for', () => {
  /** Stops the monotonic clock. @returns a function that sets it, in milliseconds from now */
  function holdClock(): (milliseconds: number) => void {
    const from = Math.ceil(performance.now());
    let offset = 0;
    const spy = vi.spyOn(performance, 'now').mockImplementation(() => from + offset);
    onTestFinished(() => spy.mockRestore());
    return (milliseconds) => (offset = milliseconds);
  }

  test.each<[string, string, (connection: UpstreamConnection) => string]>([
    ['on an idle connection', 'GET', ({ socket }) => (setTimeout(() => socket.write('H'), 20), ok)],
    ['in one piece with a response', 'GET', () => `${ok}H`],
    ['as the body of a response to HEAD', 'HEAD', () => ok],
  ])('%s no connection is reused for 60 s', async (_name, method, faulty) => {
    const setClock = holdClock();
    const { upstream, sidecar } = await start((_ids, connection) =>
      connection.received.includes('/faulty') ? faulty(connection) : ok,
    );
    const get = async (path = '/', by = 'GET'): Promise<number> => {
      const { status } = await send(sidecar, `${by} ${path}`, { key: keys.globex });
      await settle();
      return status;
    };
    await Promise.all([get(), get()]);
    const before = upstream.connections.length;
    expect(await get('/faulty', method)).toBe(200);
    await vi.waitFor(async () => expect(await unasked(sidecar)).toBe(1));
    // The connections that were idle are closed, too.
    await vi.waitFor(() => expect(upstream.connections.every(({ closed }) => closed)).toBe(true));
    setClock(59_999);
    for (let i = 1; i <= 3; i += 1) {
      expect(await get()).toBe(200);
      expect(upstream.connections).toHaveLength(before + i);
    }
    setClock(60_000);
    for (let i = 1; i <= 3; i += 1) expect(await get()).toBe(200);
    expect(upstream.connections).toHaveLength(before + 4);
    expect(warnings(sidecar)).toHaveLength(1);
  });
});

describe('a connection is reused only after one poll for events', () => {
  test('so that bytes that have arrived after a response are never taken for the response to a request that is sent at its end', async () => {
    // The sidecar reads 65,536 bytes at a time. The first response fills a read, so the unsolicited one comes with the next read.
    const head = 'HTTP/1.1 200 OK\r\nContent-Length: ';
    const size = 65_536 - head.length - '65496\r\n\r\n'.length;
    const first = `${head}${size}\r\n\r\n${'x'.repeat(size)}`;
    expect(first).toHaveLength(65_536);
    const { origin, connections } = await startByteUpstream(
      ({ socket, received }) =>
        void socket.write(
          received.includes('/first') && !received.includes('/second')
            ? `${first}HTTP/1.1 201 Evil\r\nContent-Length: 0\r\n\r\n`
            : ok,
        ),
      { every: true },
    );
    const upstream = upstreamAt(origin);
    const second = Promise.withResolvers<number | string>();
    upstream.send(
      { method: 'GET', target: '/first', headers: [], body: undefined },
      {
        ...ignored,
        onEnd: () => second.resolve(ask(upstream, 'GET', undefined, '/second').outcome),
        onError: second.reject,
      },
    );
    expect(await second.promise).toBe(200);
    expect(connections.map(({ received }) => received.match(/\/\w+/g)?.filter((path) => path !== '/1'))).toEqual([
      ['/first'],
      ['/second'],
    ]);
  });

  test('of the event loop that begins after it has become idle', async () => {
    const { origin } = await startByteUpstream(({ socket }) => void socket.write(ok), { every: true });
    const upstream = upstreamAt(origin);
    let turns = 0;
    const { promise, resolve, reject } = Promise.withResolvers<number>();
    const write = vi.spyOn(Socket.prototype, 'write');
    onTestFinished(() => write.mockRestore());
    const onEnd = (): void => {
      const count = (): void => {
        if (write.mock.calls.some(([bytes]) => String(bytes).startsWith('GET /second'))) resolve(turns);
        turns += 1;
        if (turns < 1_000) setImmediate(count);
      };
      setImmediate(count);
      void ask(upstream, 'GET', undefined, '/second').outcome;
    };
    upstream.send(
      { method: 'GET', target: '/first', headers: [], body: undefined },
      { ...ignored, onEnd, onError: reject },
    );
    // The request is not sent at the end of the first turn, in which the response ended. The second turn follows a poll for events.
    expect(await promise).toBe(1);
  });

  test('for which a request waits instead of opening another connection', async () => {
    const { origin, connections } = await startByteUpstream(({ socket }) => void socket.write(ok), { every: true });
    const upstream = upstreamAt(origin);
    let left = 50;
    const { promise, resolve, reject } = Promise.withResolvers<void>();
    const next = (): void => {
      left -= 1;
      if (left === 0) resolve();
      else
        upstream.send(
          { method: 'GET', target: '/', headers: [], body: undefined },
          { ...ignored, onEnd: next, onFailure: ({ cause }) => reject(new Error(cause)), onError: reject },
        );
    };
    next();
    await promise;
    expect(connections).toHaveLength(1);
  });

  test('and a request that its client gives up before that is not sent', async () => {
    const { origin, connections } = await startByteUpstream(({ socket }) => void socket.write(ok), { every: true });
    const upstream = upstreamAt(origin);
    const { promise, resolve } = Promise.withResolvers<void>();
    const onEnd = (): void => {
      ask(upstream, 'POST', undefined, '/left').call.abort();
      resolve();
    };
    upstream.send(
      { method: 'GET', target: '/', headers: [], body: undefined },
      { ...ignored, onEnd, onError: resolve },
    );
    await promise;
    await settle();
    expect(await ask(upstream, 'GET', undefined, '/next').outcome).toBe(200);
    expect(connections.map(({ received }) => received).join()).not.toContain('/left');
    expect(connections).toHaveLength(1);
  });
});

test('a connection that was chosen for a request is not used if another one shows at that moment that none may be reused', async () => {
  const { origin, connections } = await startByteUpstream(({ socket }) => void socket.write(ok), { every: true });
  const upstream = upstreamAt(origin);
  expect(await ask(upstream, 'GET', undefined, '/first').outcome).toBe(200);
  // A connection that has been idle for that long is used in the next turn.
  await sleep(600);
  const { outcome } = ask(upstream, 'GET', undefined, '/second');
  upstream.onUnasked();
  expect(await outcome).toBe(200);
  expect(connections.map(({ received }) => received.includes('/second'))).toEqual([false, true]);
});

import type { Socket } from 'node:net';
import { setImmediate as turn } from 'node:timers/promises';
import { describe, expect, onTestFinished, test, vi } from 'vitest';
import type { StreamedBody } from '../../src/upstream/call.ts';
import { ask, upstreamAt } from '../support/ask-upstream.ts';
import { startByteUpstream, type UpstreamConnection } from '../support/byte-upstream.ts';
import { send } from '../support/client.ts';
import { openConnection, parseResponses } from '../support/connection.ts';
import { holdReports } from '../support/held-reports.ts';
import { configOf, keys, startSidecar } from '../support/sidecar.ts';
import { settle } from '../support/turns.ts';
import { startRawUpstream } from '../support/upstream.ts';

const ok = 'HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n{}';

/** The request lines that the upstream received on each connection. */
function linesOf(connections: readonly UpstreamConnection[]): string[][] {
  return connections.map(({ received }) => received.match(/^[A-Z]+ \S+ HTTP\/1\.1$/gm) ?? []);
}

/** Stops the monotonic clock. @returns a function that sets it, in milliseconds from now */
function holdClock(): (milliseconds: number) => void {
  // Use whole milliseconds, because sums of fractions are not exact.
  const start = Math.ceil(performance.now());
  let offset = 0;
  const spy = vi.spyOn(performance, 'now').mockImplementation(() => start + offset);
  onTestFinished(() => spy.mockRestore());
  return (milliseconds) => (offset = milliseconds);
}

describe('excess bytes of a response never reach the next request', () => {
  test.each([
    ['HEAD', 'HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\n'],
    ['GET', 'HTTP/1.1 204 No Content\r\n\r\n'],
    ['GET', 'HTTP/1.1 304 Not Modified\r\nContent-Length: 4\r\n\r\n'],
  ])('if they follow a moment after the head (%s, %j)', async (method, bytes) => {
    const { origin, connections } = await startByteUpstream(
      (connection) => {
        const { socket } = connection;
        if (linesOf([connection])[0]?.at(-1)?.includes(' /next ') === true) {
          socket.write(ok);
          return;
        }
        socket.write(bytes);
        setTimeout(() => socket.write('HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\nevil'), 2);
      },
      { every: true },
    );
    const sidecar = await startSidecar(configOf(origin));
    for (let i = 0; i < 5; i += 1) {
      await send(sidecar, `${method} /first`, { key: keys.acme });
      expect((await send(sidecar, 'GET /next', { key: keys.globex })).body).toBe('{}');
    }
    // A connection is not reused after a response that must have no body.
    const before = linesOf(connections).flatMap((lines) => lines.slice(0, -1));
    expect(before).not.toContain(`${method} /first HTTP/1.1`);
  });
});

test('a connection is reused although its response arrives before Node is told that the request was sent', async () => {
  const { port, origin, connections } = await startByteUpstream(({ socket }) => void socket.write(ok), { every: true });
  const report = holdReports(({ remotePort }) => remotePort === port);
  const upstream = upstreamAt(origin);
  for (let i = 0; i < 3; i += 1) {
    const { outcome } = ask(upstream, 'GET', undefined, '/', (event) => {
      // Report only in a later turn of the event loop that the request was sent, as happens over TLS.
      if (event === 'data') setImmediate(report);
    });
    expect(await outcome).toBe(200);
  }
  expect(connections).toHaveLength(1);
});

describe('a connection that may be in the middle of a request is not reused', () => {
  test('if the upstream responds before a streamed body is complete', async () => {
    const { origin, connections } = await startByteUpstream(({ socket }) => void socket.write(ok));
    const sidecar = await startSidecar(configOf(origin));
    const client = await openConnection(sidecar.port);
    client.send(
      `POST /first HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer ${keys.globex}\r\nContent-Length: 100\r\n\r\nhalf`,
    );
    expect(parseResponses(await client.untilText('{}'))).toMatchObject([{ status: 200 }]);
    expect((await send(sidecar, 'GET /next', { key: keys.globex })).body).toBe('{}');
    expect(linesOf(connections)).toEqual([['POST /first HTTP/1.1'], ['GET /next HTTP/1.1']]);
  });

  test('if the upstream responds before it has read a whole buffered body', async () => {
    const { origin, connections } = await startByteUpstream(({ socket }) => {
      socket.pause();
      socket.write(ok);
    });
    const upstream = upstreamAt(origin);
    expect(await ask(upstream, 'POST', Buffer.alloc(64 << 20)).outcome).toBe(200);
    expect(await ask(upstream).outcome).toBe(200);
    expect(connections).toHaveLength(2);
  });

  test('and a streamed body is stopped', async () => {
    const { origin } = await startByteUpstream(({ socket }) => void socket.write(ok));
    const upstream = upstreamAt(origin);
    const stop = vi.fn<() => void>();
    const body: StreamedBody = { start: (sink) => void sink.write(Buffer.from('half')), resume: () => {}, stop };
    expect(await ask(upstream, 'POST', body).outcome).toBe(200);
    expect(stop).toHaveBeenCalledTimes(1);
  });
});

describe('a request on a reused connection', () => {
  /** Starts an upstream that ends each connection at its second request, or at a request to `deadly`. */
  async function startMortal(end: (socket: Socket) => void, deadly = '/none') {
    const got = new Map<string, number>();
    const { origin } = await startByteUpstream(
      (connection) => {
        const lines = linesOf([connection])[0] ?? [];
        const path = lines.at(-1)?.split(' ')[1] ?? '';
        got.set(path, (got.get(path) ?? 0) + 1);
        if (lines.length > 1 || path === deadly) end(connection.socket);
        else connection.socket.write(ok);
      },
      { every: true },
    );
    return { upstream: upstreamAt(origin), got };
  }

  const ends: [string, (socket: Socket) => void][] = [
    ['closes', (socket) => void socket.end()],
    ['is reset', (socket) => void socket.resetAndDestroy()],
  ];
  const cases = (methods: readonly string[]) =>
    ends.flatMap(([how, end]) => methods.map((m) => [how, m, end] as const));

  test.each(cases(['GET', 'HEAD', 'OPTIONS']))('that %s is sent once more if it is %s', async (_how, method, end) => {
    const { upstream, got } = await startMortal(end);
    expect(await ask(upstream).outcome).toBe(200);
    expect(await ask(upstream, method, undefined, '/again').outcome).toBe(200);
    expect(got.get('/again')).toBe(2);
  });

  test.each(cases(['GET', 'HEAD', 'OPTIONS']))(
    'that %s twice is not sent a third time if it is %s',
    async (_how, method, end) => {
      const { upstream, got } = await startMortal(end, '/deadly');
      expect(await ask(upstream).outcome).toBe(200);
      expect(await ask(upstream, method, undefined, '/deadly').outcome).toEqual(expect.stringMatching(/^E/));
      expect(got.get('/deadly')).toBe(2);
    },
  );

  test.each(cases(['POST', 'PUT', 'PATCH', 'DELETE', 'QUERY']))(
    'that %s is not sent again if it is %s, even without a body',
    async (_how, method, end) => {
      const { upstream, got } = await startMortal(end);
      expect(await ask(upstream).outcome).toBe(200);
      expect(await ask(upstream, method, undefined, '/capture').outcome).toEqual(expect.stringMatching(/^E/));
      expect(got.get('/capture') ?? 1).toBe(1);
    },
  );

  test.each(ends)('that %s is not sent again if it has a body', async (_how, end) => {
    const { upstream, got } = await startMortal(end);
    expect(await ask(upstream).outcome).toBe(200);
    expect(await ask(upstream, 'GET', Buffer.from('pay'), '/pay').outcome).toEqual(expect.stringMatching(/^E/));
    expect(got.get('/pay')).toBe(1);
  });

  test.each(['H', 'HTTP/1.1 103 Early Hints\r\n\r\n', 'HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n{'])(
    'is not sent again if %j of a response has arrived',
    async (bytes) => {
      const { upstream, got } = await startMortal((socket) => void socket.end(bytes));
      expect(await ask(upstream).outcome).toBe(200);
      expect(await ask(upstream, 'GET', undefined, '/begun').outcome).toBe('ECONNCLOSED');
      expect(got.get('/begun')).toBe(1);
    },
  );

  test('is sent once if the connection that closes is new', async () => {
    const { upstream, got } = await startMortal((socket) => void socket.end(), '/deadly');
    expect(await ask(upstream, 'GET', undefined, '/deadly').outcome).toBe('ECONNCLOSED');
    expect(got.get('/deadly')).toBe(1);
  });

  test('is not sent again if its client has disconnected', async () => {
    const { promise: arrived, resolve } = Promise.withResolvers<Socket>();
    const { upstream, got } = await startMortal(resolve);
    expect(await ask(upstream).outcome).toBe(200);
    const { call } = ask(upstream, 'GET', undefined, '/left');
    const socket = await arrived;
    call.abort();
    socket.destroy();
    expect(await ask(upstream).outcome).toBe(200);
    expect(got.get('/left')).toBe(1);
  });

  test('never fails if it is a GET, and never arrives twice if it is a POST without a body', async () => {
    const got = new Map<string, number>();
    let delay = 0;
    const { origin } = await startRawUpstream((req, res) => {
      const id = String(req.headers['x-request-id']);
      got.set(id, (got.get(id) ?? 0) + 1);
      // With delays from 0 to 4 ms, the connection ends before, while or after the next request is sent.
      delay = (delay + 1) % 9;
      const wait = delay / 2;
      res.end('{}', () => setTimeout(() => req.socket.destroy(), wait));
    });
    const sidecar = await startSidecar(configOf(origin));
    const statuses = { GET: [] as number[], POST: [] as number[] };
    for (let round = 0; round < 250; round += 1) {
      const round4 = (['GET', 'GET', 'POST', 'GET', 'GET'] as const).map(async (method, i) => {
        const headers = { 'X-Request-Id': `${method}-${round}-${i}` };
        statuses[method].push((await send(sidecar, `${method} /capture`, { key: keys.globex, headers })).status);
      });
      await Promise.all(round4);
    }
    expect(statuses.GET).toEqual(Array(1_000).fill(200));
    expect(statuses.POST).toContain(200);
    const twice = [...got].filter(([id, times]) => times > (id.startsWith('GET') ? 2 : 1));
    expect(twice).toEqual([]);
  });
});

describe('an idle connection is closed', () => {
  test.each([
    ['after 4 s', '', 3_999, 4_000],
    ['a second before the timeout of Keep-Alive', 'Keep-Alive: timeout=3\r\n', 1_999, 2_000],
    [
      'a second before the timeout of a Keep-Alive with other parameters',
      'Keep-Alive: max=9, Timeout=2\r\n',
      999,
      1_000,
    ],
    ['a second before a timeout that is longer than 4 s', 'Keep-Alive: timeout=20\r\n', 18_999, 19_000],
    ['after a minute if the timeout is longer', 'Keep-Alive: timeout=3600\r\n', 59_999, 60_000],
  ])('%s', async (_name, header, last, over) => {
    const setClock = holdClock();
    const { origin, connections } = await startByteUpstream(
      ({ socket }) => void socket.write(ok.replace('\r\n', `\r\n${header}`)),
      { every: true },
    );
    const upstream = upstreamAt(origin);
    expect(await ask(upstream).outcome).toBe(200);
    setClock(last);
    expect(await ask(upstream).outcome).toBe(200);
    expect(connections).toHaveLength(1);
    setClock(last + over);
    expect(await ask(upstream).outcome).toBe(200);
    expect(connections).toHaveLength(2);
    await vi.waitFor(() => expect(connections[0]?.closed).toBe(true));
  });

  test.each([0, 1])('at once if the timeout of Keep-Alive is %i s', async (seconds) => {
    const { origin, connections } = await startByteUpstream(
      ({ socket }) => void socket.write(ok.replace('\r\n', `\r\nKeep-Alive: timeout=${seconds}\r\n`)),
      { every: true },
    );
    const upstream = upstreamAt(origin);
    for (let i = 1; i <= 2; i += 1) {
      expect(await ask(upstream).outcome).toBe(200);
      expect(connections).toHaveLength(i);
    }
  });

  test('even if no request needs it', async () => {
    const setClock = holdClock();
    const { origin, connections } = await startByteUpstream(({ socket }) => void socket.write(ok));
    expect(await ask(upstreamAt(origin)).outcome).toBe(200);
    setClock(4_000);
    await vi.waitFor(() => expect(connections[0]?.closed).toBe(true), { timeout: 3_000 });
  });
});

describe('when the upstream client is closed', () => {
  test('idle connections are closed at once, and busy ones after their response', async () => {
    const { origin, connections } = await startByteUpstream(({ socket, received }) => {
      if (!received.includes('/slow')) socket.write(ok);
    });
    const upstream = upstreamAt(origin);
    const slow = ask(upstream, 'GET', undefined, '/slow');
    await vi.waitFor(() => expect(connections).toHaveLength(1));
    expect(await ask(upstream).outcome).toBe(200);
    upstream.close();
    await vi.waitFor(() => expect(connections.map(({ closed }) => closed)).toEqual([false, true]));
    connections[0]?.socket.write(ok);
    expect(await slow.outcome).toBe(200);
    await vi.waitFor(() => expect(connections.map(({ closed }) => closed)).toEqual([true, true]));
  });

  test('a connection that is established later is closed after its response', async () => {
    const { origin, connections } = await startByteUpstream(({ socket }) => void socket.write(ok));
    const upstream = upstreamAt(origin);
    const { outcome } = ask(upstream);
    upstream.close();
    expect(await outcome).toBe(200);
    await vi.waitFor(() => expect(connections[0]?.closed).toBe(true));
  });
});

describe('a request whose client has disconnected is not sent', () => {
  test('if its connection is still being opened, which is given up', async () => {
    const { origin, connections } = await startByteUpstream(({ socket }) => void socket.write(ok), { every: true });
    const upstream = upstreamAt(origin);
    for (let i = 0; i < 20; i += 1) ask(upstream, 'POST', undefined, '/left').call.abort();
    await settle();
    await vi.waitFor(() => expect(connections.filter(({ closed }) => !closed)).toEqual([]));
    expect(await ask(upstream, 'GET', undefined, '/next').outcome).toBe(200);
    expect(linesOf(connections).flat()).toEqual(['GET /next HTTP/1.1']);
  });

  test('if its connection had been idle for a long time, which then serves the next request', async () => {
    const setClock = holdClock();
    const { origin, connections } = await startByteUpstream(({ socket }) => void socket.write(ok), { every: true });
    const upstream = upstreamAt(origin);
    expect(await ask(upstream, 'GET', undefined, '/first').outcome).toBe(200);
    setClock(3_000);
    ask(upstream, 'POST', undefined, '/left').call.abort();
    await turn();
    expect(await ask(upstream, 'GET', undefined, '/next').outcome).toBe(200);
    expect(linesOf(connections)).toEqual([['GET /first HTTP/1.1', 'GET /next HTTP/1.1']]);

    // A request that was not sent does not count as a use of the connection.
    setClock(6_000);
    ask(upstream, 'POST', undefined, '/left').call.abort();
    await turn();
    setClock(7_000);
    expect(await ask(upstream, 'GET', undefined, '/last').outcome).toBe(200);
    expect(connections).toHaveLength(2);
  });
});

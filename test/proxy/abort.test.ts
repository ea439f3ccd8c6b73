import { createServer as createTlsServer } from 'node:https';
import { connect, createServer } from 'node:net';
import { gzipSync } from 'node:zlib';
import { describe, expect, test, vi } from 'vitest';
import { createAuthority } from '../support/certificates.ts';
import {
  startByteUpstream,
  startSilentUpstream,
  type ByteUpstream,
  type UpstreamConnection,
} from '../support/byte-upstream.ts';
import { envelopeOf } from '../support/client.ts';
import { openConnection, parseOnly, type Connection } from '../support/connection.ts';
import { eventually } from '../support/eventually.ts';
import { refusingPort } from '../support/free-port.ts';
import { listen } from '../support/listen.ts';
import { inFlight } from '../support/metrics.ts';
import { acmeTest, configOf, keys, startSidecar, targetOf, type TestSidecar } from '../support/sidecar.ts';
import { settle } from '../support/turns.ts';
import { startRawUpstream } from '../support/upstream.ts';

/** How a response reaches the client: unchanged for globex, sealed for acme. */
const ways = {
  plain: { path: '/notes', key: keys.globex, body: 'text' },
  sealed: { path: '/api/s2s/charge', key: keys.acme, body: envelopeOf(acmeTest, '{"amount":1000}') },
} as const;
type Way = keyof typeof ways;

function head(way: Way, method: string, ...headers: readonly string[]): string {
  const { path, key } = ways[way];
  return [`${method} ${path} HTTP/1.1`, 'Host: localhost', `Authorization: Bearer ${key}`, ...headers, '', ''].join(
    '\r\n',
  );
}

function post(way: Way): string {
  const { body } = ways[way];
  return head(way, 'POST', `Content-Length: ${body.length}`) + body;
}

/** Waits until `count` requests are complete and none is in flight. Returns their access lines. */
async function lines(sidecar: TestSidecar, count: number): Promise<Record<string, unknown>[]> {
  await vi.waitFor(() => expect(sidecar.accessLines()).toHaveLength(count));
  expect(await inFlight(sidecar)).toBe(0);
  return sidecar.accessLines();
}

describe('a request whose client disconnects', () => {
  const disconnect = {
    closes: (client: Connection) => void client.socket.destroy(),
    resets: (client: Connection) => void client.socket.resetAndDestroy(),
    'ends its side': (client: Connection) => void client.socket.end(),
  };
  const cases = (Object.keys(disconnect) as (keyof typeof disconnect)[]).flatMap((how) =>
    (Object.keys(ways) as Way[]).map((way) => [how, way] as const),
  );

  /** Starts an upstream that responds only to `/next`, a sidecar in front of it, and a client. */
  async function startWaiting() {
    const upstream = await startByteUpstream(({ socket, received }) => {
      if (received.startsWith('GET /next ')) socket.write(`${ok}Content-Length: 2\r\n\r\n{}`);
    });
    const sidecar = await startSidecar(configOf(upstream.origin));
    return { upstream, sidecar, client: await openConnection(sidecar.port) };
  }

  /** Expects that all upstream connections carried `sent` and are closed, and that nothing but the next request follows. */
  async function expectClosed(
    { port }: TestSidecar,
    { connections }: ByteUpstream,
    ...sent: readonly unknown[]
  ): Promise<void> {
    await vi.waitFor(() => expect(connections.filter(({ closed }) => !closed)).toEqual([]));
    const next = await openConnection(port);
    next.send(head('plain', 'GET').replace('/notes', '/next'));
    expect(parseOnly(await next.untilText('{}')).status).toBe(200);
    expect(connections.map(({ received }) => received)).toEqual([...sent, expect.stringMatching(/^GET \/next /)]);
  }

  // The upstream gets the head of a streamed body at once, but nothing of an incomplete envelope.
  describe.each([
    ['before its body has arrived', ''],
    ['in the middle of its body', 'half of it'],
  ])('%s', (_, part) => {
    test.each(cases)('ends with 499 and leaves no upstream connection (client %s, %s)', async (how, way) => {
      const { upstream, sidecar, client } = await startWaiting();
      client.send(`${head(way, 'POST', 'Content-Length: 100')}${part}`);
      const arrived = expect.stringMatching(new RegExp(`^POST /notes [^]*\r\n\r\n${part}$`));
      if (way === 'plain') await vi.waitFor(() => expect(upstream.connections[0]?.received).toEqual(arrived));
      else await vi.waitFor(async () => expect(await inFlight(sidecar)).toBe(1));
      disconnect[how](client);
      expect(await lines(sidecar, 1)).toMatchObject([{ status: 499 }]);
      await expectClosed(sidecar, upstream, ...(way === 'plain' ? [arrived] : []));
    });
  });

  test.each(cases)(
    'while the upstream is working ends with 499 and closes the upstream connection (client %s, %s)',
    async (how, way) => {
      const { upstream, sidecar, client } = await startWaiting();
      client.send(post(way));
      await vi.waitFor(() => expect(upstream.connections[0]?.received).toContain('\r\n\r\n'));
      disconnect[how](client);
      expect(await lines(sidecar, 1)).toMatchObject([{ status: 499 }]);
      await expectClosed(sidecar, upstream, expect.stringMatching(/^POST /));
    },
  );

  test.each(cases)(
    'in the middle of the response ends with 499 and closes the upstream connection (client %s, %s)',
    async (how, way) => {
      const upstream = await startByteUpstream(({ socket }) => {
        socket.write('HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n20\r\n0123456789abcdef0123456789abcdef\r\n');
      });
      const sidecar = await startSidecar(configOf(upstream.origin));
      const client = await openConnection(sidecar.port);
      client.send(post(way));
      await client.untilText('\r\n\r\n');
      disconnect[how](client);
      expect(await lines(sidecar, 1)).toMatchObject([{ status: 499 }]);
      await vi.waitFor(() => expect(upstream.connections[0]?.closed).toBe(true));
    },
  );

  test('while the upstream connection is being opened ends with 499, and that connection is closed without a request', async () => {
    const authority = createAuthority();
    const heads: string[] = [];
    const core = createTlsServer(authority.issue('DNS:localhost'), (req, res) => {
      heads.push(`${req.method} ${req.url}`);
      res.end('{}');
    });
    const corePort = await listen(core);
    const gone = vi.fn<() => void>();
    // Connections reach the core only when the gate is opened.
    const { promise: opened, resolve: open } = Promise.withResolvers<unknown>();
    const gate = createServer(async (socket) => {
      socket
        .once('close', gone)
        .on('error', () => {})
        .resume();
      await opened;
      if (socket.destroyed) return;
      const onward = connect(corePort, '127.0.0.1');
      socket.pipe(onward).pipe(socket);
      socket.on('error', () => onward.destroy());
      onward.on('error', () => socket.destroy());
    });
    const origin = `https://localhost:${await listen(gate)}`;
    const upstream = targetOf(origin, { ca: authority.cert });
    const sidecar = await startSidecar(configOf('', { environments: [{ name: 'test', hosts: [], upstream }] }));
    const client = await openConnection(sidecar.port);
    client.send(post('plain'));
    await vi.waitFor(async () => expect(await inFlight(sidecar)).toBe(1));
    client.socket.destroy();
    expect(await lines(sidecar, 1)).toMatchObject([{ status: 499 }]);
    // If this connection stayed open, clients that disconnect could make the sidecar open more connections than there are slots.
    await vi.waitFor(() => expect(gone).toHaveBeenCalledTimes(1), 10_000);
    open(undefined);

    const next = await openConnection(sidecar.port);
    next.send(head('plain', 'GET'));
    expect(parseOnly(await next.untilText('}')).status).toBe(200);
    expect(heads).toEqual(['GET /notes']);
  });
});

/** How an upstream fails. */
interface Fault {
  readonly name: string;
  /** Sends the response. If the fault is in the middle of the response, it follows when `begun` resolves. */
  readonly response: (connection: UpstreamConnection, begun: Promise<unknown>) => void;
  /** The status that the client gets, or `broken` if its response breaks off visibly. */
  readonly plain: number | 'broken';
  readonly sealed: number | 'broken';
  /** The code of a 502. */
  readonly code?: 'sealing_failed';
}

const ok = 'HTTP/1.1 200 OK\r\n';
const chunked = `${ok}Transfer-Encoding: chunked\r\n\r\n`;
const chunk = '20\r\n0123456789abcdef0123456789abcdef\r\n';
const says =
  (...bytes: readonly (string | Buffer)[]) =>
  ({ socket }: UpstreamConnection): void => {
    for (const part of bytes) socket.write(typeof part === 'string' ? Buffer.from(part, 'latin1') : part);
  };
const then =
  (first: Fault['response'], end: (socket: UpstreamConnection['socket']) => void): Fault['response'] =>
  (connection, begun) => {
    first(connection, begun);
    void begun.then(() => end(connection.socket));
  };
const closing = (first: Fault['response']): Fault['response'] => then(first, (socket) => void socket.end());
const resetting = (first: Fault['response']): Fault['response'] =>
  then(first, (socket) => void socket.resetAndDestroy());
const both = (status: number | 'broken'): Pick<Fault, 'plain' | 'sealed'> => ({ plain: status, sealed: status });

const zipped = gzipSync('0123456789'.repeat(1_000));
const faults: readonly Fault[] = [
  { name: 'closes before the head', response: closing(says()), ...both(502) },
  { name: 'resets before the head', response: resetting(says()), ...both(502) },
  { name: 'closes in the head', response: closing(says('HTTP/1.1 200 OK\r\nContent-Le')), ...both(502) },
  { name: 'resets in the head', response: resetting(says('HTTP/1.1 200 OK\r\nContent-Le')), ...both(502) },
  { name: 'hangs before the head', response: says(), ...both(504) },
  { name: 'hangs in the head', response: says('HTTP/1.1 200 OK\r\nContent-Le'), ...both(504) },
  { name: 'speaks another protocol', response: says('SSH-2.0-OpenSSH_9.2\r\n'), ...both(502) },
  { name: 'misspells HTTP', response: says('HTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n'), ...both(502) },
  { name: 'speaks HTTP/2', response: says('HTTP/2 200\r\nContent-Length: 0\r\n\r\n'), ...both(502) },
  { name: 'gives status 099', response: says('HTTP/1.1 099 Low\r\nContent-Length: 0\r\n\r\n'), ...both(502) },
  { name: 'gives status 600', response: says('HTTP/1.1 600 High\r\nContent-Length: 0\r\n\r\n'), ...both(502) },
  { name: 'gives status 999', response: says('HTTP/1.1 999 Higher\r\nContent-Length: 2\r\n\r\nok'), ...both(502) },
  { name: 'gives a status of two digits', response: says('HTTP/1.1 20 OK\r\nContent-Length: 0\r\n\r\n'), ...both(502) },
  {
    name: 'gives a status of four digits',
    response: says('HTTP/1.1 2000 OK\r\nContent-Length: 0\r\n\r\n'),
    ...both(502),
  },
  {
    name: 'sends an unsolicited 100',
    response: says(`HTTP/1.1 100 Continue\r\n\r\n${ok}Content-Length: 0\r\n\r\n`),
    ...both(200),
  },
  {
    name: 'sends an unsolicited 101',
    response: says('HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\n'),
    ...both(502),
  },
  {
    name: 'sends too large a head',
    response: says(`${ok}X: ${'x'.repeat(40_000)}\r\nContent-Length: 0\r\n\r\n`),
    ...both(502),
  },
  { name: 'sends a NUL in a header', response: says(`${ok}X: a\0b\r\nContent-Length: 0\r\n\r\n`), ...both(502) },
  { name: 'sends a bell in a header', response: says(`${ok}X: a\x07b\r\nContent-Length: 0\r\n\r\n`), ...both(502) },
  { name: 'sends a bare line feed', response: says('HTTP/1.1 200 OK\nContent-Length: 0\n\n'), ...both(502) },
  {
    name: 'states two lengths',
    response: says(`${ok}Content-Length: 2\r\nContent-Length: 3\r\n\r\nabc`),
    ...both(502),
  },
  {
    name: 'states length and chunks',
    response: says(`${ok}Content-Length: 2\r\nTransfer-Encoding: chunked\r\n\r\nab`),
    ...both(502),
  },
  { name: 'states a negative length', response: says(`${ok}Content-Length: -2\r\n\r\nab`), ...both(502) },
  // A short response of stated length is sealed in one piece, so the sidecar knows of the fault before it sends anything.
  {
    name: 'closes before the stated length',
    response: closing(says(`${ok}Content-Length: 10\r\n\r\nhalf`)),
    plain: 'broken',
    sealed: 502,
  },
  {
    name: 'resets before the stated length',
    response: resetting(says(`${ok}Content-Length: 10\r\n\r\nhalf`)),
    plain: 'broken',
    sealed: 502,
  },
  {
    name: 'hangs before the stated length',
    response: says(`${ok}Content-Length: 10\r\n\r\nhalf`),
    plain: 'broken',
    sealed: 504,
  },
  {
    name: 'closes after the head',
    response: closing(says(`${ok}Content-Length: 10\r\n\r\n`)),
    plain: 'broken',
    sealed: 502,
  },
  {
    name: 'closes before a large stated length',
    response: closing(says(`${ok}Content-Length: 100000\r\n\r\n${'x'.repeat(50_000)}`)),
    ...both('broken'),
  },
  { name: 'closes between chunks', response: closing(says(chunked, chunk)), ...both('broken') },
  { name: 'resets between chunks', response: resetting(says(chunked, chunk)), ...both('broken') },
  { name: 'hangs between chunks', response: says(chunked, chunk), ...both('broken') },
  { name: 'closes in a chunk', response: closing(says(chunked, chunk, '20\r\n0123')), ...both('broken') },
  {
    name: 'sends an invalid chunk size',
    response: then(says(chunked, chunk), (socket) => void socket.write('zz\r\n')),
    ...both('broken'),
  },
  // A response that ends when its connection closes cannot be told from a truncated one.
  {
    name: 'states neither a length nor chunks',
    response: closing(says(`${ok}Connection: close\r\n\r\nhalf`)),
    ...both(502),
  },
  {
    name: 'resets in a compressed body',
    response: resetting(says(`${chunked.replace(ok, `${ok}Content-Encoding: gzip\r\n`)}5\r\n`, zipped.subarray(0, 5))),
    plain: 'broken',
    sealed: 502,
  },
  {
    name: 'resets before the last chunk',
    response: resetting(
      says(
        `${chunked.replace(ok, `${ok}Content-Encoding: gzip\r\n`)}${zipped.length.toString(16)}\r\n`,
        zipped,
        '\r\n',
      ),
    ),
    ...both('broken'),
  },
  {
    name: 'truncates a compressed body',
    response: says(`${ok}Content-Encoding: gzip\r\nContent-Length: 20\r\n\r\n`, zipped.subarray(0, 20)),
    plain: 200,
    sealed: 502,
    code: 'sealing_failed',
  },
  {
    name: 'names a coding that its body is not in',
    response: says(`${ok}Content-Encoding: gzip\r\nContent-Length: 10\r\n\r\n0123456789`),
    plain: 200,
    sealed: 502,
    code: 'sealing_failed',
  },
];

describe('if the upstream', () => {
  const limits = { inFlight: 4 };

  /** Fills all slots with good requests at the same time, which fails if a slot was lost. */
  async function expectAllSlots(sidecar: TestSidecar, way: Way): Promise<void> {
    const clients = await Promise.all(Array.from({ length: limits.inFlight }, () => openConnection(sidecar.port)));
    for (const client of clients) client.send(post(way));
    for (const client of clients) expect(parseOnly(await client.untilText('}')).status).toBe(200);
  }

  const outcomeOf = (expected: number | 'broken'): string =>
    expected === 'broken' ? 'a visibly broken response' : String(expected);
  const cases = faults.flatMap((fault) => [
    { ...fault, way: 'plain' as const, expected: fault.plain, outcome: outcomeOf(fault.plain) },
    { ...fault, way: 'sealed' as const, expected: fault.sealed, outcome: outcomeOf(fault.sealed) },
  ]);

  test.each(cases)(
    '$name, the client gets $outcome, never a truncated response that looks complete ($way)',
    async ({ name, response, way, expected, code = 'upstream_unavailable' }) => {
      const { promise: begun, resolve: begin } = Promise.withResolvers<unknown>();
      const waiting: UpstreamConnection[] = [];
      let hasRecovered = false;
      const upstream = await startByteUpstream(
        (connection) => {
          if (!hasRecovered) {
            response(connection, begun);
            return;
          }
          waiting.push(connection);
          // Respond only when all requests have arrived, so that each of them needs a slot.
          if (waiting.length === limits.inFlight) {
            for (const { socket } of waiting) socket.write(`${ok}Content-Length: 2\r\nConnection: close\r\n\r\n{}`);
          }
        },
        { every: true },
      );
      const timeouts = name.startsWith('hangs ') ? { upstream: 250 } : {};
      const sidecar = await startSidecar(configOf(upstream.origin, { timeouts, limits }));
      const clients = await Promise.all(Array.from({ length: limits.inFlight }, () => openConnection(sidecar.port)));
      for (const client of clients) client.send(post(way));
      // A reset may overtake bytes, so wait until the response that is to break has begun.
      if (expected === 'broken') await Promise.all(clients.map((client) => client.untilText('\r\n\r\n')));
      else await settle();
      begin(undefined);
      if (expected === 'broken') {
        for (const client of clients) {
          const raw = await client.untilEnded();
          expect(() => parseOnly(raw)).toThrow(/not a whole/);
        }
      } else {
        for (const client of clients) {
          const raw = await client.untilText('\r\n\r\n');
          expect(raw.startsWith(`HTTP/1.1 ${expected} `)).toBe(true);
        }
      }
      await vi.waitFor(async () => expect(await inFlight(sidecar)).toBe(0));
      const ends = sidecar.accessLines();
      expect(ends.map(({ status }) => status)).toEqual(Array(4).fill(expected === 'broken' ? 200 : expected));
      const codes = new Map<unknown, unknown>([
        [502, code],
        [504, 'upstream_timeout'],
      ]);
      if (expected !== 'broken') expect(ends.map((end) => end['code'])).toEqual(Array(4).fill(codes.get(expected)));
      hasRecovered = true;
      sidecar.app.apply(configOf(upstream.origin, { limits }));
      await expectAllSlots(sidecar, way);
    },
  );

  test.each(['plain', 'sealed'] as const)('refuses connections, the client gets 502 (%s)', async (way) => {
    const sidecar = await startSidecar(configOf(`http://127.0.0.1:${refusingPort}`, { limits }));
    for (let round = 0; round < 3; round += 1) {
      const clients = await Promise.all([1, 2, 3, 4].map(() => openConnection(sidecar.port)));
      for (const client of clients) client.send(post(way));
      for (const client of clients) expect(parseOnly(await client.untilText('}')).status).toBe(502);
    }
    expect(sidecar.accessLines()[0]).toMatchObject({ code: 'upstream_unavailable', upstream_error: 'ECONNREFUSED' });
  });

  test.each(['plain', 'sealed'] as const)(
    'never completes the TLS handshake, the client gets 504 after a single attempt (%s)',
    async (way) => {
      const upstream = await startSilentUpstream();
      const origin = upstream.origin.replace('http:', 'https:');
      const sidecar = await startSidecar(configOf(origin, { timeouts: { connect: 200 }, limits }));
      for (let round = 0; round < 2; round += 1) {
        const clients = await Promise.all([1, 2, 3, 4].map(() => openConnection(sidecar.port)));
        for (const client of clients) client.send(post(way));
        for (const client of clients) expect(parseOnly(await client.untilText('}')).status).toBe(504);
      }
      expect(sidecar.accessLines()[0]).toMatchObject({ code: 'upstream_timeout' });
      // The sidecar does not retry after a connection attempt that timed out, although nothing was sent.
      expect(upstream.connections).toHaveLength(8);
    },
  );

  test('sends more than its Content-Length, the excess is discarded and the connection is not reused', async () => {
    const upstream = await startByteUpstream(
      says(`${ok}Content-Length: 2\r\n\r\n{}HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\nevil`),
    );
    const sidecar = await startSidecar(configOf(upstream.origin));
    const client = await openConnection(sidecar.port);
    for (let i = 1; i <= 5; i += 1) {
      client.send(post('plain'));
      await client.untilText('{}', i);
    }
    expect(client.received).not.toContain('evil');
    expect(upstream.connections).toHaveLength(5);
  });

  test.each(['\x01', '\x1b[31m', '\x7f'])(
    'sends the control character %j in its reason phrase, the client gets 502 without it',
    async (control) => {
      const upstream = await startByteUpstream(says(`HTTP/1.1 200 O${control}K\r\nContent-Length: 2\r\n\r\n{}`));
      const sidecar = await startSidecar(configOf(upstream.origin));
      const client = await openConnection(sidecar.port);
      client.send(post('plain'));
      const raw = await client.untilText('}');
      expect(parseOnly(raw).status).toBe(502);
      expect(raw).not.toContain(control);
    },
  );

  test.each([
    ['a stated length', `${ok}Content-Length: 1000\r\n\r\nhalf`],
    ['chunks', `${chunked}${chunk}`],
  ])(
    'resets within a body framed by %s, an HTTP/1.0 client gets a reset, or 502 if nothing was sent yet',
    async (name, bytes) => {
      const upstream = await startByteUpstream(says(bytes));
      const sidecar = await startSidecar(configOf(upstream.origin));
      for (const way of ['plain', 'sealed'] as const) {
        const client = await openConnection(sidecar.port);
        client.send(post(way).replace('HTTP/1.1', 'HTTP/1.0'));
        // A short response of stated length is sealed in one piece, so the client gets a complete refusal instead.
        const refused = way === 'sealed' && name === 'a stated length';
        const { socket } = await eventually('the upstream has the request', () =>
          upstream.connections.find(({ received, closed }) => !closed && received.includes('\r\n\r\n')),
        );
        if (!refused) await client.untilText('\r\n\r\n');
        socket.resetAndDestroy();
        await client.untilEnded();
        expect(client.received.includes(' 502 ')).toBe(refused);
        if (!refused) expect(client.ending).toBe('reset');
      }
    },
  );

  test('resets while its compressed response is being decoded, the client gets 502 or a visibly broken response', async () => {
    const big = gzipSync(Buffer.alloc(4 << 20, 'x'), { level: 9 });
    const upstream = await startByteUpstream((connection) => {
      says(`${ok}Content-Encoding: gzip\r\nContent-Length: ${big.length + 1}\r\n\r\n`, big)(connection);
      setImmediate(() => connection.socket.resetAndDestroy());
    });
    const sidecar = await startSidecar(configOf(upstream.origin));
    for (let i = 0; i < 30; i += 1) {
      const client = await openConnection(sidecar.port);
      client.send(post('sealed').replace('\r\n', '\r\nConnection: close\r\n'));
      const raw = await client.untilEnded();
      // One byte of the response is missing, so the client gets a refusal or a visibly broken response.
      expect(raw).toMatch(/^HTTP\/1\.1 (?:502|200) /);
      if (raw.startsWith('HTTP/1.1 502 ')) expect(parseOnly(raw).status).toBe(502);
      else expect(() => parseOnly(raw)).toThrow(/not a whole/);
    }
    await vi.waitFor(async () => expect(await inFlight(sidecar)).toBe(0));
  });
});

describe('a client that reads slowly', () => {
  test.each(['plain', 'sealed'] as const)(
    'slows the upstream down, and is disconnected when it has read nothing for the idle timeout (%s)',
    async (way) => {
      let sent = 0;
      let closed = false;
      const upstream = await startRawUpstream((req, res) => {
        req.resume();
        res.on('close', () => {
          closed = true;
        });
        const piece = Buffer.alloc(65_536, 'x');
        const pump = (): void => {
          while (!res.destroyed && res.write(piece)) sent += piece.length;
        };
        res.on('drain', pump);
        pump();
      });
      const sidecar = await startSidecar(configOf(upstream.origin, { timeouts: { idle: 500 } }));
      const client = await openConnection(sidecar.port);
      client.socket.pause();
      client.send(post(way));

      await vi.waitFor(() => expect(closed).toBe(true), { timeout: 10_000 });
      // Some of the response is sent nevertheless, because the kernel's buffers take it.
      expect(sent).toBeLessThan(64 << 20);
      client.socket.resume();
      const raw = await client.untilEnded();
      expect(() => parseOnly(raw)).toThrow(/not a whole/);
      await vi.waitFor(async () => expect(await inFlight(sidecar)).toBe(0));
    },
  );

  test('may take longer than any timeout as long as it keeps reading', async () => {
    const body = Buffer.alloc(20 << 20, 'x');
    const upstream = await startRawUpstream((req, res) => {
      req.resume();
      res.writeHead(200, { 'Content-Length': body.length }).end(body);
    });
    const sidecar = await startSidecar(configOf(upstream.origin, { timeouts: { idle: 1_500, upstream: 300 } }));
    const client = await openConnection(sidecar.port);
    // Pause after each read, so that the download lasts longer than the timeouts.
    client.socket.on('data', () => {
      client.socket.pause();
      setTimeout(() => client.socket.resume(), 10);
    });
    client.send(post('plain'));
    await client.untilText('\r\n\r\n');
    const length = client.received.indexOf('\r\n\r\n') + 4 + body.length;
    await client.until((received) => received.length === length);
    await vi.waitFor(() => expect(sidecar.accessLines()).toMatchObject([{ status: 200 }]));
  });
});

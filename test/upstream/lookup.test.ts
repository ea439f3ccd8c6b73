import dns from 'node:dns';
import { createServer } from 'node:http';
import { createServer as createHttpsServer } from 'node:https';
import { syncBuiltinESMExports } from 'node:module';
import { connect, type LookupFunction } from 'node:net';
import { setTimeout as delay } from 'node:timers/promises';
import { expect, onTestFinished, test, vi } from 'vitest';
import { SharedLookup } from '../../src/upstream/lookup.ts';
import { createAuthority } from '../support/certificates.ts';
import { send } from '../support/client.ts';
import { openConnection } from '../support/connection.ts';
import { eventually } from '../support/eventually.ts';
import { configOf, keys, route, routes, startSidecar, targetOf, type TestSidecar } from '../support/sidecar.ts';
import { startWebSocketUpstream } from '../support/web-socket-upstream.ts';

const authority = createAuthority();
const original = Object.getOwnPropertyDescriptor(SharedLookup.prototype, 'forOne')?.value as SharedLookup['forOne'];
const head = `Host: localhost\r\nAuthorization: Bearer ${keys.globex}\r\n`;
const request = `GET /notes HTTP/1.1\r\n${head}\r\n`;
const handshake =
  `GET /ws/feed HTTP/1.1\r\n${head}Connection: Upgrade\r\nUpgrade: websocket\r\n` +
  'Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n';

/** Kinds of requests: the name, the protocol of the core, and what a client sends. */
const kinds = [
  ['requests', 'http', request],
  ['requests over TLS', 'https', request],
  ['WebSockets', 'http', handshake],
  ['WebSockets over TLS', 'https', handshake],
] as const;

/** Starts a sidecar in front of a core at `localhost`. */
function startBefore(protocol: 'http' | 'https', port: number): Promise<TestSidecar> {
  const upstream = targetOf(`${protocol}://localhost:${port}`, { ca: authority.cert });
  return startSidecar(
    configOf('', {
      routes: [...routes, route('/ws/*', { upgrade: true })],
      environments: [{ name: 'test', hosts: [], upstream }],
    }),
  );
}

/** Replaces the system's look-up until the end of the test. Returns a function that restores it earlier. */
function replaceLookup(by: LookupFunction): () => void {
  const spy = vi.spyOn(dns, 'lookup').mockImplementation(by as typeof dns.lookup);
  syncBuiltinESMExports();
  const restore = (): void => {
    spy.mockRestore();
    syncBuiltinESMExports();
  };
  onTestFinished(restore);
  return restore;
}

/** Makes the `i`th look-up take `time(i)` milliseconds. Counts all look-ups, and the maximum number of them at the same time. */
function slowLookups(time: (i: number) => number = () => 450): {
  readonly count: () => number;
  readonly most: () => number;
} {
  const { lookup } = dns;
  let count = 0;
  let running = 0;
  let most = 0;
  const slow: LookupFunction = (host, options, callback) => {
    // Do not count the look-ups of the listeners' own addresses.
    if (host !== 'localhost') return lookup(host, options, callback);
    count += 1;
    running += 1;
    most = Math.max(most, running);
    setTimeout(() => {
      running -= 1;
      lookup(host, options, callback);
    }, time(count));
  };
  replaceLookup(slow);
  return { count: () => count, most: () => most };
}

test.each(kinds)(
  '%s that are given up leave behind no look-ups of the core that others wait for',
  async (_, protocol, text) => {
    const lookups = slowLookups();
    const tls = createHttpsServer(authority.issue('DNS:localhost'));
    const { port } = await startWebSocketUpstream(protocol === 'http' ? createServer() : tls);
    const sidecar = await startBefore(protocol, port);
    for (let i = 0; i < 40; i += 1) {
      const client = connect(sidecar.port, '127.0.0.1');
      client.write(text);
      await delay(5);
      client.destroy();
    }
    expect((await send(sidecar, 'GET /notes', { key: keys.globex })).status).toBe(200);
    const client = await openConnection(sidecar.port);
    client.send(handshake);
    await client.untilText('101 Switching Protocols');
    expect(lookups.count()).toBeGreaterThan(1);
    // A second look-up begins because the first one is late. No third one begins.
    expect(lookups.most()).toBe(2);
  },
);

test('a look-up whose answer is lost keeps no request waiting for seconds', async () => {
  // The first look-up takes five seconds, as if the resolver had to be asked again.
  const lookups = slowLookups((i) => (i === 1 ? 5_000 : 3));
  const { port } = await startWebSocketUpstream();
  const sidecar = await startBefore('http', port);
  const began = Date.now();
  const first = send(sidecar, 'GET /notes', { key: keys.globex });
  await delay(150);
  const others = [1, 2, 3].map(() => send(sidecar, 'GET /notes', { key: keys.globex }));
  const responses = await Promise.all([first, ...others]);
  expect(responses.map(({ status }) => status)).toEqual([200, 200, 200, 200]);
  expect(Date.now() - began).toBeLessThan(2_000);
  expect(lookups.count()).toBe(2);
});

test('a failed look-up fails no request while another look-up is in progress', async () => {
  const { lookup } = dns;
  const pending: ((fails: boolean) => void)[] = [];
  const held: LookupFunction = (host, options, callback) => {
    pending.push((fails) =>
      fails ? callback(Object.assign(new Error('lost'), { code: 'EAI_AGAIN' }), '') : lookup(host, options, callback),
    );
  };
  const restore = replaceLookup(held);
  const done: unknown[] = [];
  const shared = new SharedLookup();
  const ask = (): void =>
    shared.forOne().lookup('localhost', { all: true }, (error) => void done.push(error?.code ?? 'found'));
  ask();
  ask();
  expect(pending).toHaveLength(1);
  await delay(150);
  ask();
  ask();
  restore();
  expect(pending).toHaveLength(2);
  pending[0]?.(true);
  expect(done).toEqual([]);
  pending[1]?.(false);
  await eventually('all have the result', () => done.length === 4);
  expect(done).toEqual(['found', 'found', 'found', 'found']);

  ask();
  await eventually('the next one is looked up anew', () => done.length === 5);
});

test.each(kinds)('%s that are given up are not kept until a look-up ends', async (_, protocol, text) => {
  // The look-ups take longer than this test.
  const lookups = slowLookups(() => 60_000);
  let withdrawn = 0;
  const forOne = vi.spyOn(SharedLookup.prototype, 'forOne').mockImplementation(function (this: SharedLookup) {
    const own = original.call(this);
    return {
      lookup: own.lookup,
      withdraw: () => {
        withdrawn += 1;
        own.withdraw();
      },
    };
  });
  onTestFinished(() => forOne.mockRestore());
  const sidecar = await startBefore(protocol, 1);
  for (let i = 1; i <= 20; i += 1) {
    const client = connect(sidecar.port, '127.0.0.1');
    client.write(text);
    await eventually('its core is looked up', () => forOne.mock.calls.length === i);
    await delay(5);
    client.destroy();
  }
  await eventually('all are withdrawn', () => withdrawn === 20);
  expect(lookups.count()).toBeGreaterThan(0);
});

test('a connection that is withdrawn gets no result', async () => {
  const lookups = new SharedLookup();
  const done: string[] = [];
  const [one, other] = [lookups.forOne(), lookups.forOne()];
  one.lookup('localhost', { all: true }, () => void done.push('one'));
  other.lookup('localhost', { all: true }, () => void done.push('other'));
  one.withdraw();
  await eventually('the other connection has a result', () => done.length === 1);
  expect(done).toEqual(['other']);
});

import { setTimeout } from 'node:timers/promises';
import { connect as connectTls } from 'node:tls';
import { describe, expect, onTestFinished, test, vi } from 'vitest';
import { Budgets, type Claim } from '../../src/proxy/capacity/budgets.ts';
import type { LimitName } from '../../src/proxy/capacity/parts.ts';
import { TickQueue } from '../../src/tick-queue.ts';
import { Reservation } from '../../src/proxy/capacity/reservation.ts';
import { createAuthority } from '../support/certificates.ts';
import { Connection, openConnection } from '../support/connection.ts';
import { eventually } from '../support/eventually.ts';
import { startGateway } from '../support/gateway.ts';
import { inFlight, limitUsed, scrape } from '../support/metrics.ts';
import { request } from '../support/refused.ts';
import { acme, apiKey, configOf, globex, keys, type TestSidecar } from '../support/sidecar.ts';
import { settle } from '../support/turns.ts';
import type { TestUpstream } from '../support/upstream.ts';

const globexLive = 'sk_live_globexglobexglobexglobex';
const shopPublic = 'pk_test_shopshopshopshopshopshop';
const quietKey = 'sk_test_quietquietquietquietquie';
const accounts = [
  acme,
  { ...globex, keys: [...globex.keys, apiKey(globexLive)] },
  { ...globex, id: 'shop', keys: [apiKey(shopPublic)] },
  { ...globex, id: 'quiet', keys: [apiKey(quietKey)] },
];
const hosts = { test: 'sandbox.pay.example', live: 'api.pay.example' };

type Limits = NonNullable<NonNullable<Parameters<typeof startGateway>[0]>['limits']>;

/** Starts a sidecar, for test or for both environments, whose upstream does not respond if the target ends with `never`. */
function start(limits: Limits, serves: 'test' | 'both' = 'test') {
  const respond = (seen: { url: string }, res: { end: (body: string) => unknown }): void => {
    if (!seen.url.endsWith('never')) res.end('{"ok":true}');
  };
  return startGateway({ accounts, limits, serves, respond });
}

function bytes(path: string, key: string, body?: string): string {
  const host = key.includes('_live_') ? hosts.live : hosts.test;
  const lines = [`Host: ${host}`, `Authorization: Bearer ${key}`];
  if (body === undefined) return request(`GET ${path} HTTP/1.1`, ...lines);
  return request(`POST ${path} HTTP/1.1`, ...lines, `Content-Length: ${body.length}`) + body;
}

async function open({ port }: TestSidecar, path: string, key: string, body?: string): Promise<Connection> {
  return (await openConnection(port)).send(bytes(path, key, body));
}

const visit = bytes('/api/v1/transactions/initialize', keys.globexPublic).replace('GET', 'POST');

/** A visit that never gets a response. */
const busyVisit = visit.replace('initialize', 'initialize?never');

/** Sends the request of a shop's customer on a new connection. */
async function openVisit({ port }: TestSidecar): Promise<Connection> {
  return (await openConnection(port)).send(visit);
}

/** Sends requests that never get a response, each on its own connection. */
async function openBusy(
  sidecar: TestSidecar,
  upstream: TestUpstream,
  count: number,
  key: string,
): Promise<readonly Connection[]> {
  const before = upstream.heads();
  const clients = [];
  for (let i = 0; i < count; i += 1) clients.push(await open(sidecar, '/never', key));
  await vi.waitFor(() => expect(upstream.heads()).toBe(before + count));
  return clients;
}

/** A request to a test endpoint, which needs no key. */
function encrypt(body: string, key?: string): string {
  const fields = [`Host: ${hosts.test}`, `key: ${'k'.repeat(32)}`, `iv: ${'i'.repeat(16)}`];
  if (key !== undefined) fields.push(`Authorization: Bearer ${key}`);
  return request('POST /api/s2s/aes-encrypt HTTP/1.1', ...fields, `Content-Length: ${body.length}`) + body;
}

/** Expects that a request is refused because of this share, which only the log names, and that the request does not reach the upstream. */
async function expectRefused(
  { sidecar, upstream }: Awaited<ReturnType<typeof start>>,
  client: Connection,
  reason: string,
): Promise<void> {
  const before = upstream.heads();
  const response = await client.untilText('}');
  expect(response).toContain('HTTP/1.1 503 ');
  expect(response).toContain('"code":"overloaded"');
  expect(response).not.toMatch(/account|reason/);
  await vi.waitFor(() => expect(sidecar.accessLines().filter(({ code }) => code === 'overloaded')).toHaveLength(1));
  expect(sidecar.accessLines().at(-1)).toMatchObject({ status: 503, code: 'overloaded', reason });
  await settle();
  expect(upstream.heads()).toBe(before);
}

async function expectServed(sidecar: TestSidecar, key: string): Promise<void> {
  expect(await (await open(sidecar, '/now', key)).untilText('}')).toContain('{"ok":true}');
}

describe('an account has', () => {
  test('its share of the requests in flight, and leaves the rest to others', async () => {
    const gateway = await start({ inFlight: 8, account: 0.5 });
    const { sidecar, upstream } = gateway;
    await openBusy(sidecar, upstream, 3, keys.globex);
    await expectServed(sidecar, keys.globex);
    await openBusy(sidecar, upstream, 1, keys.globex);
    await expectRefused(gateway, await open(sidecar, '/now', keys.globex), 'account');
    await expectServed(sidecar, keys.acme);
  });

  test('its share whichever of its keys is used', async () => {
    const gateway = await start({ inFlight: 8, account: 0.5 });
    const { sidecar, upstream } = gateway;
    await openBusy(sidecar, upstream, 4, keys.globex);
    const visit = bytes('/api/v1/transactions/initialize', keys.globexPublic, '{}');
    await expectRefused(gateway, (await openConnection(sidecar.port)).send(visit), 'account');
  });

  test('half of its share of requests in flight for its public keys, so that they cannot keep out its secret ones', async () => {
    const gateway = await start({ inFlight: 8, account: 0.5 });
    const { sidecar, upstream } = gateway;
    for (let i = 1; i <= 2; i += 1) {
      (await openConnection(sidecar.port)).send(busyVisit);
      await vi.waitFor(async () => expect(await inFlight(sidecar)).toBe(i));
    }
    await vi.waitFor(() => expect(upstream.heads()).toBe(2));
    await expectRefused(gateway, (await openConnection(sidecar.port)).send(busyVisit), 'account');
    await openBusy(sidecar, upstream, 1, keys.globex);
    await expectServed(sidecar, keys.globex);
  });

  test('half of its share of connections for its public keys, of which idle ones give way', async () => {
    const { sidecar } = await start({ connections: 16, account: 0.25 });
    const [idle, busy] = [await openVisit(sidecar), await openVisit(sidecar)];
    await idle.untilText('{"ok":true}');
    await busy.untilText('{"ok":true}');
    busy.send(busyVisit);
    await vi.waitFor(async () => expect(await inFlight(sidecar)).toBe(1));
    const third = await openVisit(sidecar);
    await third.untilText('{"ok":true}');
    await idle.untilEnded();
    expect(busy.ending).toBe('open');
    third.send(busyVisit);
    await vi.waitFor(async () => expect(await inFlight(sidecar)).toBe(2));
    expect(await (await openVisit(sidecar)).untilEnded()).toContain('"code":"overloaded"');
    await expectServed(sidecar, keys.globex);
  });

  test('its share in each environment', async () => {
    const gateway = await start({ inFlight: 16, account: 0.25 }, 'both');
    const { sidecar, upstream } = gateway;
    await openBusy(sidecar, upstream, 4, keys.globex);
    await expectRefused(gateway, await open(sidecar, '/now', keys.globex), 'account');
    await expectServed(sidecar, globexLive);
  });

  test('its share of the bytes of bodies, to the byte', async () => {
    const gateway = await start({ buffered: 8_000, requestBody: 4_000, account: 0.5 });
    const { sidecar, upstream } = gateway;
    await open(sidecar, '/never', keys.globex, 'x'.repeat(3_000));
    await vi.waitFor(() => expect(upstream.heads()).toBe(1));
    const fits = await open(sidecar, '/now', keys.globex, 'x'.repeat(1_000));
    await fits.untilText('{"ok":true}');
    await expectRefused(gateway, await open(sidecar, '/now', keys.globex, 'x'.repeat(1_001)), 'account');
    const other = await open(sidecar, '/now', keys.acme, JSON.stringify('x'.repeat(3_000)));
    await other.untilText('{"ok":true}');
  });

  test('its share of the connections; one more is closed with its refusal', async () => {
    const gateway = await start({ connections: 8, account: 0.25 });
    const { sidecar } = gateway;
    const own = [await open(sidecar, '/now', keys.globex), await open(sidecar, '/now', keys.globex)];
    for (const client of own) await client.untilText('{"ok":true}');
    const third = await open(sidecar, '/now', keys.globex);
    await expectRefused(gateway, third, 'account');
    expect(await third.untilEnded()).toMatch(/^Connection: close\r$/m);
    await expectServed(sidecar, keys.acme);
    own[0]?.socket.destroy();
    await vi.waitFor(async () => expect(await limitUsed(sidecar, 'connections')).toBe(2));
    await expectServed(sidecar, keys.globex);
  });

  test('a connection for as long as the latest request on it was its own', async () => {
    const { sidecar } = await start({ connections: 8, account: 0.125 });
    const shared = await open(sidecar, '/now', keys.globex);
    await shared.untilText('{"ok":true}');
    // Now the connection belongs to the other account, so the first account may have another one.
    await shared.send(bytes('/now', keys.acme)).untilText('{"ok":true}', 2);
    const next = await open(sidecar, '/now', keys.globex);
    await next.untilText('{"ok":true}');
    shared.send(bytes('/now', keys.globex));
    expect(await shared.untilEnded()).toContain('"code":"overloaded"');
    await vi.waitFor(() =>
      expect(sidecar.accessLines().at(-1)).toMatchObject({ code: 'overloaded', reason: 'account', account: 'globex' }),
    );
    await vi.waitFor(async () => expect(await limitUsed(sidecar, 'connections')).toBe(1));
    await expectServed(sidecar, keys.acme);
  });
});

test('half of all connections are for secret keys and clients without a known key; idle ones with public keys give way', async () => {
  const { sidecar } = await start({ connections: 4, account: 1 });
  const visitors = [await openVisit(sidecar), await openVisit(sidecar)];
  for (const visitor of visitors) await visitor.untilText('{"ok":true}');
  const third = await openVisit(sidecar);
  await third.untilText('{"ok":true}');
  const left = () => [...visitors, third].filter(({ ending }) => ending === 'open');
  await eventually('one has been closed', () => left().length === 2);
  for (const busy of left()) busy.send(busyVisit);
  await vi.waitFor(async () => expect(await inFlight(sidecar)).toBe(2));
  expect(await (await openVisit(sidecar)).untilEnded()).toContain('"code":"overloaded"');
  await expectServed(sidecar, keys.acme);
  await expectServed(sidecar, keys.globex);
});

describe('beside live, the test environment has', () => {
  test('half of the requests in flight', async () => {
    const gateway = await start({ inFlight: 8 }, 'both');
    const { sidecar, upstream } = gateway;
    await openBusy(sidecar, upstream, 2, keys.globex);
    await openBusy(sidecar, upstream, 2, keys.acme);
    await expectRefused(gateway, await open(sidecar, '/now', keys.globex), 'test');
    await openBusy(sidecar, upstream, 3, globexLive);
    await expectServed(sidecar, keys.acmeLive);
  });

  test('half of the bytes of bodies', async () => {
    const gateway = await start({ buffered: 8_000, requestBody: 4_000 }, 'both');
    const { sidecar, upstream } = gateway;
    await open(sidecar, '/never', keys.globex, 'x'.repeat(4_000));
    await vi.waitFor(() => expect(upstream.heads()).toBe(1));
    await expectRefused(gateway, await open(sidecar, '/now', keys.globex, 'x'), 'test');
    const live = await open(sidecar, '/now', globexLive, 'x'.repeat(4_000));
    await live.untilText('{"ok":true}');
  });

  test('half of the connections', async () => {
    const gateway = await start({ connections: 4 }, 'both');
    const { sidecar } = gateway;
    await expectServed(sidecar, keys.globex);
    await expectServed(sidecar, keys.acme);
    const third = await open(sidecar, '/now', keys.globex);
    await expectRefused(gateway, third, 'test');
    await third.untilEnded();
    await expectServed(sidecar, globexLive);
    await expectServed(sidecar, globexLive);
  });

  test('no say in when live preflights get a slot', async () => {
    const { sidecar, upstream } = await start({ inFlight: 16 }, 'both');
    const preflight = (host: string, path: string): string =>
      request(
        `OPTIONS ${path} HTTP/1.1`,
        `Host: ${host}`,
        'Origin: https://shop.example',
        'Access-Control-Request-Method: POST',
      );
    const path = '/api/v1/transactions/initialize';
    const inTest = await openBusy(sidecar, upstream, 8, keys.globex);
    const inLive = await openBusy(sidecar, upstream, 8, globexLive);
    const waiting = (await openConnection(sidecar.port)).send(preflight(hosts.test, path));
    await vi.waitFor(async () => expect(await inFlight(sidecar)).toBe(17));
    const next = (await openConnection(sidecar.port)).send(preflight(hosts.live, path));
    await vi.waitFor(async () => expect(await inFlight(sidecar)).toBe(18));
    // Test still uses its half, so the free slot is not for the preflight in test, although that preflight came first.
    inLive[0]?.socket.destroy();
    await next.untilText('{"ok":true}');
    await settle();
    expect(waiting.received).toBe('');
    inTest[0]?.socket.destroy();
    await waiting.untilText('{"ok":true}');
  });
});

test('an unread response to a client without a key gives up its slot, however long it is, and gives way to the next body', async () => {
  const mebibyte = 1_048_576;
  const requestBody = 16 * mebibyte;
  // Clients without a key have one slot in test, and bytes for four thirds of a body of the maximum length.
  const anonymousBytes = Math.floor((requestBody * 4) / 3);
  const { sidecar } = await start({ inFlight: 16, buffered: 4 * requestBody, requestBody }, 'both');
  const used = async (): Promise<readonly number[]> =>
    Promise.all((['buffered', 'in_flight'] as const).map((limit) => limitUsed(sidecar, limit)));
  const fields = [`Host: ${hosts.test}`, 'Origin: https://shop.example', 'Access-Control-Request-Method: POST'];
  const preflight = request('OPTIONS /api/v1/transactions/initialize HTTP/1.1', ...fields);
  const closings = async (count: number): Promise<void> => {
    const line = `envelope_sidecar_connections_closed_total{reason="limit"} ${count}\n`;
    await vi.waitFor(async () => expect(await scrape(sidecar)).toContain(line), 30_000);
  };
  for (let i = 0; i < 3; i += 1) {
    const client = await openConnection(sidecar.port);
    client.socket.pause();
    client.send(encrypt(`"${'x'.repeat(14 * mebibyte)}"`));
    await closings(i);
    // The response is twice as long as these bytes. The part that the kernel takes is not charged, and neither is the part that exceeds
    // three quarters of the bytes for clients without a key.
    await vi.waitFor(async () => expect(await used()).toEqual([Math.floor((anonymousBytes * 3) / 4), 0]), 30_000);
    expect(await (await openConnection(sidecar.port)).send(preflight).untilText('{"ok":true}')).toContain(' 200 ');
  }
});

test('a body of the maximum length for a test endpoint fits without a key, in test beside live', async () => {
  const requestBody = 1_048_576;
  const { sidecar } = await start({ inFlight: 64, buffered: 16 * requestBody, requestBody }, 'both');
  const client = await openConnection(sidecar.port);
  await client.send(encrypt(`"${'x'.repeat(requestBody - 2)}"`)).untilText('"data"');
  await vi.waitFor(async () => expect(await limitUsed(sidecar, 'buffered')).toBe(0), 30_000);
});

test.each([
  ['a client without a key', undefined],
  ['an account', keys.globex],
])(
  'a response of a test endpoint to %s is broken off if there is no room for it, because it would keep its slot',
  async (_, key) => {
    const { sidecar } = await start({ inFlight: 16, requestBody: 16_777_216 });
    const noRoom = vi.spyOn(Reservation.prototype, 'holdUnread').mockReturnValue(false);
    onTestFinished(() => noRoom.mockRestore());
    const client = await openConnection(sidecar.port);
    client.socket.pause();
    client.send(encrypt(`"${'x'.repeat(14_000_000)}"`, key));
    await vi.waitFor(() => expect(sidecar.accessLines()[0]).toMatchObject({ closed: 'limit' }), 30_000);
    expect(await limitUsed(sidecar, 'in_flight')).toBe(0);
  },
);

test('a short response over TLS takes no room, and so ends no connection, because it is on its way', async () => {
  const { cert, key } = createAuthority().issue('DNS:localhost');
  const { sidecar } = await startGateway({
    listen: { host: '127.0.0.1', port: 0, tls: { cert, key, clientCa: undefined } },
  });
  const charged = vi.spyOn(Reservation.prototype, 'holdUnread');
  onTestFinished(() => charged.mockRestore());
  const client = new Connection(connectTls({ host: '127.0.0.1', port: sidecar.port, rejectUnauthorized: false }));
  for (let i = 1; i <= 3; i += 1) await client.send(encrypt('{}')).untilText('"data"', i);
  await settle();
  expect(charged.mock.calls).toEqual([[0], [0], [0]]);
  expect(await limitUsed(sidecar, 'in_flight')).toBe(0);
});

test('connections that have carried a public key give way to others with that key while they send bodies without a key to a test endpoint', async () => {
  const { sidecar, upstream } = await start({ buffered: 32_000, requestBody: 1_000, connections: 16, account: 1 });
  const clients: Connection[] = [];
  for (let i = 0; i < 8; i += 1) {
    const client = (await openConnection(sidecar.port)).send(visit);
    await client.untilText('{"ok":true}');
    clients.push(client.send(encrypt('{}').slice(0, -1)));
  }
  await vi.waitFor(async () => expect(await limitUsed(sidecar, 'buffered')).toBe(16));
  await setTimeout(150);
  for (let i = 0; i < 3; i += 1) await (await openVisit(sidecar)).untilText('{"ok":true}');
  expect(clients.filter(({ ending }) => ending !== 'open').length).toBeGreaterThan(0);
  expect(upstream.heads()).toBe(11);
});

describe('incomplete heads', () => {
  const header = 4_000;
  const incomplete = (size: number): string => 'GET / HTTP/1.1\r\nX: '.padEnd(size, 'x');

  /** Starts a sidecar in which clients without a key may hold 4,000 bytes together. */
  async function startSmall() {
    return start({ buffered: 32_000, requestBody: 1_000, header, connections: 64 });
  }

  async function openIncomplete(sidecar: TestSidecar, size: number): Promise<Connection> {
    return (await openConnection(sidecar.port)).send(incomplete(size));
  }

  const held = (sidecar: TestSidecar): Promise<number> => limitUsed(sidecar, 'buffered');

  /** Expects that a merchant whose head comes in two pieces is served, and that one of `strangers` is closed to make room for it. */
  async function expectOneGivesWay(
    sidecar: TestSidecar,
    strangers: readonly Connection[],
    heldAfter: number,
  ): Promise<void> {
    const head = bytes('/now', keys.globex);
    const merchant = (await openConnection(sidecar.port)).send(head.slice(0, 100));
    await vi.waitFor(() => expect(strangers.filter(({ ending }) => ending !== 'open')).toHaveLength(1));
    merchant.send(head.slice(100));
    await merchant.untilText('{"ok":true}');
    await vi.waitFor(async () => expect(await held(sidecar)).toBe(heldAfter));
  }

  test('are charged, and the one that holds most gives way', async () => {
    const { sidecar } = await startSmall();
    // The head with the highest product of bytes and time gives way. The difference in bytes is large, so that it decides even on a slow
    // machine.
    const small = await openIncomplete(sidecar, 200);
    await vi.waitFor(async () => expect(await held(sidecar)).toBe(200));
    const large = await openIncomplete(sidecar, 2_500);
    await vi.waitFor(async () => expect(await held(sidecar)).toBe(2_700));
    const next = await openIncomplete(sidecar, 2_000);
    await large.untilEnded();
    await vi.waitFor(async () => expect(await held(sidecar)).toBe(2_200));
    await settle();
    expect([small.ending, next.ending]).toEqual(['open', 'open']);
    for (const client of [small, next]) expect(await client.send('\r\n\r\n').untilText('}')).toContain('HTTP/1.1 400 ');
    await vi.waitFor(async () => expect(await held(sidecar)).toBe(0));
    const closings = (): unknown[] => sidecar.log.filter(({ msg }) => msg === 'connections closed');
    await eventually('the closing is logged', () => closings().length > 0);
    expect(closings()).toContainEqual(expect.objectContaining({ reason: 'limit', connections: 1 }));
  });

  test('do not keep a merchant out whose head comes in two pieces', async () => {
    const { sidecar } = await startSmall();
    const strangers: Connection[] = [];
    for (let i = 0; i < 8; i += 1) strangers.push(await openIncomplete(sidecar, 500));
    await vi.waitFor(async () => expect(await held(sidecar)).toBe(4_000));
    await expectOneGivesWay(sidecar, strangers, 3_500);
    for (const { socket } of strangers) socket.destroy();
    await vi.waitFor(async () =>
      expect([await held(sidecar), await limitUsed(sidecar, 'connections')]).toEqual([0, 1]),
    );
  });

  /** Starts a sidecar in which clients without a key may hold 32,000 bytes together. */
  async function startForBodies() {
    return start({ buffered: 256_000, requestBody: 16_000, header, connections: 64 });
  }
  const testBody = (length: number): string => encrypt(`"${'x'.repeat(length - 2)}"`);

  test('of a merchant have room although clients without a key fill theirs with incomplete bodies for the test endpoints', async () => {
    const { sidecar, upstream } = await startForBodies();
    const strangers: Connection[] = [];
    for (let i = 0; i < 4; i += 1)
      strangers.push((await openConnection(sidecar.port)).send(testBody(8_001).slice(0, -1)));
    await vi.waitFor(async () => expect(await held(sidecar)).toBe(32_000));
    await expectOneGivesWay(sidecar, strangers, 24_000);
    expect(upstream.heads()).toBe(1);
  });

  test('of a merchant have room although clients without a key fill theirs with bodies that wait for their turn at the test endpoints', async () => {
    const { sidecar, upstream } = await startForBodies();
    const turns = vi.spyOn(TickQueue.prototype, 'add').mockReturnValue(() => {});
    onTestFinished(() => turns.mockRestore());
    const strangers: Connection[] = [];
    for (let i = 0; i < 2; i += 1) strangers.push((await openConnection(sidecar.port)).send(testBody(16_000)));
    await vi.waitFor(async () => expect(await held(sidecar)).toBe(32_000));
    expect(turns).toHaveBeenCalledTimes(2);
    await expectOneGivesWay(sidecar, strangers, 16_000);
    expect(upstream.heads()).toBe(1);
  });

  test.each([
    ['public', keys.globexPublic],
    ['secret', keys.globex],
  ])('of a merchant have room although such bodies come on connections that have carried a %s key', async (_, key) => {
    const { sidecar, upstream } = await startForBodies();
    const clients: Connection[] = [];
    const first = key === keys.globex ? bytes('/now', key) : visit;
    for (let i = 0; i < 4; i += 1) {
      const client = (await openConnection(sidecar.port)).send(first);
      await client.untilText('{"ok":true}');
      clients.push(client.send(testBody(8_001).slice(0, -1)));
    }
    await vi.waitFor(async () => expect(await held(sidecar)).toBe(32_000));
    await expectOneGivesWay(sidecar, clients, 24_000);
    // The connection that gives way gets a response, because a gateway may send many clients' requests on one connection.
    const [refused, ...others] = clients.toSorted((a, b) => b.received.length - a.received.length);
    expect(await refused?.untilEnded()).toMatch(/HTTP\/1\.1 503 [^]*Connection: close[^]*"code":"overloaded"/);
    for (const client of others) expect(await client.send('"').untilText('"data"')).toContain('HTTP/1.1 200 ');
    expect(upstream.heads()).toBe(5);
    expect(sidecar.accessLines().find(({ status }) => status === 503)).toMatchObject({ reason: 'anonymous' });
    await vi.waitFor(async () => expect(await held(sidecar)).toBe(0));
  });

  test('after a request whose head came in two pieces are charged to the account of its key', async () => {
    const { sidecar } = await startSmall();
    for (let i = 0; i < 4; i += 1) {
      const client = (await openConnection(sidecar.port)).send(visit.slice(0, 40));
      await vi.waitFor(async () => expect(await held(sidecar)).toBe(i * 1_000 + 40));
      client.send(visit.slice(40) + incomplete(1_000));
      await client.untilText('{"ok":true}');
    }
    await vi.waitFor(async () => expect(await held(sidecar)).toBe(4_000));
    // No connection has to give way.
    const strangers = [await openIncomplete(sidecar, 2_000), await openIncomplete(sidecar, 2_000)];
    await vi.waitFor(async () => expect(await held(sidecar)).toBe(8_000));
    expect(strangers.map(({ ending }) => ending)).toEqual(['open', 'open']);
  });

  test('after requests of several accounts are charged to the account of the last one', async () => {
    const gateway = await start({ buffered: 32_000, requestBody: 4_000, header, connections: 64 });
    const { sidecar } = gateway;
    const shop = visit.replace(keys.globexPublic, shopPublic);
    for (let i = 0; i < 4; i += 1) {
      const client = await openConnection(sidecar.port);
      client.send(visit + shop + incomplete(900));
      await client.untilText('{"ok":true}', 2);
    }
    await vi.waitFor(async () => expect(await held(sidecar)).toBe(3_600));
    // This body takes all the bytes that the public keys of one account may have.
    const body = 'x'.repeat(4_000);
    const other = visit.replace('\r\n\r\n', `\r\nContent-Length: ${body.length}\r\n\r\n${body}`);
    expect(await (await openConnection(sidecar.port)).send(other).untilText('}')).toContain('HTTP/1.1 200 ');
  });

  test('after a request cause its refusal and end the connection if its account has no room for them', async () => {
    const gateway = await start({ buffered: 32_000, requestBody: 1_000, account: 0.0625, header, connections: 64 });
    const { sidecar, upstream } = gateway;
    // This body takes half of the 2,000 bytes that the account may have.
    await open(sidecar, '/never', keys.globex, 'x'.repeat(1_000));
    await vi.waitFor(() => expect(upstream.heads()).toBe(1));
    const client = (await openConnection(sidecar.port)).send(incomplete(1_500));
    await vi.waitFor(async () => expect(await held(sidecar)).toBeGreaterThanOrEqual(2_500));
    client.send(`\r\nAuthorization: Bearer ${keys.globex}\r\nHost: ${hosts.test}\r\n\r\n${incomplete(1_200)}`);
    await expectRefused(gateway, client, 'account');
    await client.untilEnded();
  });

  test('and slow bodies of clients without a key stay open if there is no room for an account', async () => {
    const gateway = await start({ buffered: 32_000, requestBody: 16_000, account: 1, header });
    const { sidecar, upstream } = gateway;
    const stranger = (await openConnection(sidecar.port)).send(encrypt(`"${'x'.repeat(998)}"`).slice(0, -1));
    await vi.waitFor(async () => expect(await held(sidecar)).toBe(1_000));
    await open(sidecar, '/never', keys.globex, 'x'.repeat(16_000));
    await vi.waitFor(() => expect(upstream.heads()).toBe(1));
    await expectRefused(gateway, await open(sidecar, '/now', keys.acme, 'x'.repeat(15_500)), 'total');
    expect(stranger.ending).toBe('open');
  });

  test('of one client do not cost another client its connection if that would not make enough room', async () => {
    const { sidecar, upstream } = await start({ buffered: 32_000, requestBody: 1_000, account: 0.25, header });
    const stranger = await openIncomplete(sidecar, 500);
    const client = await open(sidecar, '/never', keys.globex);
    await vi.waitFor(() => expect(upstream.heads()).toBe(1));
    client.send('x'.repeat(9_000));
    await client.untilEnded();
    await settle();
    expect(stranger.ending).toBe('open');
    expect(await held(sidecar)).toBe(500);
  });
});

describe('clients without a key that do not read their responses', () => {
  const document = `"${'x'.repeat(60_000)}"`;

  /** Sends requests whose responses exceed the kernel's buffers, and does not read the responses, so that one gets stuck. */
  async function openStuck({ port }: TestSidecar): Promise<Connection> {
    const connection = await openConnection(port);
    connection.socket.pause();
    return connection.send(encrypt(document).repeat(100));
  }

  test('hold no slots, are charged for what waits, and give way to each other', async () => {
    const { sidecar } = await start({ inFlight: 16, buffered: 2_000_000, requestBody: 64_000 });
    const strangers = [await openStuck(sidecar), await openStuck(sidecar), await openStuck(sidecar)];
    await eventually('one of the clients has given way', () => strangers.some(({ ending }) => ending !== 'open'));
    await eventually(
      'all others are stuck',
      async () => (await limitUsed(sidecar, 'in_flight')) === 0 && (await limitUsed(sidecar, 'buffered')) > 0,
    );
    const used = await limitUsed(sidecar, 'buffered');
    expect(used).toBeGreaterThan(0);
    expect(used).toBeLessThanOrEqual(250_000);
    await expectServed(sidecar, keys.globex);
  });
});

describe('clients that take all they can get leave some to others:', () => {
  const claims = ({ account = 0.5, size = 64 } = {}) => {
    const limits = { ...configOf('http://127.0.0.1:1').limits, connections: size, inFlight: size, account };
    const budgets = new Budgets({ ...limits, requestBody: 1, buffered: size }, true);
    onTestFinished(() => budgets.stop());
    const { anonymous } = budgets;
    const noisy = {
      live: budgets.claim('live', 'noisy', 'secret'),
      test: budgets.claim('test', 'noisy', 'secret'),
    };
    /** Takes one unit at a time until no more can be taken. @returns how many were taken, and the shortage */
    const takeAll = (name: LimitName, claim: Claim): readonly [number, string] => {
      for (let taken = 0; ; taken += 1) {
        const shortage = budgets[name].take(1, claim);
        if (shortage !== undefined) return [taken, shortage];
      }
    };
    /** Takes all that the public keys of several accounts can get. @returns how many were taken */
    const takeWithShops = (name: LimitName, environment: 'live' | 'test'): number => {
      let taken = 0;
      for (const shop of ['one', 'two', 'quiet']) taken += takeAll(name, budgets.claim(environment, shop, 'public'))[0];
      return taken;
    };
    return { budgets, anonymous, noisy, takeAll, takeWithShops };
  };
  type Claims = ReturnType<typeof claims>;

  const takers = {
    'its live keys': (name: LimitName, { takeAll, noisy }: Claims) => takeAll(name, noisy.live),
    'its test keys': (name: LimitName, { takeAll, noisy }: Claims) => takeAll(name, noisy.test),
    'another account': (name: LimitName, { takeAll, budgets }: Claims) => {
      for (const environment of ['live', 'test'] as const) takeAll(name, budgets.claim(environment, 'other', 'secret'));
    },
    'live shops': (name: LimitName, { takeWithShops }: Claims) => takeWithShops(name, 'live'),
    'test shops': (name: LimitName, { takeWithShops }: Claims) => takeWithShops(name, 'test'),
    // Connections of clients without a key give way, so they take nothing from others.
    strangers: (name: LimitName, { takeAll, anonymous }: Claims) =>
      name === 'connections' ? undefined : takeAll(name, anonymous.live),
    'strangers in test': (name: LimitName, { takeAll, anonymous }: Claims) =>
      name === 'connections' ? undefined : takeAll(name, anonymous.test),
  };
  /** What these takers leave to the next account if they come in the worst order. */
  const leastLeft = (name: LimitName, environment: 'live' | 'test', names: readonly (keyof typeof takers)[]): number =>
    Math.min(
      ...permutations(names).map((order) => {
        const all = claims();
        for (const taker of order) takers[taker](name, all);
        return all.takeAll(name, all.budgets.claim(environment, 'quiet', 'secret'))[0];
      }),
    );
  const one = ['its live keys', 'its test keys', 'live shops', 'test shops', 'strangers', 'strangers in test'] as const;

  test.each(['inFlight', 'buffered', 'connections'] as const)(
    'of 64 %s, an account with all its keys, the public keys of all accounts, and clients without a key leave five in live and two in test',
    (name) => {
      expect([leastLeft(name, 'live', one), leastLeft(name, 'test', one)]).toEqual([5, 2]);
    },
  );

  test('two such accounts leave one', () => {
    const two = [...one.filter((each) => each !== 'strangers in test'), 'another account'] as const;
    expect([leastLeft('inFlight', 'live', two), leastLeft('inFlight', 'test', two)]).toEqual([1, 1]);
  });

  test('an account has its share of what others leave apart from an eighth, and at least one in any case', () => {
    const { budgets, takeAll } = claims();
    const taken = Array.from({ length: 7 }, (_, i) => takeAll('inFlight', budgets.claim('live', `a${i}`, 'secret')));
    expect(taken.slice(0, 5)).toEqual([
      [32, 'account'],
      [17, 'account'],
      [5, 'account'],
      [1, 'account'],
      [1, 'account'],
    ]);
    expect(taken.reduce((sum, [each]) => sum + each, 0)).toBe(58);
  });

  test('all public keys together have half of what others leave apart from an eighth', () => {
    const { budgets, noisy, takeAll } = claims();
    takeAll('inFlight', noisy.live);
    const taken = Array.from({ length: 5 }, (_, i) => takeAll('inFlight', budgets.claim('live', `shop${i}`, 'public')));
    expect(taken.map(([amount]) => amount)).toEqual([9, 2, 1, 1, 0]);
    expect(takeAll('inFlight', budgets.claim('test', 'shop', 'public'))).toEqual([0, 'public']);
  });

  test('the public keys of one account get two thirds of what other public keys leave, so those of six shops leave some to the next shop', () => {
    const { budgets } = claims();
    const take = (id: string): boolean => budgets.inFlight.take(1, budgets.claim('live', id, 'public')) === undefined;
    const shops = Array.from({ length: 6 }, (_, i) => `shop${i}`);
    // The shops take one slot each in turn, as if requests from all of them arrived at the same time.
    while (shops.map(take).some(Boolean));
    expect(budgets.inFlight.used).toBe(26);
    expect(take('next')).toBe(true);
  });

  test('the public keys of one account get ten of the sixteen that all public keys have in test', () => {
    const { budgets, takeAll } = claims();
    const taken = ['shop', 'next'].map((id) => takeAll('inFlight', budgets.claim('test', id, 'public')));
    expect(taken).toEqual([
      [10, 'account'],
      [3, 'account'],
    ]);
  });

  test('the public keys of one account in test leave some to those in live, however much secret keys have taken', () => {
    const { budgets, noisy, takeAll } = claims();
    takeAll('inFlight', noisy.live);
    takeAll('inFlight', budgets.claim('live', 'other', 'secret'));
    expect(takeAll('inFlight', budgets.claim('test', 'shop', 'public'))).toEqual([2, 'account']);
    expect(takeAll('inFlight', budgets.claim('live', 'quiet', 'public'))).toEqual([1, 'account']);
  });

  test('an account has 20 of the 32 for test, and the next account some of the rest', () => {
    const { budgets, noisy, takeAll } = claims();
    expect(takeAll('inFlight', noisy.test)).toEqual([20, 'account']);
    expect(takeAll('inFlight', budgets.claim('test', 'shop', 'public'))).toEqual([3, 'account']);
    expect(takeAll('inFlight', budgets.claim('test', 'quiet', 'secret'))).toEqual([3, 'account']);
  });

  test('an account has 40 of 64 with its keys of both environments', () => {
    const { noisy, takeAll } = claims();
    expect(takeAll('inFlight', noisy.live)).toEqual([32, 'account']);
    expect(takeAll('inFlight', noisy.test)).toEqual([8, 'account']);
  });

  test.each([
    [31, 15],
    [32, 8],
  ])('of %i, the second account has %i', (size, second) => {
    const { budgets, noisy, takeAll } = claims({ size });
    takeAll('inFlight', noisy.live);
    expect(takeAll('inFlight', budgets.claim('live', 'other', 'secret'))[0]).toBe(second);
  });

  test('connections that clients without a key hold take nothing from accounts', () => {
    const { budgets, anonymous, noisy, takeAll } = claims();
    const { none } = anonymous;
    expect(takeAll('connections', none)).toEqual([64, 'total']);
    const shop = budgets.claim('live', 'shop', 'public');
    for (let i = 0; i < 32; i += 1) expect(budgets.connections.move(1, none, noisy.live)).toBeUndefined();
    for (let i = 0; i < 9; i += 1) expect(budgets.connections.move(1, none, shop)).toBeUndefined();
    expect(budgets.connections.move(1, none, shop)).toBe('account');
  });

  test('an account whose share is everything can take everything', () => {
    const { noisy, takeAll } = claims({ account: 1 });
    expect(takeAll('inFlight', noisy.live)).toEqual([64, 'total']);
  });

  test('a changed share counts from the next request on', () => {
    const { budgets, noisy, takeAll } = claims({ account: 1 });
    const limits = configOf('http://127.0.0.1:1').limits;
    budgets.resize({ ...limits, inFlight: 64, account: 0.25 }, true);
    expect(takeAll('inFlight', noisy.live)).toEqual([16, 'account']);
    expect(takeAll('inFlight', budgets.claim('live', 'other', 'secret'))).toEqual([16, 'account']);
    expect(takeAll('inFlight', budgets.claim('live', 'third', 'secret'))).toEqual([10, 'account']);
  });
});

test('clients with public keys of an environment that have sent many small pieces share its turns, and the accounts alternate', async () => {
  const budgets = new Budgets(configOf('http://127.0.0.1:1').limits, true);
  onTestFinished(() => budgets.stop());
  const order: string[] = [];
  for (const id of ['a', 'a', 'a', 'b'])
    budgets.claim('live', id, 'public').turns.smallPieces.add(() => order.push(id));
  budgets.claim('test', 'c', 'public').turns.smallPieces.add(() => order.push('c'));
  await eventually('all have had their turn', () => order.length === 5);
  expect(order.filter((id) => id !== 'c')).toEqual(['a', 'b', 'a', 'a']);
  expect(order.indexOf('c')).toBeLessThan(2);
  const [a, b] = ['a', 'b'].map((id) => budgets.claim('live', id, 'public').turns.readers);
  expect(a).not.toBe(b);
});

function permutations<T>(items: readonly T[]): readonly (readonly T[])[] {
  if (items.length === 0) return [[]];
  return items.flatMap((first, i) => permutations(items.toSpliced(i, 1)).map((rest) => [first].concat(rest)));
}

test('idle connections with the public keys of other shops give way to those of a shop that has fewer', async () => {
  const shops = Array.from({ length: 4 }, (_, i) => `pk_test_${`shop${i}`.repeat(5)}`);
  const { sidecar } = await startGateway({
    accounts: shops.map((key, i) => ({ ...globex, id: `shop${i}`, keys: [apiKey(key)] })),
    limits: { connections: 64, account: 0.5 },
    serves: 'test',
    respond: (seen, res) => void (!seen.url.endsWith('never') && res.end('{"ok":true}')),
  });
  const visitOf = (key: string): string => visit.replace(keys.globexPublic, key);
  const [first = '', second = '', third = '', last = ''] = shops;
  for (const [key, count] of [
    [first, 16],
    [second, 9],
    [third, 2],
  ] as const) {
    for (let i = 0; i < count; i += 1) {
      const client = await openConnection(sidecar.port);
      expect(await client.send(visitOf(key)).untilText('}')).toContain('{"ok":true}');
    }
  }
  // Wait until the connections no longer count as newly idle. The last shop has no idle ones of its own.
  await setTimeout(600);
  for (let i = 1; i <= 6; i += 1) {
    (await openConnection(sidecar.port)).send(busyVisit.replace(keys.globexPublic, last));
    await vi.waitFor(async () => expect(await inFlight(sidecar)).toBe(i));
  }
});

test('the busy requests of an account, and those with public keys, keep no other account out', async () => {
  const { sidecar, upstream } = await start({ inFlight: 64, account: 0.5 });
  await openBusy(sidecar, upstream, 32, keys.acme);
  for (const key of [keys.globexPublic, shopPublic]) {
    for (let i = 0; i < 10; i += 1)
      (await openConnection(sidecar.port)).send(busyVisit.replace(keys.globexPublic, key));
  }
  await vi.waitFor(async () => expect(await inFlight(sidecar)).toBe(43));
  await openBusy(sidecar, upstream, 5, quietKey);
  await expectServed(sidecar, quietKey);
});

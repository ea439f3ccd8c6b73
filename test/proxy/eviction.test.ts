import { setTimeout as delay } from 'node:timers/promises';
import { describe, expect, onTestFinished, test, vi } from 'vitest';
import { Budgets, type Claim } from '../../src/proxy/capacity/budgets.ts';
import type { Evictable } from '../../src/proxy/capacity/evictable.ts';
import { Eviction } from '../../src/proxy/capacity/eviction.ts';
import { indexes, Part } from '../../src/proxy/capacity/parts.ts';
import { Turns } from '../../src/proxy/capacity/queues.ts';
import { Reservation } from '../../src/proxy/capacity/reservation.ts';
import { ServerExchange } from '../../src/http1/exchange.ts';
import { createConnections } from '../support/client-connections.ts';
import { openConnection, type Connection } from '../support/connection.ts';
import { startGateway } from '../support/gateway.ts';
import { inFlight, limitUsed, scrape } from '../support/metrics.ts';
import { request } from '../support/refused.ts';
import { acme, apiKey, configOf, globex, type TestSidecar } from '../support/sidecar.ts';

/** The public keys of shops whose ids are `shop0` and so on. */
const shops = Array.from({ length: 9 }, (_, i) => `pk_test_${`shop${i}`.repeat(5)}`);

type Setting = NonNullable<Parameters<typeof startGateway>[0]>;

/** @param account the account of each shop; if it encrypts, bodies are read before they are forwarded */
function start(limits: Setting['limits'], account = globex, serves: Setting['serves'] = 'test') {
  return startGateway({
    accounts: shops.map((key, i) => ({ ...account, id: `shop${i}`, keys: [apiKey(key)] })),
    limits: { account: 0.5, ...limits },
    serves,
    respond: ({ url }, res) => void (!url.endsWith('never') && res.end('{"ok":true}')),
  });
}

function visit(shop: number, body: string, length = body.length, query = ''): string {
  const fields = [
    'Host: sandbox.pay.example',
    `Authorization: Bearer ${shops[shop]}`,
    'Content-Type: application/json',
    `Content-Length: ${length}`,
  ];
  return request(`POST /api/v1/transactions/initialize${query} HTTP/1.1`, ...fields) + body;
}

async function send({ port }: TestSidecar, bytes: string): Promise<Connection> {
  return (await openConnection(port)).send(bytes);
}

/** Sends requests that stay in flight, one after another. */
async function takePlaces(sidecar: TestSidecar, count: number, bytes: string): Promise<void> {
  const before = await inFlight(sidecar);
  for (let i = 1; i <= count; i += 1) {
    await send(sidecar, bytes);
    await vi.waitFor(async () => expect(await inFlight(sidecar)).toBe(before + i));
  }
}

/** How many connections with public keys each shop gets, one shop after another, until there is no room (see test/proxy/shares.test.ts). */
const most = [16, 9, 2, 1, 1, 1, 1, 1];

describe('if slow bodies hold all that public keys get, the oldest one of the shop with the most gives way to a request of another shop', () => {
  test.each([
    ['places in flight', { inFlight: 64 }, globex, inFlight, 32, 1],
    ['connections', { connections: 64 }, acme, (of: TestSidecar) => limitUsed(of, 'connections'), 32, 3],
    [
      'bytes',
      { buffered: 64_000, requestBody: 1_000 },
      acme,
      (of: TestSidecar) => limitUsed(of, 'buffered'),
      32_000,
      1,
    ],
  ] as const)('of %s', async (_name, limits, account, used, total, closed) => {
    const { sidecar, upstream } = await start(limits, account);
    const clients: Connection[] = [];
    for (const [shop, count] of most.entries()) {
      for (let i = 0; i < count; i += 1) {
        clients.push(await send(sidecar, visit(shop, '{', 1_000)));
        await vi.waitFor(async () => expect(await used(sidecar)).toBe((clients.length * total) / 32));
      }
    }
    await delay(150);
    for (let i = 0; i < 3; i += 1) {
      expect(await (await send(sidecar, visit(8, '{"a":1}'))).untilText('}')).toContain('{"ok":true}');
    }
    const response = await clients[0]?.untilEnded();
    await vi.waitFor(() => expect(sidecar.accessLines()).toHaveLength(3 + closed));
    const lines = sidecar.accessLines().filter(({ status }) => status !== 200);
    // A connection whose place is needed is closed at once, without a response.
    const isConnection = 'connections' in limits;
    const refusal = { status: 503, code: 'overloaded', reason: 'public' };
    const how = isConnection ? { status: 444, closed: 'limit' } : refusal;
    for (const line of lines) expect(line).toMatchObject({ ...how, account: 'shop0' });
    if (isConnection) expect(response).toBe('');
    else expect(response).toMatch(/^HTTP\/1\.1 503 [^]*Connection: close[^]*"code":"overloaded"/);
    expect(await scrape(sidecar)).toContain(`envelope_sidecar_connections_closed_total{reason="limit"} ${closed}`);
    expect(await used(sidecar)).toBeLessThanOrEqual(total);
    expect(lines).toHaveLength(closed);
    expect(clients.filter(({ ending }) => ending !== 'open')).toHaveLength(closed);
    expect(upstream.seen).toHaveLength(3);
  });
});

test('a request that is refused because its account has used up its share closes no idle connection of another shop', async () => {
  const { sidecar } = await start({ connections: 64 });
  const never = (shop: number): string => visit(shop, '{}', 2, '?never');
  const idle: Connection[] = [];
  for (let i = 0; i < 3; i += 1) {
    const client = await send(sidecar, visit(1, '{}'));
    await client.untilText('{"ok":true}');
    idle.push(client);
  }
  // Wait until the connections no longer count as newly idle.
  await delay(600);
  await takePlaces(sidecar, 16, never(0));
  await takePlaces(sidecar, 9, never(2));
  expect(await (await send(sidecar, never(2))).untilEnded()).toContain('"code":"overloaded"');
  for (const client of idle) await client.send(visit(1, '{}')).untilText('{"ok":true}', 2);
});

test('the slot of a request that gives way is released even if there is no room for its response', async () => {
  const { sidecar } = await start({ inFlight: 64 });
  await takePlaces(sidecar, 16, visit(0, '{', 2));
  await delay(150);
  const noRoom = vi.spyOn(Reservation.prototype, 'hold').mockReturnValue(false);
  onTestFinished(() => noRoom.mockRestore());
  await send(sidecar, visit(0, '{', 2));
  await vi.waitFor(() => expect(sidecar.accessLines()).toHaveLength(1));
  expect(await inFlight(sidecar)).toBe(16);
});

test('requests of a shop whose slow bodies take its whole share do not close those of another shop whose bodies come late', async () => {
  const { sidecar } = await start({ inFlight: 64 });
  await takePlaces(sidecar, 16, visit(0, '{', 2));
  const late = await Promise.all([1, 2, 3].map(async () => send(sidecar, visit(1, '', 2))));
  await delay(300);
  for (let i = 0; i < 8; i += 1) await send(sidecar, visit(0, '{', 2));
  await delay(300);
  for (const client of late) expect(await client.send('{}').untilText('}')).toContain('{"ok":true}');
});

test.each([
  ['with its length', (body: string) => body, (length: number) => `Content-Length: ${length}`],
  ['in chunks', (body: string) => `${body.length.toString(16)}\r\n${body}\r\n`, () => 'Transfer-Encoding: chunked'],
])('the longest body fits although it comes in pieces, %s', async (_name, framed, field) => {
  const requestBody = 1_500_000;
  const { sidecar } = await start({ buffered: 4_194_304, requestBody }, acme, 'both');
  const body = `{"a":"${'x'.repeat(requestBody - 8)}"}`;
  const client = await send(sidecar, visit(0, '', 2).replace('Content-Length: 2', field(body.length)));
  client.send(framed(body.slice(0, 700_000)));
  await vi.waitFor(async () => expect(await limitUsed(sidecar, 'buffered')).toBeGreaterThan(650_000));
  client.send(framed(body.slice(700_000)));
  if (field(0).startsWith('T')) client.send('0\r\n\r\n');
  expect(await client.untilText('}')).toContain('{"ok":true}');
});

describe('a connection with a public key', () => {
  const now = 10_000;
  const { connections, inFlight: slots } = indexes;

  /** Creates budgets and a list of evictable connections. `left` returns the connections that have not been closed. */
  function setUp() {
    const clock = vi.spyOn(performance, 'now').mockReturnValue(now);
    const { limits } = configOf('http://127.0.0.1:1');
    const budgets = new Budgets({ ...limits, connections: 64, inFlight: 64, account: 0.5 }, true);
    onTestFinished(() => {
      budgets.stop();
      vi.restoreAllMocks();
    });
    const eviction = new Eviction();
    const claim = (shop: string, environment: 'live' | 'test' = 'live'): Claim =>
      budgets.claim(environment, shop, 'public');
    const use = (count: number, of: Claim): void => {
      for (let i = 0; i < count; i += 1) expect(budgets.connections.take(1, of)).toBeUndefined();
    };
    const add = (of: Claim, more: Partial<Evictable>): Evictable => {
      const connection: Evictable = {
        previous: undefined,
        next: undefined,
        list: eviction.publicKeys,
        claim: of,
        isIdle: false,
        isSuspect: false,
        isWhole: false,
        holdsSlot: false,
        taken: () => 1,
        yields: () => 0,
        since: 0,
        latestAt: now - 1_000,
        arrived: Infinity,
        evict: () => eviction.publicKeys.remove(connection),
        ...more,
      };
      eviction.publicKeys.add(connection);
      return connection;
    };
    /** Takes all connections that are left, for other shops. */
    const fill = (): void => {
      for (let i = 0; budgets.connections.take(1, claim(`filler ${i}`)) === undefined; i += 1);
    };
    const other = add(claim('other'), {});
    /** Ten milliseconds after each attempt, the connections are looked through again. */
    const makeRoom = (by: Claim, limit: 0 | 1 = connections, amount = 1): boolean => {
      const made = eviction.makePublicRoom(other, amount, limit, by);
      clock.mockReturnValue(performance.now() + 10);
      return made;
    };
    const left = (): readonly Evictable[] => [...eviction.publicKeys].filter((each) => each !== other);
    return { budgets, eviction, clock, claim, use, fill, add, left, makeRoom };
  }

  test.each([
    ['whose body is slow', { arrived: 3_999 }, true],
    ['whose body is not slow', { arrived: 4_000 }, false],
    ['whose slow body began 100 ms ago', { arrived: 0, latestAt: now - 100 }, true],
    ['whose slow body began 99 ms ago', { arrived: 0, latestAt: now - 99 }, false],
    ['that awaits the upstream', {}, false],
    ['that has been idle for 500 ms', { isIdle: true, latestAt: now - 500 }, true],
    ['that has been idle for 499 ms', { isIdle: true, latestAt: now - 499 }, false],
  ] as const)('%s gives way to one of another account if there is no room: %j, %s', (_name, more, yields) => {
    const { claim, use, fill, add, makeRoom } = setUp();
    use(2, claim('noisy'));
    fill();
    add(claim('noisy'), more);
    expect(makeRoom(claim('quiet'))).toBe(yields);
    expect(yields && makeRoom(claim('quiet'))).toBe(false);
  });

  test.each([
    ['idle', { isIdle: true, latestAt: now }, true],
    ['slow', { arrived: 1 }, true],
    ['neither', { arrived: 1_000_000 }, false],
  ])('gives way to one of the same account, which has used up its share, if it is %s', (_name, more, yields) => {
    const { claim, use, add, makeRoom } = setUp();
    use(16, claim('noisy'));
    add(claim('noisy'), more);
    expect(makeRoom(claim('noisy'))).toBe(yields);
  });

  test.each([
    ['a slow body', { arrived: 0 }, 13, true],
    ['a slow body', { arrived: 0 }, 14, false],
    ['an idle connection', { isIdle: true }, 13, true],
    ['an idle connection', { isIdle: true }, 14, false],
    ['an idle connection that may be about to be used', { isIdle: true, latestAt: now }, 13, false],
  ])('%s does not count against the share of others (14 without it): %j, %i, %s', (_name, more, busy, hasRoom) => {
    const { budgets, claim, use, add, left, makeRoom } = setUp();
    use(9, claim('other'));
    use(busy, claim('busy'));
    use(3, claim('noisy'));
    expect(budgets.connections.shortage(1, claim('busy'))).toBe('account');
    for (let i = 0; i < 3; i += 1) add(claim('noisy'), more);
    // The slow body of the account itself does count.
    const own = add(claim('busy'), { arrived: 0, taken: () => 0.5 });
    const before = left();
    expect([makeRoom(claim('busy')), left()]).toEqual([hasRoom, before]);
    expect(own.previous).toBeDefined();
  });

  test('is looked at once for all that need room within 10 ms, as long as they are within their shares', () => {
    const { clock, eviction, claim, use, add, left } = setUp();
    const one = add(claim('other'), {});
    const makeRoom = (by: Claim): boolean => eviction.makePublicRoom(one, 1, connections, by);
    use(9, claim('other'));
    use(13, claim('busy'));
    use(3, claim('noisy'));
    const taken = vi.fn<() => number>(() => 1);
    for (let i = 0; i < 3; i += 1) add(claim('noisy'), { isIdle: true, taken });
    for (let i = 0; i < 5; i += 1) expect(makeRoom(claim('busy'))).toBe(true);
    clock.mockReturnValue(now + 9.9);
    expect(makeRoom(claim('busy'))).toBe(true);
    expect(taken).toHaveBeenCalledTimes(3);
    clock.mockReturnValue(now + 10);
    expect(makeRoom(claim('busy'))).toBe(true);
    expect(taken).toHaveBeenCalledTimes(6);
    // The share is judged by what the account uses now, not by what it used then.
    for (const { used } of claim('busy').parts) used[connections] += 1;
    expect(makeRoom(claim('busy'))).toBe(false);
    expect(left()).toHaveLength(4);
  });

  test('of another environment counts against the share, and does not give way', () => {
    const { budgets, claim, add, makeRoom } = setUp();
    const own = claim('noisy', 'test');
    while (budgets.inFlight.take(1, own) === undefined);
    expect(budgets.inFlight.take(1, claim('next', 'test'))).toBeUndefined();
    for (let i = 0; i < 20; i += 1) add(claim('quiet'), { arrived: 0 });
    expect(makeRoom(own, slots)).toBe(false);
    add(own, { arrived: 0 });
    expect(makeRoom(own, slots)).toBe(true);
  });

  test('is not closed if that would not make room for the other one', () => {
    const { budgets, claim, use, add, left, makeRoom } = setUp();
    // Fill the share of the account that needs room.
    use(16, claim('quiet'));
    const slow = add(claim('noisy'), { arrived: 0 });
    expect([makeRoom(claim('quiet')), left()]).toEqual([false, [slow]]);
    // Fill test's half of the slots.
    for (let i = 0; i < 20; i += 1) budgets.inFlight.take(1, budgets.claim('test', 'secret', 'secret'));
    for (const shop of ['one', 'two', 'three', 'four'])
      for (let i = 0; i < 9; i += 1) budgets.inFlight.take(1, claim(shop, 'test'));
    expect(budgets.inFlight.take(1, claim('next', 'test'))).toBeDefined();
    expect([makeRoom(claim('next', 'test'), slots), left()]).toEqual([false, [slow]]);
    add(claim('one', 'test'), { arrived: 0 });
    expect([makeRoom(claim('next', 'test'), slots), left()]).toEqual([true, [slow]]);
  });

  test.each([
    [2, 2],
    [2.5, 3],
    [3.5, 0],
  ])('gives way together with others if that frees enough: for %d, %i of three', (amount, closed) => {
    const { eviction, claim, fill, add, left } = setUp();
    fill();
    for (let i = 0; i < 3; i += 1) add(claim('noisy'), { arrived: 0 });
    const one = add(claim('quiet'), {});
    expect(eviction.makePublicRoom(one, amount, connections, claim('quiet'))).toBe(closed > 0);
    expect(left()).toHaveLength(4 - closed);
  });

  test('does not give way if more than 32 would have to be closed', () => {
    const { claim, fill, add, makeRoom } = setUp();
    fill();
    for (let i = 0; i < 40; i += 1) add(claim('noisy'), { arrived: 0, taken: () => 0.25 });
    const quiet = claim('quiet');
    expect([makeRoom(quiet, connections, 8.25), makeRoom(quiet, connections, 8)]).toEqual([false, true]);
  });

  test('is not closed to make room for itself', () => {
    const { eviction, claim, use, add } = setUp();
    use(16, claim('a'));
    const own = add(claim('a'), { arrived: 100 });
    expect(eviction.makePublicRoom(own, 1, connections, claim('a'))).toBe(false);
  });

  test('that is idle is chosen at random', () => {
    const { claim, use, add, left, makeRoom } = setUp();
    use(16, claim('a'));
    const [first] = [add(claim('a'), { isIdle: true }), add(claim('a'), { isIdle: true })];
    vi.spyOn(Math, 'random').mockReturnValueOnce(0.5);
    expect([makeRoom(claim('a')), left()]).toEqual([true, [first]]);
  });

  test('is closed in this order: one of several slow bodies of an account, idle ones of the account that needs room, other idle ones, other slow bodies, and newly idle ones of the account that needs room', () => {
    const { claim, use, fill, add, left, makeRoom } = setUp();
    for (const account of ['a', 'b', 'c']) use(3, claim(account));
    fill();
    const quiet = claim('quiet');
    const names = new Map([
      [add(quiet, { isIdle: true, latestAt: now }), 'newly idle'],
      [add(claim('a'), { arrived: 0 }), 'only slow one of its account'],
      [add(claim('b'), { arrived: 10 }), 'slow'],
      [add(claim('b'), { arrived: 0 }), 'newer'],
      [add(claim('c'), { isIdle: true }), 'idle'],
      [add(quiet, { isIdle: true }), 'own idle'],
    ]);
    const order: (string | undefined)[] = [];
    for (let before = left(); makeRoom(quiet); before = left())
      order.push(names.get(before.find((each) => !left().includes(each)) as Evictable));
    expect(order).toEqual(['slow', 'own idle', 'idle', 'only slow one of its account', 'newer', 'newly idle']);
  });
});

describe('a connection without a key', () => {
  const now = 10_000;
  const part = new Part('anonymous', [64, 64, 20_000]);

  type Held = readonly (readonly [bytes: number, since: number])[];

  /** Creates connections that have held bytes since the given times. `makeRoom` makes room for more bytes than are free. */
  function setUp(held: Held) {
    vi.spyOn(performance, 'now').mockReturnValue(now);
    onTestFinished(() => void vi.restoreAllMocks());
    const eviction = new Eviction();
    const claim: Claim = { tier: 'anonymous', crowd: 'anonymous', turns: new Turns(), parts: [part] };
    part.used[indexes.buffered] = held.reduce((sum, [bytes]) => sum + bytes, 0);
    const room = 20_000 - part.used[indexes.buffered];
    const connections = held.map(([bytes, since]) => {
      const connection: Evictable & { list: Evictable['list'] } = {
        previous: undefined,
        next: undefined,
        list: eviction.anonymous,
        claim,
        isIdle: false,
        isSuspect: false,
        isWhole: false,
        holdsSlot: false,
        taken: () => 1,
        yields: () => bytes,
        since,
        latestAt: since,
        arrived: Infinity,
        evict: () => {
          eviction.anonymous.remove(connection);
          connection.list = undefined;
        },
      };
      eviction.anonymous.add(connection);
      return connection;
    });
    const other = { ...connections[0], yields: () => 0 } as Evictable;
    const makeRoom = (amount: number): boolean => eviction.makeAnonymousRoom(other, room + amount, [part], 'all');
    /** The bytes of each connection that is left. */
    const left = (): readonly number[] =>
      held.flatMap(([bytes], i) => ([...eviction.anonymous].includes(connections[i] as Evictable) ? [bytes] : []));
    return { connections, makeRoom, left };
  }

  const small = Array.from({ length: 40 }, () => [100, 0] as const);

  test.each([
    [
      'has held most for longest',
      1_000,
      [
        [2_000, now - 200],
        [1_000, now - 1_000],
      ],
      [2_000],
    ],
    [
      'holds most, if many small ones that have held longest are too small',
      4_000,
      [...small, [4_000, now - 101]],
      small.map(([bytes]) => bytes),
    ],
    [
      'holds most, but not if it has held that for 100 ms only',
      4_000,
      [[4_000, now - 100], ...small],
      [4_000, ...small.map(([bytes]) => bytes)],
    ],
  ] as const)('gives way if it %s', (_name, amount, held, remaining) => {
    const { makeRoom, left } = setUp(held);
    expect(makeRoom(amount)).toBe(remaining.length < held.length);
    expect(left()).toEqual(remaining);
  });

  test('does not give way if it presents a secret key in the turn in which the connections are looked through', () => {
    const { connections, makeRoom, left } = setUp([
      [3_000, 0],
      [2_000, 0],
      [1_000, 0],
    ]);
    expect(makeRoom(3_000)).toBe(true);
    expect(left()).toEqual([2_000, 1_000]);
    if (connections[1] !== undefined) connections[1].list = undefined;
    expect(makeRoom(1_000)).toBe(true);
    expect(left()).toEqual([2_000]);
  });
});

test('a connection that was closed to make room stays out of the lists, even if its response still arrives', () => {
  const { all, budgets, open } = createConnections();
  const client = open();
  const begin = (): void => {
    client.begin({ http: new ServerExchange(client.http), giveWay: () => {} }, 'live', 0);
  };
  begin();
  client.identify(budgets.claim('live', 'shop', 'public'));
  client.idle();
  begin();
  client.letGiveWay(true);
  const { anonymous, keyless, publicKeys } = all.eviction;
  const listed = (): number => anonymous.size + keyless.size + publicKeys.size;
  expect(listed()).toBe(1);
  client.evict();
  // The socket closes in a later turn. Until then, the core may respond.
  client.letGiveWay(true);
  expect(listed()).toBe(0);
});

import { setTimeout as delay } from 'node:timers/promises';
import { describe, expect, onTestFinished, test, vi } from 'vitest';
import { Budgets, type Claim } from '../../src/proxy/capacity/budgets.ts';
import { Eviction, type Evictable } from '../../src/proxy/capacity/eviction.ts';
import { indexes } from '../../src/proxy/capacity/parts.ts';
import { Reservation } from '../../src/proxy/capacity/reservation.ts';
import { openConnection, type Connection } from '../support/connection.ts';
import { startGateway } from '../support/gateway.ts';
import { inFlight, limitUsed, scrape } from '../support/metrics.ts';
import { request } from '../support/refused.ts';
import { acme, apiKey, configOf, globex, type TestSidecar } from '../support/sidecar.ts';

/** The public keys of shops whose ids are `shop0` and so on. */
const shops = Array.from({ length: 9 }, (_, i) => `pk_test_${`shop${i}`.repeat(5)}`);

type Setting = NonNullable<Parameters<typeof startGateway>[0]>;

/** @param account of each shop: one that encrypts has its bodies read before they are sent */
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

/** How many connections with public keys each shop has, one after another, until there is no room: see test/proxy/shares.test.ts. */
const most = [16, 9, 2, 1, 1, 1, 1, 1];

describe('if slow bodies hold all that public keys get, the oldest of the shop with most gives way to a request of another one', () => {
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
    // The place of a connection is needed at once.
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

test('a request that is refused for the share of its account closes no idle connection of another shop', async () => {
  const { sidecar } = await start({ connections: 64 });
  const never = (shop: number): string => visit(shop, '{}', 2, '?never');
  const idle: Connection[] = [];
  for (let i = 0; i < 3; i += 1) {
    const client = await send(sidecar, visit(1, '{}'));
    await client.untilText('{"ok":true}');
    idle.push(client);
  }
  // Now they are not about to be used again.
  await delay(600);
  for (let i = 1; i <= 16; i += 1) {
    await send(sidecar, never(0));
    await vi.waitFor(async () => expect(await inFlight(sidecar)).toBe(i));
  }
  for (let i = 1; i <= 6; i += 1) {
    await send(sidecar, never(2));
    await vi.waitFor(async () => expect(await inFlight(sidecar)).toBe(16 + i));
  }
  expect(await (await send(sidecar, never(2))).untilEnded()).toContain('"code":"overloaded"');
  for (const client of idle) await client.send(visit(1, '{}')).untilText('{"ok":true}', 2);
});

test('the place of a request that gives way is given back although there is no room for its response', async () => {
  const { sidecar } = await start({ inFlight: 64 });
  for (let i = 1; i <= 16; i += 1) {
    await send(sidecar, visit(0, '{', 2));
    await vi.waitFor(async () => expect(await inFlight(sidecar)).toBe(i));
  }
  await delay(150);
  const noRoom = vi.spyOn(Reservation.prototype, 'hold').mockReturnValue(false);
  onTestFinished(() => noRoom.mockRestore());
  await send(sidecar, visit(0, '{', 2));
  await vi.waitFor(() => expect(sidecar.accessLines()).toHaveLength(1));
  expect(await inFlight(sidecar)).toBe(16);
});

test('requests of a shop that holds slow bodies beyond its share close none of another shop whose body comes late', async () => {
  const { sidecar } = await start({ inFlight: 64 });
  for (let i = 1; i <= 16; i += 1) {
    await send(sidecar, visit(0, '{', 2));
    await vi.waitFor(async () => expect(await inFlight(sidecar)).toBe(i));
  }
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

  /** What may be closed, and what was. */
  function setUp() {
    vi.spyOn(performance, 'now').mockReturnValue(now);
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
        claim: of,
        isIdle: false,
        holdsSlot: false,
        taken: () => 1,
        costUntil: () => 0,
        latestAt: now - 1_000,
        arrived: Infinity,
        evict: () => eviction.publicKeys.remove(connection),
        ...more,
      };
      eviction.publicKeys.add(connection);
      return connection;
    };
    const other = add(claim('other'), {});
    const replace = (by: Claim, limit: 0 | 1 = connections): boolean => eviction.replacePublicBut(other, 1, limit, by);
    return { budgets, eviction, claim, use, add, other, replace };
  }

  test.each([
    ['whose body is slow', { arrived: 3_999 }, true],
    ['whose body is not slow', { arrived: 4_000 }, false],
    ['whose slow body began 100 ms ago', { arrived: 0, latestAt: now - 100 }, true],
    ['whose slow body began 99 ms ago', { arrived: 0, latestAt: now - 99 }, false],
    ['that awaits the upstream', {}, false],
    ['that is idle', { isIdle: true }, false],
    ['that has taken less than is needed', { arrived: 0, taken: () => 0.5 }, false],
  ] as const)('%s gives way to one of an account that has as much: %j, %s', (_name, more, yields) => {
    const { claim, use, add, replace } = setUp();
    use(2, claim('noisy'));
    use(2, claim('quiet'));
    add(claim('noisy'), more);
    expect(replace(claim('quiet'))).toBe(yields);
    expect(replace(claim('quiet'))).toBe(false);
  });

  test.each([
    ['has two more', 3, 1, true],
    ['has one more', 2, 1, false],
    ['has one, for one that has none', 1, 0, true],
  ])(
    'that is idle gives way to one of another account if its own %s; with a body that arrives well it never does',
    (_name, more, less, yields) => {
      const { claim, use, add, replace } = setUp();
      use(more, claim('noisy'));
      use(less, claim('quiet'));
      add(claim('noisy'), { arrived: 1_000_000 });
      expect(replace(claim('quiet'))).toBe(false);
      add(claim('noisy'), { isIdle: true });
      expect(replace(claim('quiet'))).toBe(yields);
    },
  );

  test('that is idle is chosen by chance', () => {
    const { eviction, claim, add, other, replace } = setUp();
    const [first, second] = [add(claim('a'), { isIdle: true }), add(claim('a'), { isIdle: true })];
    vi.spyOn(Math, 'random').mockReturnValueOnce(0.9).mockReturnValueOnce(0.1);
    expect([replace(claim('a')), [...eviction.publicKeys]]).toEqual([true, [other, first]]);
    expect(second.previous).toBeUndefined();
  });

  test('that is idle gives way to one of another account after those of that account, idle ones and many slow ones', () => {
    const { eviction, claim, use, add, other, replace } = setUp();
    use(16, claim('noisy'));
    use(9, claim('quiet'));
    const others = add(claim('noisy'), { isIdle: true });
    const own = add(claim('quiet'), { isIdle: true });
    const [first, second] = [add(claim('quiet'), { arrived: 0 }), add(claim('quiet'), { arrived: 0 })];
    expect([replace(claim('quiet')), [...eviction.publicKeys]]).toEqual([true, [other, others, own, second]]);
    expect([replace(claim('quiet')), [...eviction.publicKeys]]).toEqual([true, [other, others, second]]);
    expect([replace(claim('quiet')), [...eviction.publicKeys]]).toEqual([true, [other, second]]);
    expect(first.next).toBeUndefined();
  });

  test.each([
    ['for 500 ms', now - 500, true],
    ['for 499 ms', now - 499, false],
  ])('that is idle %s gives way to one of an account that has less', (_name, latestAt, yields) => {
    const { claim, use, add, replace } = setUp();
    use(3, claim('noisy'));
    add(claim('noisy'), { isIdle: true, latestAt });
    expect(replace(claim('quiet'))).toBe(yields);
  });

  test.each([
    ['idle', { isIdle: true, latestAt: now }, true],
    ['slow', { arrived: 1 }, true],
    ['neither', { arrived: 1_000_000 }, false],
  ])('gives way to one of the same account if it is %s', (_name, more, yields) => {
    const { claim, add, replace } = setUp();
    add(claim('noisy'), more);
    expect(replace(claim('noisy'))).toBe(yields);
  });

  test('is not closed if the other one would have no room all the same', () => {
    const { budgets, claim, use, add, replace } = setUp();
    // The quota of its account.
    use(16, claim('quiet'));
    add(claim('noisy'), { arrived: 0 });
    expect(replace(claim('quiet'))).toBe(false);
    // The half of test.
    for (let i = 0; i < 20; i += 1) budgets.inFlight.take(1, budgets.claim('test', 'secret', 'secret'));
    for (const shop of ['one', 'two', 'three', 'four'])
      for (let i = 0; i < 9; i += 1) budgets.inFlight.take(1, claim(shop, 'test'));
    expect(budgets.inFlight.take(1, claim('next', 'test'))).toBeDefined();
    expect(replace(claim('next', 'test'), slots)).toBe(false);
    add(claim('one', 'test'), { arrived: 0 });
    expect(replace(claim('next', 'test'), slots)).toBe(true);
  });

  test('is not closed for one of another environment that is beyond the share of its account', () => {
    const { budgets, claim, add, replace } = setUp();
    const own = claim('noisy', 'test');
    while (budgets.inFlight.take(1, own) === undefined);
    expect(budgets.inFlight.take(1, claim('next', 'test'))).toBeUndefined();
    for (let i = 0; i < 20; i += 1) add(claim('quiet'), { arrived: 0 });
    expect(replace(own, slots)).toBe(false);
    // Without the slow body of its environment, its share would be ten, too.
    add(claim('next', 'test'), { arrived: 0 });
    expect(replace(own, slots)).toBe(false);
    add(own, { arrived: 0 });
    expect(replace(own, slots)).toBe(true);
  });

  test('is not closed for itself', () => {
    const { eviction, claim, add } = setUp();
    const own = add(claim('a'), { arrived: 100 });
    expect(eviction.replacePublicBut(own, 1, connections, claim('a'))).toBe(false);
  });

  test.each([
    [13, true],
    [14, false],
  ])(
    'with a slow body gives way to one of an account that has %i, because its share would be 14 without slow bodies: %s',
    (own, yields) => {
      const { budgets, claim, use, add, replace } = setUp();
      use(9, claim('other'));
      use(own, claim('busy'));
      use(3, claim('noisy'));
      expect(budgets.connections.shortage(1, claim('busy'))).toBe('account');
      for (let i = 0; i < 3; i += 1) add(claim('noisy'), { arrived: 0 });
      expect(replace(claim('busy'))).toBe(yields);
    },
  );

  test('with a slow body gives way to none of an account that only its own slow bodies put beyond its share', () => {
    const { eviction, claim, use, add, other, replace } = setUp();
    use(9, claim('other'));
    use(14, claim('busy'));
    use(3, claim('noisy'));
    const theirs = Array.from({ length: 3 }, () => add(claim('noisy'), { arrived: 0 }));
    for (let i = 0; i < 3; i += 1) add(claim('busy'), { arrived: 0 });
    for (let i = 0; i < 3; i += 1) expect(replace(claim('busy'))).toBe(true);
    expect([...eviction.publicKeys]).toEqual([other, ...theirs]);
  });

  test('is closed in this order: with one of many slow bodies of an account, idle, with another slow body, and an own one that is newly idle', () => {
    const { eviction, claim, use, add, other, replace } = setUp();
    for (const account of ['a', 'b', 'c']) use(3, claim(account));
    const quiet = claim('quiet');
    const names = new Map([
      [add(quiet, { isIdle: true, latestAt: now }), 'newly idle'],
      [add(claim('a'), { arrived: 0 }), 'only slow one of its account'],
      [add(claim('b'), { arrived: 10 }), 'slow'],
      [add(claim('b'), { arrived: 0 }), 'newer'],
      [add(claim('c'), { isIdle: true }), 'idle'],
    ]);
    const order: (string | undefined)[] = [];
    for (let left = new Set(eviction.publicKeys); replace(quiet); left = new Set(eviction.publicKeys))
      for (const each of left) if (![...eviction.publicKeys].includes(each)) order.push(names.get(each));
    expect(order).toEqual(['slow', 'idle', 'only slow one of its account', 'newer', 'newly idle']);
    expect([...eviction.publicKeys]).toEqual([other]);
  });
});

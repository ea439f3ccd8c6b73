import { createServer, type ServerResponse } from 'node:http';
import { setImmediate as nextTurn } from 'node:timers/promises';
import { describe, expect, onTestFinished, test, vi } from 'vitest';
import type { ServerExchange } from '../../src/http1/exchange.ts';
import { Budgets } from '../../src/proxy/capacity/budgets.ts';
import { HandshakeQueue } from '../../src/proxy/merchants-listener.ts';
import { HeldUp, oneInATurn, QueuesOfAll, queueOfUpstreamReads, Turns } from '../../src/proxy/capacity/queues.ts';
import { FairTickQueue, NestedTickQueue, TickQueue } from '../../src/tick-queue.ts';
import { startSilentUpstream } from '../support/byte-upstream.ts';
import { openConnection, type Connection } from '../support/connection.ts';
import { eventually } from '../support/eventually.ts';
import { startGateway } from '../support/gateway.ts';
import { listen } from '../support/listen.ts';
import { limitUsed } from '../support/metrics.ts';
import { authorization, request, start } from '../support/refused.ts';
import { apiKey, configOf, globex, keys, route, startSidecar, type TestSidecar } from '../support/sidecar.ts';
import { settle } from '../support/turns.ts';
import { startUpstream } from '../support/upstream.ts';
import { onEachResponse, turnsOfResponses, waiter } from '../support/turns.ts';

const keyless = request('GET / HTTP/1.1', 'Host: localhost');

/** Opens connections and waits until the sidecar has accepted them, because it accepts only a few in each turn. */
async function openConnections(sidecar: TestSidecar, count: number): Promise<Connection[]> {
  const before = await limitUsed(sidecar, 'connections');
  const connections = await Promise.all(Array.from({ length: count }, () => openConnection(sidecar.port)));
  await vi.waitFor(async () => expect(await limitUsed(sidecar, 'connections')).toBe(before + count));
  return connections;
}

/** Makes the heads of requests take this many milliseconds, or a few times as many, as measured by the sidecar. */
function stepClock(step: number): void {
  let time = performance.now();
  const clock = vi.spyOn(performance, 'now').mockImplementation(() => (time += step));
  onTestFinished(() => clock.mockRestore());
}

/** The `X-Client` of each request, in the order in which the responses end. */
function orderOfResponses(): readonly string[] {
  const order: string[] = [];
  onEachResponse(({ head }: ServerExchange) => {
    const { fields = [] } = head ?? {};
    order.push(String(fields[fields.indexOf('X-Client') + 1]));
  });
  return order;
}

test('few requests without a key begin in a turn of the event loop, however many connections there are', async () => {
  const { sidecar } = await start();
  const clients = await openConnections(sidecar, 160);
  const turns = turnsOfResponses();
  for (const client of clients) client.send(keyless);
  await Promise.all(clients.map((client) => client.untilText('missing_api_key')));
  expect(turns).toHaveLength(160);
  // In each turn, eight requests that were just read begin, and eight that wait.
  expect(new Set(turns).size).toBeGreaterThanOrEqual(160 / 16);
});

test('if the deadlines of hundreds of connections pass at the same moment, few of these end in a turn', async () => {
  const { sidecar } = await start({}, { header: 1_000 });
  const clients = await openConnections(sidecar, 400);
  const turns = turnsOfResponses();
  for (const client of clients) client.send('G');
  await Promise.all(clients.map((client) => client.untilText('request_timeout')));
  const inTurn = Map.groupBy(turns, (turn) => turn);
  expect(Math.max(...[...inTurn.values()].map(({ length }) => length))).toBeLessThanOrEqual(64);
});

const withKey = request('GET / HTTP/1.1', 'Host: localhost', authorization);

test.each([
  ['without a key', undefined, keyless],
  ['without a key on connections that have carried a secret key', withKey, keyless],
  ['with a secret key on connections that have carried one', withKey, withKey],
])('if heads %s take long, the other clients are read in turns', async (_, before, head) => {
  const { sidecar } = await start();
  const clients = await openConnections(sidecar, 80);
  const heldUp = vi.spyOn(Turns.prototype, 'holdUpOthers');
  onTestFinished(() => heldUp.mockRestore());
  const send = async (step: number, sent: string, times: number): Promise<void> => {
    stepClock(step);
    for (const client of clients) client.send(sent);
    await Promise.all(clients.map((client) => client.untilText('HTTP/1.1 ', times)));
  };
  if (before !== undefined) await send(0.001, before, 1);
  const times = before === undefined ? 0 : 1;
  await send(0.001, head, times + 1);
  expect(heldUp).not.toHaveBeenCalled();
  await send(0.5, head, times + 2);
  expect(heldUp).toHaveBeenCalled();
});

test.each([
  ['without a key', undefined],
  ['with a public key', request('GET / HTTP/1.1', 'Host: localhost', `Authorization: Bearer ${keys.acmePublic}`)],
])('if finding room for the heads of clients %s takes long, the other clients are read in turns', async (_, before) => {
  const { origin } = await startUpstream();
  const limits = { buffered: 160_000, requestBody: 1_000 };
  const sidecar = await startSidecar(configOf(origin, { limits, routes: [route('/*', { keys: ['public'] })] }));
  const clients = await openConnections(sidecar, 40);
  for (const client of clients) if (before !== undefined) await client.send(before).untilText('HTTP/1.1 200');
  const heldUp = vi.spyOn(Turns.prototype, 'holdUpOthers');
  onTestFinished(() => heldUp.mockRestore());
  stepClock(0.5);
  for (const client of clients) client.send(`GET / HTTP/1.1\r\nX: ${'x'.repeat(8_000)}`);
  await vi.waitFor(() => expect(heldUp).toHaveBeenCalled());
});

test('work that never waits finds room in each turn', async () => {
  const turns = new TickQueue(8);
  for (let i = 0; i < 3; i += 1) {
    for (let started = 0; started < 8; started += 1) expect(turns.tryStart()).toBe(true);
    expect(turns.tryStart()).toBe(false);
    await nextTurn();
  }
});

/** The handshakes of 20 clients that begin in each turn of the event loop, if something else takes `duration` milliseconds of each turn. */
async function handshakesInTurns(duration: number): Promise<readonly (readonly number[])[]> {
  const queue = new HandshakeQueue();
  const turns: number[][] = [[]];
  let now = 0;
  const clock = vi.spyOn(performance, 'now').mockImplementation(() => now);
  onTestFinished(() => clock.mockRestore());
  for (let i = 1; i <= 20; i += 1) queue.add(() => turns.at(-1)?.push(i));
  while (turns.flat().length < 20) {
    now += duration;
    await nextTurn();
    turns.push([]);
  }
  return turns.filter((turn) => turn.length > 0);
}

test('two handshakes begin in a short turn, mostly the newest, but each fourth time the oldest', async () => {
  const turns = await handshakesInTurns(0);
  expect(turns.slice(0, 5)).toEqual([
    [20, 19],
    [18, 1],
    [17, 16],
    [15, 2],
    [14, 13],
  ]);
});

test('more handshakes begin in turns that other work makes long, but at most eight', async () => {
  expect((await handshakesInTurns(21))[0]).toEqual([20, 19, 18, 1, 17]);
  expect((await handshakesInTurns(200))[0]).toHaveLength(8);
});

test('a handshake that is withdrawn does not begin, and those that come later do', async () => {
  const queue = new HandshakeQueue();
  const begun: string[] = [];
  const withdraw = queue.add(() => begun.push('first'));
  withdraw();
  await nextTurn();
  await nextTurn();
  queue.add(() => begun.push('second'));
  await nextTurn();
  await nextTurn();
  expect(begun).toEqual(['second']);
});

test('work that continues in promises counts as time of its turn', async () => {
  let now = 1;
  const clock = vi.spyOn(performance, 'now').mockImplementation(() => now);
  onTestFinished(() => clock.mockRestore());
  const queue = new TickQueue(8, false, 5);
  let done = 0;
  for (let i = 0; i < 8; i += 1)
    queue.add(() => {
      const work = async (): Promise<void> => {
        await Promise.resolve();
        await Promise.resolve();
        done += 1;
        now += 3;
      };
      void work();
    });
  await nextTurn();
  expect(done).toBe(2);
  await nextTurn();
  expect(done).toBe(4);
});

test('a batch of clients that are held up is broken by many that send small pieces in one turn, but not by as many in several turns', async () => {
  const heldUp = new HeldUp(3);
  const brokenBy = (): boolean[] => [1, 2].map(() => heldUp.isBrokenByOneMore());
  expect(brokenBy()).toEqual([false, false]);
  await nextTurn();
  expect(brokenBy()).toEqual([false, false]);
  expect(heldUp.isBrokenByOneMore()).toBe(true);
});

test('the requests of all public keys of an environment wait together, and those of secret keys separately for each account', () => {
  const budgets = new Budgets(configOf('http://127.0.0.1:1').limits, true);
  /** How many requests of the account start in a turn. */
  const startedOf = (account: string, tier: 'public' | 'secret'): number => {
    const { requests } = budgets.claim('live', account, tier).turns;
    let started = 0;
    while (requests.tryStart()) started += 1;
    return started;
  };
  expect([startedOf('a', 'public'), startedOf('b', 'public')]).toEqual([8, 0]);
  expect([startedOf('a', 'secret'), startedOf('b', 'secret')]).toEqual([8, 8]);
  budgets.stop();
});

test('new work does not overtake waiting work', async () => {
  const turns = new TickQueue(8);
  const waiting = waiter.wait(turns);
  expect(turns.tryStart()).toBe(false);
  await waiting;
  expect(turns.tryStart()).toBe(true);
});

test('work that is withdrawn does not take a turn from other work', async () => {
  const turns = new TickQueue(1);
  const started: string[] = [];
  turns.add(() => started.push('first'));
  const withdraw = turns.add(() => started.push('withdrawn'));
  turns.add(() => started.push('last'));
  withdraw();
  await nextTurn();
  await nextTurn();
  expect(started).toEqual(['first', 'last']);
});

test('no further work starts in a turn that has taken five milliseconds', { timeout: 5_000 }, async () => {
  const { requests: turns } = new Turns();
  let turn = 0;
  const started = new Set<number>();
  for (let i = 0; i < 6; i += 1) {
    turns.add(() => {
      started.add(turn);
      for (const before = performance.now(); performance.now() - before < 5;);
    });
  }
  for (; started.size < 6; turn += 1) await nextTurn();
});

test('after long work, no work of its kind starts for three times as long', async () => {
  const turns = new TickQueue(1);
  await waiter.wait(turns);
  const before = performance.now();
  turns.restAfter(before - 16);
  await waiter.wait(turns);
  expect(performance.now() - before).toBeGreaterThanOrEqual(48);
});

test('after work that was interrupted by other work, the pause depends only on the time of the work itself', async () => {
  const turns = new TickQueue(1);
  await waiter.wait(turns);
  const before = performance.now();
  turns.restAfter(before - 100_000, 16);
  await waiter.wait(turns);
  expect(performance.now() - before).toBeGreaterThanOrEqual(48);
});

test('a request whose client has left before its turn is not answered', async () => {
  const answered: (string | undefined)[] = [];
  const answer = oneInATurn(({ url }, res) => {
    answered.push(url);
    res.end();
  });
  const begun: ServerResponse[] = [];
  const server = createServer((_req, res) => {
    begun.push(res);
    if (begun.length < 3) return;
    for (const each of begun) answer(each.req, each);
    begun[1]?.destroy();
  });
  const port = await listen(server);
  const asked = ['/one', '/two', '/three'].map((path) => fetch(`http://127.0.0.1:${port}${path}`));
  await Promise.allSettled(asked);
  expect(answered).toHaveLength(2);
});

test.each([
  ['a new connection', false],
  ['a connection that has carried its key before', true],
])('a merchant does not wait behind clients without a key, on %s', async (_name, isKnown) => {
  const config = configOf('http://127.0.0.1:9', { routes: [route('/read', { methods: ['GET'] })] });
  const sidecar = await startSidecar(config);
  const strangers = await openConnections(sidecar, 160);
  const [merchant] = await openConnections(sidecar, 1);
  // These requests are refused at once, so responses end in the order in which requests begin.
  const refused = (client: string, ...more: string[]): string =>
    request('PUT /read HTTP/1.1', 'Host: localhost', `X-Client: ${client}`, ...more);
  if (isKnown) await merchant?.send(refused('known', authorization)).untilText('method_not_allowed');
  const order = orderOfResponses();
  for (const stranger of strangers) stranger.send(refused('stranger'));
  merchant?.send(refused('merchant', authorization));
  await Promise.all(strangers.map((client) => client.untilText('missing_api_key')));
  expect(order).toHaveLength(161);
  expect(order.indexOf('merchant')).toBeLessThan(80);
});

/** A request that is refused at once, so responses end in the turns and in the order in which requests begin. */
function refusedPut(client: string, key: string, host = 'localhost'): string {
  return request(
    'PUT /api/v1/transactions/initialize HTTP/1.1',
    `Host: ${host}`,
    `X-Client: ${client}`,
    `Authorization: Bearer ${key}`,
  );
}

test('a customer of a live shop does not wait behind customers of a test shop', async () => {
  const shopLive = 'pk_live_globexglobexglobexglobex';
  const accounts = [{ ...globex, keys: [...globex.keys, apiKey(shopLive)] }];
  const { sidecar } = await startGateway({ accounts, serves: 'both' });
  const others = await openConnections(sidecar, 160);
  const customer = await openConnection(sidecar.port);
  const order = orderOfResponses();
  for (const other of others) other.send(refusedPut('other', keys.globexPublic, 'sandbox.pay.example'));
  customer.send(refusedPut('customer', shopLive, 'api.pay.example'));
  await Promise.all([...others, customer].map((client) => client.untilText('method_not_allowed')));
  expect(order).toHaveLength(161);
  expect(order.indexOf('customer')).toBeLessThan(80);
});

describe('requests of one merchant', () => {
  test('begin only a few per turn of the event loop, however many connections there are', async () => {
    const { sidecar } = await startGateway();
    const clients = await openConnections(sidecar, 160);
    const turns = turnsOfResponses();
    for (const client of clients) client.send(refusedPut('one', keys.globex));
    await Promise.all(clients.map((client) => client.untilText('method_not_allowed')));
    expect(turns).toHaveLength(160);
    expect(new Set(turns).size).toBeGreaterThanOrEqual(160 / 16);
  });

  test.each([100, 8_193, 65_536])(
    'whose bodies of %i bytes end together are processed only a few per turn',
    async (length) => {
      const { sidecar } = await startGateway({ limits: { buffered: 32 * 1_048_576 } });
      const clients = await openConnections(sidecar, 160);
      const head = request(
        'POST /api/s2s/payments HTTP/1.1',
        'Host: localhost',
        `Authorization: Bearer ${keys.acme}`,
        'Content-Type: application/json',
        `Content-Length: ${length}`,
      );
      for (const client of clients) client.send(`${head}"${'x'.repeat(length - 2)}`);
      await eventually('all bodies but their last bytes are held', async () => {
        return (await limitUsed(sidecar, 'buffered')) >= 160 * (length - 1);
      });
      const turns = turnsOfResponses();
      for (const client of clients) client.send('"');
      await Promise.all(clients.map((client) => client.untilText('envelope_required')));
      expect(turns).toHaveLength(160);
      expect(new Set(turns).size).toBeGreaterThanOrEqual(160 / (length > 8_192 ? 8 : 16));
    },
  );

  test('wait for their turn and are not refused, although their account has used up its share of the memory', async () => {
    const { sidecar } = await startGateway({ limits: { buffered: 1_000, requestBody: 1_000 } });
    const clients = await openConnections(sidecar, 160);
    const turns = turnsOfResponses();
    for (const client of clients) client.send(refusedPut('one', keys.globex));
    await Promise.all(clients.map((client) => client.untilText('method_not_allowed')));
    expect(turns).toHaveLength(160);
    expect(new Set(turns).size).toBeGreaterThanOrEqual(160 / 16);
    expect(sidecar.accessLines().filter(({ code }) => code === 'overloaded')).toEqual([]);
  });

  test('keep no other merchant waiting', async () => {
    const { sidecar } = await startGateway();
    const noisy = await openConnections(sidecar, 160);
    const quiet = await openConnection(sidecar.port);
    const order = orderOfResponses();
    for (const each of noisy) each.send(refusedPut('noisy', keys.globex));
    quiet.send(refusedPut('quiet', keys.acme));
    await Promise.all([...noisy, quiet].map((client) => client.untilText('method_not_allowed')));
    expect(order).toHaveLength(161);
    expect(order.indexOf('quiet')).toBeLessThan(80);
  });
});

test.each([
  ['without a key waits behind requests without a key', [], 'missing_api_key', true],
  ['of a merchant does not', [authorization], 'account_inactive', false],
])('a WebSocket handshake %s', async (_name, sent, code, waits) => {
  const settings = { routes: [route('/ws', { upgrade: true })], accounts: [{ ...globex, active: false }] };
  const sidecar = await startSidecar(configOf('http://127.0.0.1:9', settings));
  const clients = await openConnections(sidecar, 161);
  // Connections that have not carried a request are read in another order if the machine is slow.
  for (const each of clients) await each.send(keyless).untilText('missing_api_key');
  await vi.waitFor(() => expect(sidecar.accessLines()).toHaveLength(161));
  const [client, ...strangers] = clients.toReversed();
  for (const stranger of strangers) stranger.send(keyless);
  client?.send(request('GET /ws HTTP/1.1', 'Host: localhost', 'Connection: Upgrade', 'Upgrade: websocket', ...sent));
  const refused = client?.untilText(code, code === 'missing_api_key' ? 2 : 1);
  await Promise.all([refused, ...strangers.map((each) => each.untilText('missing_api_key', 2))]);
  await vi.waitFor(() => expect(sidecar.accessLines()).toHaveLength(322));
  const before = sidecar
    .accessLines()
    .slice(161)
    .findIndex(({ route }) => route === '/ws');
  expect(before > 80).toBe(waits);
});

test('a client without a key that would have to wait, but for which the budget has no room, is refused at once', async () => {
  const sidecar = await startSidecar(
    configOf('http://127.0.0.1:9', { limits: { buffered: 8 * 2_000, requestBody: 1_000 } }),
  );
  const clients = await openConnections(sidecar, 160);
  const turns = turnsOfResponses();
  const body = 'x'.repeat(1_000);
  const post = request('POST / HTTP/1.1', 'Host: localhost', `Content-Length: ${body.length}`) + body;
  for (const client of clients) client.send(post);
  await Promise.all(clients.map((client) => client.untilText('"code":"')));
  expect(turns).toHaveLength(160);
  expect(new Set(turns).size).toBeLessThan(160 / 16);
  await vi.waitFor(() => expect(sidecar.accessLines()).toHaveLength(160));
  const refused = sidecar.accessLines().filter(({ code }) => code === 'overloaded');
  expect(refused.length).toBeGreaterThan(80);
  expect(new Set(refused.map(({ reason }) => reason))).toEqual(new Set(['anonymous']));
  expect(await limitUsed(sidecar, 'buffered')).toBe(0);
});

test.each([
  ['clients without a key', [], 'anonymous'],
  ['one merchant', [authorization], 'account'],
])(
  'after a refusal for lack of room, the connections of %s are read again only a few per turn',
  async (_name, sent, reason) => {
    const { origin } = await startSilentUpstream();
    const limits = { buffered: 8 * 2_000, requestBody: 1_000, inFlight: 2, account: 0.5 };
    const sidecar = await startSidecar(configOf(origin, { limits }));
    const clients = await openConnections(sidecar, 160);
    const body = 'x'.repeat(1_000);
    const post = request('POST / HTTP/1.1', 'Host: localhost', ...sent, `Content-Length: ${body.length}`) + body;
    const refuse = async (client: Connection, times: number): Promise<void> => {
      client.send(post);
      await client.untilText('"code":"', times);
    };
    stepClock(0.001);
    if (reason === 'account') clients.shift()?.send(post);
    await Promise.all(clients.map((client) => refuse(client, 1)));
    const turns = turnsOfResponses();
    await Promise.all(clients.map((client) => refuse(client, 2)));
    const perTurn = Map.groupBy(turns, (turn) => turn);
    expect(turns.length).toBeGreaterThan(80);
    expect(Math.max(...[...perTurn.values()].map(({ length }) => length))).toBeLessThanOrEqual(40);
    await vi.waitFor(() => expect(sidecar.accessLines().length).toBeGreaterThanOrEqual(2 * clients.length));
    const refused = sidecar.accessLines().filter(({ code }) => code === 'overloaded');
    expect(new Set(refused.map(({ reason }) => reason))).toEqual(new Set([reason]));
  },
);

test('a merchant who pipelines does not wait behind clients without a key that pipeline', async () => {
  const config = configOf('http://127.0.0.1:9', { routes: [route('/read', { methods: ['GET'] })] });
  const sidecar = await startSidecar(config);
  const strangers = await openConnections(sidecar, 40);
  const [merchant] = await openConnections(sidecar, 1);
  const refused = (client: string, ...more: string[]): string =>
    request('PUT /read HTTP/1.1', 'Host: localhost', `X-Client: ${client}`, ...more);
  const order = orderOfResponses();
  for (const stranger of strangers) stranger.send(refused('stranger').repeat(10));
  merchant?.send(refused('merchant', authorization).repeat(10));
  await Promise.all([
    merchant?.untilText('method_not_allowed', 10),
    ...strangers.map((client) => client.untilText('missing_api_key', 10)),
  ]);
  expect(order).toHaveLength(410);
  expect(order.lastIndexOf('merchant')).toBeLessThan(300);
});

test('if one piece of work is done in each turn, the owners of work take turns, whatever is withdrawn', async () => {
  const queue = new FairTickQueue<string>(1);
  const started: string[] = [];
  const add = (owner: string, name: string): (() => void) => queue.of(owner).add(() => started.push(name));
  const withdraw = add('many', 'withdrawn');
  for (let i = 1; i <= 3; i += 1) add('many', `many ${i}`);
  add('one', 'one');
  withdraw();
  await vi.waitFor(() => expect(started).toHaveLength(4));
  expect(started).toEqual(['many 1', 'one', 'many 2', 'many 3']);
  await settle();
  expect(started).toHaveLength(4);
});

test('work that waits has its turn, even if other work is withdrawn after it was done in the turn of a third', async () => {
  const shared = new TickQueue(1);
  const nested = new NestedTickQueue(shared);
  const fair = new FairTickQueue<string>(1, undefined, 2);
  const queues = {
    fair: (owner: number) => fair.of(String(owner), owner % 2),
    nested: (owner: number) => nested.queueOf([String(owner % 2), String(owner)], () => {}),
  };
  for (const queueOf of Object.values(queues)) {
    for (let round = 0; round < 200; round += 1) {
      const started = new Set<number>();
      const withdrawn = new Set<number>();
      const work = Array.from({ length: 12 }, (_, i) => ({
        i,
        withdraw: queueOf(Math.floor(Math.random() * 4)).add(() => void started.add(i)),
      }));
      while (Math.random() < 0.8) await nextTurn();
      // Connections withdraw their work when they close, whether it has been done or not.
      for (const { i, withdraw } of work) {
        if (Math.random() < 0.5) continue;
        if (!started.has(i)) withdrawn.add(i);
        withdraw();
      }
      for (let turn = 0; turn < 40 && started.size + withdrawn.size < work.length; turn += 1) await nextTurn();
      expect([...started, ...withdrawn]).toHaveLength(work.length);
    }
  }
});

test('turns do not pile up, however much work is withdrawn or evicted before its turn', async () => {
  const add = vi.fn<() => () => void>(() => () => {});
  const queue = new NestedTickQueue({ add });
  for (let i = 0; i < 100; i += 1) {
    const withdraw = queue.queueOf(['network'], () => {}).add(() => {});
    if (i % 2 === 0) withdraw();
    else expect(queue.evict()).toBe(true);
  }
  expect(add).toHaveBeenCalledTimes(1);
});

test('requests with public keys of one account, however many, take turns with those of another account', async () => {
  const { limits } = configOf('http://127.0.0.1:1');
  const budgets = new Budgets(limits, true);
  onTestFinished(() => budgets.stop());
  const [many, one] = ['many', 'one'].map((shop) => budgets.claim('live', shop, 'public').turns.requests);
  while (many?.tryStart() === true);
  expect(one?.tryStart()).toBe(false);
  const started: string[] = [];
  for (let i = 0; i < 20; i += 1) many?.add(() => started.push('many'));
  one?.add(() => started.push('one'));
  await vi.waitFor(() => expect(started).toHaveLength(21));
  expect(started.indexOf('one')).toBe(1);
});

test('clients with public keys that have sent many small pieces, or a lot of data, wait for one client of each other account at a time', async () => {
  const all = new QueuesOfAll();
  const [noisy, quiet] = [new Turns(false, all), new Turns(false, all)];
  for (const queue of ['smallPieces', 'bytes'] as const) {
    const order: string[] = [];
    for (let i = 0; i < 20; i += 1) noisy[queue].add(() => order.push('noisy'));
    quiet[queue].add(() => order.push('quiet'));
    await eventually('all have had their turn', () => order.length === 21);
    expect(order.indexOf('quiet')).toBeLessThan(2);
  }
});

test('requests without a key wait for one of each other network at a time, and those of the network with the most requests are refused first', async () => {
  // Waiting clients without a key get three quarters of 64 KiB.
  const sidecar = await startSidecar(
    configOf('http://127.0.0.1:9', {
      limits: { buffered: 8 * 65_536, requestBody: 16_384 },
      trustedProxies: ['127.0.0.1/32'],
    }),
  );
  const noisy = await openConnections(sidecar, 160);
  const [quiet] = await openConnections(sidecar, 1);
  const from = (address: string): string => request('GET / HTTP/1.1', 'Host: localhost', `X-Forwarded-For: ${address}`);
  for (const [i, client] of noisy.entries()) client.send(from(`2001:db8:1:${i}::1`));
  quiet?.send(from('2001:db8:2::1'));
  await Promise.all(noisy.map((client) => client.untilText('"code"')));
  await quiet?.untilText('missing_api_key');
  await vi.waitFor(() => expect(sidecar.accessLines()).toHaveLength(161));
  const codes = sidecar.accessLines().map(({ code }) => code);
  expect(codes.filter((code) => code === 'overloaded').length).toBeGreaterThan(50);
  expect(codes.filter((code) => code === 'missing_api_key').length).toBeGreaterThan(20);
});

test('a response to a secret key waits for one response to all public keys at a time, whatever number of accounts these have', async () => {
  const queue = queueOfUpstreamReads();
  const started: string[] = [];
  for (let i = 0; i < 10; i += 1) queue.of({ tier: 'public' }).add(() => started.push('public'));
  for (let i = 0; i < 2; i += 1) queue.of({ tier: 'secret' }).add(() => started.push('secret'));
  await vi.waitFor(() => expect(started).toHaveLength(12));
  expect(started.slice(0, 4).toSorted()).toEqual(['public', 'public', 'secret', 'secret']);
});

test('groups of owners take turns, however many owners one of them has', async () => {
  const queue = new FairTickQueue<string>(1, undefined, 2);
  const started: string[] = [];
  for (let i = 0; i < 10; i += 1) queue.of(`network ${i}`, 1).add(() => started.push('network'));
  for (let i = 0; i < 2; i += 1) queue.of('account', 0).add(() => started.push('account'));
  await vi.waitFor(() => expect(started).toHaveLength(12));
  expect(started.slice(0, 4).toSorted()).toEqual(['account', 'account', 'network', 'network']);
});

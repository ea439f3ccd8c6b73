import { Socket } from 'node:net';
import { setImmediate as nextTurn, setTimeout as delay } from 'node:timers/promises';
import { expect, onTestFinished, test, vi } from 'vitest';
import type { SuspendReason } from '../../src/http1/read-pace.ts';
import { ServerExchange } from '../../src/http1/exchange.ts';
import { Incoming } from '../../src/http1/incoming.ts';
import { LookUps } from '../../src/proxy/capacity/look-ups.ts';
import type { Crowd } from '../../src/proxy/capacity/queues.ts';
import { ClientConnection } from '../../src/proxy/capacity/client-connection.ts';
import { createAuthority } from '../support/certificates.ts';
import { createConnections } from '../support/client-connections.ts';
import { openConnection, parseOnly } from '../support/connection.ts';
import { eventually } from '../support/eventually.ts';
import { openRaw13 } from '../support/key-updates.ts';
import { authorization, request, start } from '../support/refused.ts';
import { apiKey, configOf, globex, keys, startSidecar } from '../support/sidecar.ts';
import { startUpstream } from '../support/upstream.ts';

// eslint-disable-next-line @typescript-eslint/unbound-method -- called with its object
const { receive: receiveBytes } = Incoming.prototype;

/** Creates connections of clients that sent many small pieces. `resumed` lists those that are read again, in order. */
function startReading() {
  const { all, budgets, limits, open: openClient } = createConnections();
  const claims = {
    anonymous: undefined,
    testPublic: budgets.claim('test', 'shop', 'public'),
    livePublic: budgets.claim('live', 'shop', 'public'),
    test: budgets.claim('test', 'shop', 'secret'),
    live: budgets.claim('live', 'shop', 'secret'),
  };
  const resumed: Crowd[] = [];
  const open = (crowd: Crowd): ClientConnection => {
    const client = openClient();
    const claim = claims[crowd];
    if (claim !== undefined) client.identify(claim);
    client.idle();
    return client;
  };
  const suspend = (crowd: Crowd, reason: SuspendReason = 'smallPieces'): ClientConnection => {
    const client = open(crowd);
    client.onSuspend(() => resumed.push(crowd), reason);
    return client;
  };
  return { all, budgets, claims, limits, open, suspend, resumed };
}

test('a connection whose request may have a secret key gives way to none, although the request before had a public one', () => {
  const { all, claims, open } = startReading();
  const client = open('livePublic');
  expect([...all.eviction.publicKeys]).toEqual([client]);
  client.begin({ http: new ServerExchange(client.http), giveWay: () => {} }, 'live', performance.now());
  expect([...all.eviction.publicKeys]).toEqual([]);
  client.identify(claims.live);
  expect([...all.eviction.publicKeys]).toEqual([]);
});

test('a connection with a secret key that is one too many, because a limit was lowered, closes none without a key', () => {
  const { all, budgets, claims, limits, open } = startReading();
  const clients = Array.from({ length: 4 }, () => open('anonymous'));
  budgets.resize({ ...limits, connections: 2 }, true);
  expect(clients[0]?.identify(claims.live)).toEqual({ limit: 'connections', shortage: 'total' });
  expect([...all.eviction.anonymous]).toEqual(clients);
});

test('of clients that send small pieces, one of each kind is read again in a turn; none of them keeps a client with a better key waiting', async () => {
  const { suspend, resumed } = startReading();
  for (const crowd of crowds) for (let i = 0; i < 3; i += 1) suspend(crowd);
  await nextTurn();
  expect(resumed).toEqual(crowds);
  await nextTurn();
  // Leave out anonymous clients, which pause after each turn.
  const merchants = (of: readonly Crowd[]): readonly Crowd[] => of.filter((crowd) => crowd !== 'anonymous');
  expect(merchants(resumed.slice(crowds.length))).toEqual(merchants(crowds));
});

test('of clients that send a lot of data, four are read again in a turn', async () => {
  const { suspend, resumed } = startReading();
  for (let i = 0; i < 5; i += 1) suspend('live', 'bytes');
  await nextTurn();
  expect(resumed).toHaveLength(4);
  await nextTurn();
  expect(resumed).toHaveLength(5);
});

test('a client that leaves while it waits to be read again takes no turn', async () => {
  const { open, suspend, resumed } = startReading();
  const client = open('anonymous');
  client.onSuspend(() => expect.fail('it is read'), 'smallPieces');
  client.onClose();
  suspend('anonymous');
  await nextTurn();
  expect(resumed).toEqual(['anonymous']);
});

test('the time for which a connection has held bytes is not reset by each request whose end arrives with the next request', () => {
  const { open } = startReading();
  const client = open('anonymous');
  const request = { http: new ServerExchange(client.http), giveWay: () => {} };
  client.onHeld(100);
  const { since } = client;
  expect(since).toBeGreaterThan(0);
  client.begin(request, 'live', since + 1_000);
  client.onHeld(-60);
  client.idle();
  client.onHeld(60);
  expect(client.since).toBe(since);
  client.onHeld(-100);
  client.begin(request, 'live', since + 2_000);
  client.onHeld(100);
  expect(client.since).toBe(since + 2_000);
});

test('a client that has left is not charged for what is still read from it or learned about it', () => {
  const { budgets, claims, open } = startReading();
  const client = open('anonymous');
  client.onClose();
  expect(client.onHeld(100)).toBe(true);
  expect(client.identify(claims.live)).toBeUndefined();
  expect([budgets.buffered.used, budgets.connections.used]).toEqual([0, 0]);
  expect(claims.live.turns.readers.size).toBe(0);
});

test('a client that was held up once takes turns again when it sends small pieces itself', async () => {
  const { open, resumed } = startReading();
  const clients = [open('live'), open('live')];
  for (const { http } of clients) vi.spyOn(http, 'suspend').mockImplementation(() => {});
  open('live').onCrowd();
  for (const client of clients) client.onSuspend(() => resumed.push('live'), 'smallPieces');
  await nextTurn();
  expect(resumed).toHaveLength(1);
});

test('for a WebSocket, the coupling with the core stops reading', () => {
  const { open } = startReading();
  const client = open('live');
  const suspensions = vi.spyOn(client.http, 'suspend');
  const coupled = vi.fn<() => void>();
  client.suspendCoupled = coupled;
  open('live').onCrowd();
  expect(coupled).toHaveBeenCalledOnce();
  expect(suspensions).not.toHaveBeenCalled();
});

const crowds = ['anonymous', 'testPublic', 'livePublic', 'test', 'live'] as const;

test.each<[string, (client: ClientConnection) => void]>([
  ['has sent too much to TLS', (client) => client.onCrowd()],
  ['has sent many small pieces', (client) => client.onSuspend(() => {}, 'smallPieces')],
])(
  'if a client %s, only those that share its turns are suspended, before they are read in the same turn',
  (_, sends) => {
    for (const sender of crowds) {
      const { open } = startReading();
      const suspended: Crowd[] = [];
      for (const crowd of crowds) {
        const client = open(crowd);
        // Reports the suspension, as a real connection does.
        vi.spyOn(client.http, 'suspend').mockImplementation(() => {
          suspended.push(crowd);
          client.onSuspend(() => {}, 'heldUp');
        });
      }
      open(sender).onSuspend(() => {}, 'bytes');
      expect(suspended).toEqual([]);
      sends(open(sender));
      expect(suspended).toEqual([sender]);
    }
  },
);

test.each([
  ['anonymous', 1, 16],
  ['live', 8, 512],
] as const)(
  'if %s clients, each beyond the first %i, send %i small pieces in a turn, others are suspended, although none has sent many',
  async (crowd, free, inTurn) => {
    const { open } = startReading();
    const client = open(crowd);
    const suspensions = vi.spyOn(client.http, 'suspend');
    const sends = (count: number): void => {
      for (let i = 0; i < count; i += 1) {
        const sender = open(crowd);
        sender.onSmallPiece(free);
        sender.onSmallPiece(free + 1);
      }
    };
    sends(inTurn - 1);
    await nextTurn();
    sends(inTurn - 1);
    expect(suspensions).not.toHaveBeenCalled();
    sends(1);
    expect(suspensions).toHaveBeenCalledOnce();
  },
);

test('small pieces of all public keys of an environment add up, because one client may have the keys of many shops', async () => {
  const { budgets, open } = startReading();
  const ofShop = (shop: string): ClientConnection => {
    const client = open('anonymous');
    client.identify(budgets.claim('test', shop, 'public'));
    client.idle();
    return client;
  };
  const shops = Array.from({ length: 511 }, (_, i) => ofShop(`shop-${i}`));
  const [sender, other] = [ofShop('last'), ofShop('last')];
  const suspensions = vi.spyOn(other.http, 'suspend');
  sender.onSmallPiece(9);
  expect(suspensions).not.toHaveBeenCalled();
  await nextTurn();
  for (const shop of shops) shop.onSmallPiece(9);
  sender.onSmallPiece(9);
  sender.onSmallPiece(10);
  expect(suspensions).toHaveBeenCalledOnce();
});

test('of clients that each send fewer small TLS records than would make them wait, a few are read in a turn', async () => {
  const { cert, key } = createAuthority().issue('DNS:localhost');
  const tls = { cert, key, clientCa: undefined };
  const { port } = await startSidecar(configOf('http://127.0.0.1:1', { listen: { host: '127.0.0.1', port: 0, tls } }));
  const clients = await Promise.all(Array.from({ length: 20 }, () => openRaw13(port)));
  const inTurns = [0];
  const receive = vi.spyOn(Incoming.prototype, 'receive').mockImplementation(function (this: Incoming, bytes) {
    inTurns.push((inTurns.pop() ?? 0) + 1);
    Reflect.apply(receiveBytes, this, [bytes]);
  });
  onTestFinished(() => receive.mockRestore());
  for (const client of clients) client.send(Array.from('x'.repeat(50)));
  while (inTurns.reduce((sum, each) => sum + each, 0) < 20 * 50) {
    await nextTurn();
    inTurns.push(0);
  }
  // Without suspensions, all of the thousand are read in one or two turns.
  expect(Math.max(...inTurns)).toBeLessThanOrEqual(200);
});

test('if clients replace the keys of TLS, fewer times each than would close them, others are suspended', async () => {
  const { cert, key } = createAuthority().issue('DNS:localhost');
  const tls = { cert, key, clientCa: undefined };
  const { port } = await startSidecar(configOf('http://127.0.0.1:1', { listen: { host: '127.0.0.1', port: 0, tls } }));
  const clients = await Promise.all(Array.from({ length: 20 }, () => openRaw13(port)));
  const crowds = vi.spyOn(ClientConnection.prototype, 'onCrowd');
  onTestFinished(() => crowds.mockRestore());
  for (const client of clients) client.replaceKeys(2);
  await eventually('there are too many', () => crowds.mock.calls.length > 0);
  for (const { socket } of clients) expect(socket.closed).toBe(false);
});

test('a client whose turn has come is read in it, whatever others send', async () => {
  const { open, suspend } = startReading();
  const client = suspend('anonymous');
  const suspensions = vi.spyOn(client.http, 'suspend');
  await nextTurn();
  open('anonymous').onSuspend(() => {}, 'smallPieces');
  expect(suspensions).not.toHaveBeenCalled();
  await nextTurn();
  await nextTurn();
  open('anonymous').onSuspend(() => {}, 'smallPieces');
  expect(suspensions).toHaveBeenCalledOnce();
});

test('a client that is only closed for what it has sent suspends nobody', () => {
  const { open } = startReading();
  const client = open('anonymous');
  const suspensions = vi.spyOn(client.http, 'suspend');
  open('anonymous').onExcess();
  expect(suspensions).not.toHaveBeenCalled();
});

test('of new connections that wait because of others, the newest is read first, but each fourth time the oldest', async () => {
  const { open } = startReading();
  const read: number[] = [];
  for (let i = 1; i <= 100; i += 1) open('anonymous').onSuspend(() => read.push(i), 'heldUp');
  await nextTurn();
  expect(read).toHaveLength(64);
  expect(read.slice(0, 8)).toEqual([100, 99, 98, 1, 97, 96, 95, 2]);
});

test('a client that has left is not suspended', () => {
  const { open } = startReading();
  const client = open('anonymous');
  const suspensions = vi.spyOn(client.http, 'suspend');
  client.onClose();
  open('anonymous').onSuspend(() => {}, 'smallPieces');
  expect(suspensions).not.toHaveBeenCalled();
});

test('of clients that replace the keys of TLS again and again, two are read in a turn', async () => {
  const { cert, key } = createAuthority().issue('DNS:localhost');
  const tls = { cert, key, clientCa: undefined };
  const { port } = await startSidecar(configOf('http://127.0.0.1:1', { listen: { host: '127.0.0.1', port: 0, tls } }));
  const clients = await Promise.all(Array.from({ length: 10 }, () => openRaw13(port)));
  const ended = new Set<Socket>();
  for (const { socket } of clients) socket.once('close', () => ended.add(socket));
  for (const client of clients) client.replaceKeys(1_000);
  const turns = new Set<number>();
  while (ended.size < clients.length) {
    await nextTurn();
    turns.add(ended.size);
  }
  // Clients that were read in two turns may be seen to close at the same time.
  expect(turns.size).toBeGreaterThanOrEqual(4);
});

test('a client without a key that sends a head in hundreds of TLS records at once is closed, and most of them are not decrypted', async () => {
  const { cert, key } = createAuthority().issue('DNS:localhost');
  const { origin, seen } = await startUpstream();
  const tls = { cert, key, clientCa: undefined };
  const sidecar = await startSidecar(configOf(origin, { listen: { host: '127.0.0.1', port: 0, tls } }));
  const receive = vi.spyOn(Incoming.prototype, 'receive');
  onTestFinished(() => receive.mockRestore());
  const stranger = await openRaw13(sidecar.port);
  stranger.send(Array.from(`GET / HTTP/1.1\r\nHost: localhost\r\nX: ${'x'.repeat(1_500)}\r\n\r\n`));
  await eventually('the client is closed', () => stranger.socket.closed);
  expect(stranger.received()).toBeNull();
  expect(receive).toHaveBeenCalledTimes(300);
  expect(seen).toHaveLength(0);

  // A head in 299 records is read. From a client with a key, all records are read.
  const whole = [
    'GET / HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\nX: ',
    ...Array.from('x'.repeat(297)),
    '\r\n\r\n',
  ];
  const other = await openRaw13(sidecar.port);
  other.send(whole);
  await eventually('the other client is refused', () => other.received()?.includes('missing_api_key'));

  // The first merchant's key is looked up for some time, as in a database.
  const lookUp = vi.spyOn(LookUps.prototype, 'find');
  onTestFinished(() => lookUp.mockRestore());
  lookUp.mockReturnValueOnce(delay(100, { account: globex, key: apiKey(keys.globex) }));
  for (const count of [1, 2]) {
    const merchant = await openRaw13(sidecar.port);
    const head = `POST /notes HTTP/1.1\r\nHost: localhost\r\n${authorization}\r\nContent-Length: 1500\r\n\r\n`;
    merchant.send([head, ...Array.from('x'.repeat(1_500))]);
    await eventually('the merchant is served', () => merchant.received()?.startsWith('HTTP/1.1 200'));
    expect(seen.map(({ body }) => body.length)).toEqual(Array(count).fill(1_500));
  }
});

test('a request whose body comes in thousands of small pieces is served', async () => {
  const { sidecar, upstream } = await start();
  const client = await openConnection(sidecar.port);
  client.send(request('POST /notes HTTP/1.1', 'Host: localhost', authorization, 'Content-Length: 2500'));
  for (let i = 0; i < 2_500; i += 1) {
    client.send('x');
    await nextTurn();
  }
  expect(parseOnly(await client.untilText('}')).status).toBe(200);
  expect(upstream.seen[0]?.body).toHaveLength(2_500);
});

import { expect, onTestFinished, test, vi } from 'vitest';
import { ServerExchange } from '../../src/http1/exchange.ts';
import type { ClientConnection } from '../../src/proxy/capacity/client-connection.ts';
import { createConnections } from '../support/client-connections.ts';

type What = 'head' | 'body' | 'unread';

/**
 * Creates budgets in which clients without a key get 8,000 bytes, and those in test half of that. Connections made by `add` have held their
 * bytes for a second.
 */
function setUp() {
  const now = vi.spyOn(performance, 'now').mockReturnValue(0);
  onTestFinished(() => void vi.restoreAllMocks());
  const { budgets, open: openClient } = createConnections({ buffered: 64_000, requestBody: 1_000 });
  const closed: string[] = [];
  const open = (name: string): ClientConnection => {
    const client = openClient();
    vi.spyOn(client.http, 'destroy').mockImplementation(() => void closed.push(name));
    return client;
  };
  /** Makes the client hold `bytes`, for which others may have to give way. Returns whether there is room. */
  const take = (
    client: ClientConnection,
    what: What,
    bytes: number,
    environment: 'test' | 'live' = 'live',
  ): boolean => {
    if (what === 'head') return client.onHeld(bytes);
    const http = new ServerExchange(client.http);
    if (what === 'unread') http.status = 200;
    const reservation = client.begin({ http, giveWay: () => {} }, environment, performance.now());
    if (what === 'body') client.letGiveWay(true);
    const isHeld = reservation.hold(bytes);
    client.letGiveWay(true);
    return isHeld;
  };
  now.mockReturnValue(1_000);
  /** Opens a connection that has held `bytes` for a second. */
  const add = (name: string, what: What, bytes: number, environment?: 'test' | 'live'): void => {
    now.mockReturnValue(0);
    expect(take(open(name), what, bytes, environment)).toBe(true);
    now.mockReturnValue(1_000);
  };
  return { add, budgets, closed, now, open, take };
}

test('for a head, the connections that have held most for longest give way, and no more than it needs', () => {
  const { add, closed, open, take } = setUp();
  add('head', 'head', 3_000);
  add('body', 'body', 4_000);
  add('unread', 'unread', 1_000);
  expect(take(open('merchant'), 'head', 600)).toBe(true);
  expect(closed).toEqual(['body']);
  expect(take(open('merchant'), 'head', 6_000)).toBe(true);
  expect(closed).toEqual(['body', 'head']);
});

test('nothing is closed if that would not make enough room', () => {
  const { add, budgets, closed, open, take } = setUp();
  for (let i = 0; i < 64; i += 1) add(`head ${i}`, 'head', 125);
  expect(take(open('stranger'), 'head', 4_001)).toBe(false);
  expect(closed).toEqual([]);
  expect(budgets.buffered.used).toBe(8_000);
  expect(take(open('stranger'), 'head', 4_000)).toBe(true);
  expect(closed).toHaveLength(32);
});

test('of many connections, those that have held most are closed', () => {
  const { add, closed, open, take } = setUp();
  for (const bytes of [100, 300, 200, 50, 350, 250, 150, 400, 500]) add(`${bytes}`, 'head', bytes);
  for (let i = 0; i < 57; i += 1) add('100', 'head', 100);
  expect(take(open('merchant'), 'head', 1_450)).toBe(true);
  expect(closed).toEqual(['500', '400', '350', '300']);
});

test('bodies of clients that have sent too many wrong keys are evicted first', () => {
  const { add, closed, now, open, take } = setUp();
  add('guess', 'body', 500);
  add('merchant', 'body', 6_000);
  const guesser = open('guesser');
  expect(take(guesser, 'body', 1_200)).toBe(true);
  guesser.isSuspect = true;
  now.mockReturnValue(1_010);
  expect(take(open('head'), 'head', 1_000)).toBe(true);
  expect(closed).toEqual(['guesser']);
  guesser.idle();
  expect(guesser.isSuspect).toBe(false);
});

test('for a body for a test endpoint, only unread responses give way', () => {
  const { add, closed, open, take } = setUp();
  add('head', 'head', 3_000);
  add('body', 'body', 3_000);
  add('unread', 'unread', 1_500);
  expect(take(open('stranger'), 'body', 2_001)).toBe(false);
  expect(closed).toEqual([]);
  expect(take(open('stranger'), 'body', 2_000)).toBe(true);
  expect(closed).toEqual(['unread']);
});

test('for an unread response, bodies and other responses give way, but never heads, which may be from merchants', () => {
  const { add, closed, open, take } = setUp();
  add('head', 'head', 4_000);
  add('body', 'body', 3_000);
  expect(take(open('stranger'), 'unread', 4_001)).toBe(false);
  expect(closed).toEqual([]);
  expect(take(open('stranger'), 'unread', 4_000)).toBe(true);
  expect(closed).toEqual(['body']);
});

test('what clients without a key hold in live, or before their environment is known, does not give way to those in test', () => {
  const { add, closed, open, take } = setUp();
  add('head', 'head', 1_000);
  add('live', 'unread', 2_000);
  add('test', 'unread', 1_000, 'test');
  add('test too', 'unread', 3_000, 'test');
  expect(take(open('stranger'), 'body', 4_001, 'test')).toBe(false);
  expect(closed).toEqual([]);
  expect(take(open('stranger'), 'body', 1_000, 'test')).toBe(true);
  expect(closed).toEqual(['test too']);
});

test('if an account has no room for the bytes that follow its request, they give way even if the refusal is not read', () => {
  const { budgets, now, open, take } = setUp();
  const claim = budgets.claim('live', 'shop', 'public');
  while (budgets.buffered.take(100, claim) === undefined);
  const client = open('shop');
  now.mockReturnValue(0);
  expect(take(client, 'head', 7_000)).toBe(true);
  now.mockReturnValue(1_000);
  const giveWay = vi.fn<() => void>();
  const reservation = client.begin({ http: new ServerExchange(client.http), giveWay }, 'live', 0);
  expect(reservation.chargeTo(claim)).toBeUndefined();
  expect(client.identify(claim)).toMatchObject({ limit: 'buffered' });
  client.letGiveWay(true);
  expect(take(open('merchant'), 'head', 2_000)).toBe(true);
  expect(giveWay).toHaveBeenCalledOnce();
});

test('connections are looked through once for all pieces of heads within 10 ms of a turn', () => {
  const { add, closed, now, open, take } = setUp();
  for (const name of ['a', 'b', 'c', 'd']) add(name, 'head', 2_000);
  const yields = vi.spyOn(open('idle'), 'yields');
  const pieces = (count: number): void => {
    for (let i = 0; i < count; i += 1) expect(take(open('piece'), 'head', 100)).toBe(true);
  };
  pieces(40);
  now.mockReturnValue(1_009.9);
  pieces(10);
  expect(closed).toEqual(['a', 'b', 'c']);
  expect(yields).toHaveBeenCalledOnce();
  now.mockReturnValue(1_010);
  pieces(20);
  expect(yields).toHaveBeenCalledTimes(2);
});

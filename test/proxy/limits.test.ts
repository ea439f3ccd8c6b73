import { setImmediate as nextTurn } from 'node:timers/promises';
import { describe, expect, onTestFinished, test, vi } from 'vitest';
import type { KeyDirectory, LookupResult, Principal } from '../../src/accounts/key-directory.ts';
import { Budgets, type Claim } from '../../src/proxy/capacity/budgets.ts';
import { indexes } from '../../src/proxy/capacity/parts.ts';
import { WaitQueue, type Waiter } from '../../src/wait-queue.ts';
import { Reservation } from '../../src/proxy/capacity/reservation.ts';
import { LookUps, type Guesser } from '../../src/proxy/capacity/look-ups.ts';
import { configOf } from '../support/sidecar.ts';
import { waiter } from '../support/turns.ts';

const { limits } = configOf('http://127.0.0.1:1');

/** Budgets of 16 requests in flight, 8,000 bytes and 8 connections, of which an account may use half. */
function newBudgets(more: Partial<typeof limits> = {}, servesBoth = true): Budgets {
  const small = { connections: 8, inFlight: 16, buffered: 8_000, requestBody: 500, account: 0.5 };
  return new Budgets({ ...limits, ...small, ...more }, servesBoth);
}

describe('a budget', () => {
  const [acme, globex] = ['acme', 'globex'];
  const secret = (budgets: Budgets, account = acme): Claim => budgets.claim('live', account, 'secret');

  test.each([
    ['anonymous requests', 2, 'anonymous', (budgets: Budgets) => budgets.anonymous.live],
    ['public keys', 8, 'public', (budgets: Budgets) => budgets.claim('live', acme, 'public')],
    ['one account', 8, 'account', (budgets: Budgets) => secret(budgets)],
  ] as const)('has a part for %s, and leaves the rest to others', (_, size, shortage, claim) => {
    const budgets = newBudgets({ account: shortage === 'account' ? 0.5 : 1 });
    expect(budgets.inFlight.take(size + 1, claim(budgets))).toBe(shortage);
    expect(budgets.inFlight.take(size, claim(budgets))).toBeUndefined();
    expect(budgets.inFlight.take(1, claim(budgets))).toBe(shortage);
    expect(budgets.inFlight.take(16 - size > 8 ? 8 : 16 - size, secret(budgets, globex))).toBeUndefined();
  });

  test.each(['connections', 'inFlight', 'buffered'] as const)('of %s forgets no account that uses it', (name) => {
    vi.useFakeTimers();
    onTestFinished(() => void vi.useRealTimers());
    const budgets = newBudgets({ requestBody: 1 });
    const share = { connections: 4, inFlight: 8, buffered: 4_000 }[name];
    expect(budgets[name].take(share, secret(budgets))).toBeUndefined();
    vi.advanceTimersByTime(60_000);
    expect(budgets[name].take(1, secret(budgets))).toBe('account');
  });

  test('starts requests that wait in live and in test in turns, and also many that end at once', () => {
    const budgets = newBudgets();
    const { anonymous, inFlight, waiting } = budgets;
    expect(inFlight.take(2, anonymous.live)).toBeUndefined();
    const started: ('live' | 'test')[] = [];
    const wait = (environment: 'live' | 'test', end: () => void = () => {}): void => {
      waiting[environment].add('', () => {
        started.push(environment);
        inFlight.take(1, anonymous[environment]);
        end();
      });
    };
    for (const environment of ['test', 'live', 'live', 'test'] as const) wait(environment);
    for (let i = 0; i < 4; i += 1) budgets.giveSlot(anonymous[started.at(-1) ?? 'live']);
    expect(started).toEqual(['live', 'test', 'live', 'test']);
    // This many nested calls would overflow the stack.
    for (let i = 0; i < 20_000; i += 1) wait('live', () => budgets.giveSlot(anonymous.live));
    budgets.giveSlot(anonymous.test);
    expect(started).toHaveLength(20_004);
  });

  test('is never exceeded by its parts together', () => {
    const claims = newBudgets({ account: 1 });
    const { inFlight } = claims;
    expect(inFlight.take(16, secret(claims))).toBeUndefined();
    for (const claim of [claims.anonymous.live, claims.claim('live', globex, 'public'), secret(claims, globex)]) {
      expect(inFlight.take(1, claim)).toBe('total');
    }
    inFlight.give(1, secret(claims));
    expect(inFlight.take(2, secret(claims))).toBe('total');
    expect(inFlight.take(1, claims.anonymous.live)).toBeUndefined();
  });

  test('gives at most half to the test environment, whatever the accounts, if live is served too', () => {
    const budgets = newBudgets();
    const inTest = (account: string): Claim => budgets.claim('test', account, 'secret');
    expect(budgets.inFlight.take(4, inTest('one'))).toBeUndefined();
    expect(budgets.inFlight.take(4, inTest('two'))).toBeUndefined();
    expect(budgets.inFlight.take(1, inTest('three'))).toBe('test');
    expect(budgets.inFlight.take(1, budgets.anonymous.test)).toBe('test');
    expect(budgets.inFlight.take(8, secret(budgets))).toBeUndefined();
  });

  test('gives at most half of that half to public keys, whatever their accounts', () => {
    const budgets = newBudgets();
    const inTest = (account: string, tier: 'public' | 'secret'): Claim => budgets.claim('test', account, tier);
    expect(budgets.inFlight.take(2, inTest('one', 'public'))).toBeUndefined();
    expect(budgets.inFlight.take(2, inTest('two', 'public'))).toBeUndefined();
    expect(budgets.inFlight.take(1, inTest('three', 'public'))).toBe('public');
    expect(budgets.inFlight.take(4, inTest('three', 'secret'))).toBeUndefined();
    budgets.inFlight.give(2, inTest('two', 'public'));
    expect(budgets.inFlight.take(2, inTest('three', 'public'))).toBeUndefined();
  });

  test('gives all of it to the test environment if it is the only one', () => {
    const budgets = newBudgets({ account: 1 }, false);
    expect(budgets.inFlight.take(16, budgets.claim('test', acme, 'secret'))).toBeUndefined();
  });

  test('keeps what cannot be moved to another claim, even beyond a limit that was lowered', () => {
    const budgets = newBudgets({ account: 1 });
    const { connections } = budgets;
    const [own, other] = [secret(budgets), secret(budgets, globex)];
    expect(connections.take(8, own)).toBeUndefined();
    budgets.resize({ ...limits, connections: 2, account: 1 }, true);
    for (let i = 0; i < 8; i += 1) expect(connections.move(1, own, other)).toBe('total');
    expect(connections.used).toBe(8);
    connections.give(7, own);
    expect(connections.move(1, own, other)).toBeUndefined();
    connections.give(1, other);
    expect(connections.used).toBe(0);
    expect(connections.take(2, own)).toBeUndefined();
  });

  test('counts an account separately in each environment', () => {
    const budgets = newBudgets();
    expect(budgets.inFlight.take(8, secret(budgets))).toBeUndefined();
    expect(budgets.inFlight.take(8, budgets.claim('test', acme, 'secret'))).toBeUndefined();
  });

  test('is never exceeded after it was reduced and enlarged again', () => {
    const budgets = newBudgets({ account: 1 });
    const claim = secret(budgets);
    expect(budgets.inFlight.take(16, claim)).toBeUndefined();
    budgets.resize({ ...limits, inFlight: 8, account: 1 }, true);
    budgets.inFlight.give(8, claim);
    expect(budgets.inFlight.take(1, claim)).toBe('total');
    budgets.resize({ ...limits, inFlight: 16, account: 1 }, true);
    expect(budgets.inFlight.take(8, claim)).toBeUndefined();
    expect(budgets.inFlight.take(1, claim)).toBe('total');
  });

  test('has room for one request and one body of each party, however small it is', () => {
    const budgets = newBudgets({ inFlight: 1, buffered: 1_000, requestBody: 900 });
    for (const claim of [budgets.anonymous.live, budgets.claim('live', acme, 'public'), secret(budgets)]) {
      expect(budgets.inFlight.take(1, claim)).toBeUndefined();
      expect(budgets.inFlight.take(1, claim)).toBe('total');
      budgets.inFlight.give(1, claim);
      expect(budgets.buffered.take(900, claim)).toBeUndefined();
      budgets.buffered.give(900, claim);
    }
  });

  test('gives clients without a key an eighth, or four thirds of the longest body if that is more', () => {
    for (const [requestBody, most] of [
      [900, 1_200],
      [800, 1_066],
      [700, 1_000],
    ] as const) {
      const { buffered, anonymous } = newBudgets({ buffered: 8_000, requestBody });
      expect(buffered.take(most + 1, anonymous.live)).toBe('anonymous');
      expect(buffered.take(most, anonymous.live)).toBeUndefined();
    }
    const { buffered, anonymous } = newBudgets({ buffered: 16_000, requestBody: 900 });
    expect(buffered.take(1_201, anonymous.test)).toBe('anonymous');
    expect(buffered.take(1_200, anonymous.test)).toBeUndefined();
  });
});

describe('a reservation', () => {
  const secretOf = (budgets: Budgets, account: string): Claim => budgets.claim('live', account, 'secret');

  test('returns its bytes to the part of the budget that they came from', () => {
    const budgets = newBudgets({ requestBody: 750 });
    const reservation = new Reservation(budgets, budgets.anonymous.live);
    expect(reservation.hold(600)).toBe(true);
    reservation.claim = budgets.claim('live', 'acme', 'secret');
    expect(reservation.hold(400)).toBe(true);
    expect(budgets.buffered.take(1, budgets.anonymous.live)).toBe('anonymous');
    reservation.release();
    reservation.release();
    expect(budgets.buffered.used).toBe(0);
    expect(budgets.buffered.take(1_000, budgets.anonymous.live)).toBeUndefined();
    expect(budgets.buffered.take(1, budgets.anonymous.live)).toBe('anonymous');
  });

  test('returns its slot only once, and names the limit that it exceeded', () => {
    const budgets = newBudgets({ inFlight: 1 });
    const reservation = new Reservation(budgets, budgets.anonymous.live);
    expect([reservation.takeSlot(), reservation.takeSlot()]).toEqual([true, true]);
    expect(budgets.inFlight.used).toBe(1);
    const other = new Reservation(budgets, budgets.claim('live', 'acme', 'secret'));
    expect(other.takeSlot()).toBe(false);
    expect(other.exceeded).toEqual({ limit: 'inFlight', shortage: 'total' });
    reservation.leaveSlot();
    reservation.leaveSlot();
    expect(budgets.inFlight.used).toBe(0);
  });

  test('gives back its part of the bytes that may wait if there is no room for them in the budget', () => {
    const budgets = newBudgets();
    const { anonymous, buffered } = budgets;
    const queue = new WaitQueue();
    const wait = (bytes: number): boolean => new Reservation(budgets, anonymous.live).waitIn(queue, bytes, () => {});
    expect(buffered.take(900, anonymous.none)).toBeUndefined();
    for (let i = 0; i < 4; i += 1) expect(wait(200)).toBe(false);
    buffered.give(900, anonymous.none);
    expect(wait(750)).toBe(true);
  });

  test('closes clients without a key for others without one, and not for what an account holds', () => {
    const budgets = newBudgets();
    const makeAnonymousRoom = vi.fn<() => boolean>(() => false);
    const evictor = { makeAnonymousRoom, makePublicRoom: () => false };
    expect(budgets.buffered.take(1_000, budgets.anonymous.none)).toBeUndefined();
    expect(budgets.buffered.take(4_000, budgets.claim('live', 'globex', 'secret'))).toBeUndefined();
    const ofAccount = new Reservation(budgets, budgets.claim('live', 'acme', 'secret'), evictor);
    expect(ofAccount.hold(3_500)).toBe(false);
    expect(ofAccount.exceeded?.shortage).toBe('total');
    expect(makeAnonymousRoom).not.toHaveBeenCalled();
    expect(new Reservation(budgets, budgets.anonymous.live, evictor).hold(1)).toBe(false);
    expect(makeAnonymousRoom).toHaveBeenCalledOnce();
  });

  test('evicts others with public keys for what a public key needs, but not for a request that gives way itself', () => {
    const budgets = newBudgets();
    const makePublicRoom = vi.fn<() => boolean>(() => true);
    const claim = budgets.claim('live', 'acme', 'public');
    const reservation = new Reservation(budgets, claim, { makeAnonymousRoom: () => false, makePublicRoom });
    while (budgets.buffered.take(500, budgets.claim('live', 'globex', 'public')) === undefined);
    reservation.givesWay = true;
    expect(reservation.hold(5_000)).toBe(false);
    expect(makePublicRoom).not.toHaveBeenCalled();
    reservation.givesWay = false;
    expect(reservation.hold(5_000)).toBe(true);
    expect(makePublicRoom).toHaveBeenCalledExactlyOnceWith(5_000, indexes.buffered, claim);
  });

  test('reports what it has taken for each claim that is charged', () => {
    const budgets = newBudgets();
    const { live } = budgets.anonymous;
    const reservation = new Reservation(budgets, live);
    expect([reservation.hold(10), reservation.takeSlot()]).toEqual([true, true]);
    const claim = budgets.claim('live', 'acme', 'public');
    const takenBy = (by: Claim): readonly number[] =>
      Object.values(indexes).map((limit) => reservation.taken(limit, by));
    expect([takenBy(live), takenBy(claim)]).toEqual([
      [0, 1, 10],
      [0, 0, 0],
    ]);
    expect(reservation.chargeTo(claim)).toBeUndefined();
    expect([takenBy(live), takenBy(claim)]).toEqual([
      [0, 1, 0],
      [0, 0, 10],
    ]);
  });

  test('of zero bytes succeeds for an account that holds more than others leave it now', () => {
    const budgets = newBudgets();
    const own = secretOf(budgets, 'acme');
    expect(budgets.buffered.take(4_000, own)).toBeUndefined();
    expect(budgets.buffered.take(2_000, secretOf(budgets, 'globex'))).toBeUndefined();
    const reservation = new Reservation(budgets, own);
    expect([reservation.hold(0), reservation.hold(1)]).toEqual([true, false]);
  });

  test('takes nothing once its request is over, whatever the core still sends', () => {
    const budgets = newBudgets();
    const reservation = new Reservation(budgets, budgets.claim('live', 'acme', 'secret'));
    expect(reservation.hold(1)).toBe(true);
    reservation.end();
    expect([reservation.hold(1), reservation.takeSlot()]).toEqual([false, false]);
    expect(reservation.waitIn(new WaitQueue(), 1, () => expect.fail('it starts'))).toBe(false);
    expect([budgets.buffered.used, budgets.inFlight.used]).toEqual([0, 0]);
  });
});

test('waiting clients without a key leave a quarter of their part to incomplete heads, which may be from merchants', () => {
  const budgets = newBudgets();
  const queue = new WaitQueue();
  const started: string[] = [];
  const wait = (bytes: number, claim: Claim, name: string): Reservation | undefined => {
    const reservation = new Reservation(budgets, claim);
    return reservation.waitIn(queue, bytes, () => started.push(name)) ? reservation : undefined;
  };
  const first = wait(400, budgets.anonymous.live, 'first');
  expect(wait(350, budgets.anonymous.test, 'second')).toBeDefined();
  const third = new Reservation(budgets, budgets.anonymous.live);
  expect(third.waitIn(queue, 1, () => {})).toBe(false);
  expect(third.exceeded).toEqual({ limit: 'buffered', shortage: 'anonymous' });
  expect(wait(1_000, budgets.claim('live', 'acme', 'secret'), 'merchant')).toBeDefined();
  expect(budgets.buffered.take(250, budgets.anonymous.none)).toBeUndefined();
  // There is room again when a waiting client leaves, and when one starts.
  budgets.buffered.give(250, budgets.anonymous.none);
  first?.abandon();
  first?.end();
  queue.shift()?.();
  expect(started).toEqual(['second']);
  expect(wait(750, budgets.anonymous.live, 'third')).toBeDefined();
  expect(wait(1, budgets.anonymous.live, 'fourth')).toBeUndefined();
  expect(budgets.buffered.used).toBe(1_750);
});

/** A client whose key is not cached, and one that has made too many guesses. */
const client = (): Guesser => ({ networks: ['net', 'client'], isThrottled: false });
const suspect = (): Guesser => ({ networks: ['net', 'client'], isThrottled: true });

test('a bounded number of guesses wait for their look-up, and the one that has waited longest is refused', async () => {
  const lookUps = new LookUps(8);
  const { promise, resolve } = Promise.withResolvers<LookupResult>();
  const directory: KeyDirectory = { find: () => promise, holds: () => false, serves: () => false };
  // One guess is looked up, and two wait.
  const guesses = [1, 2, 3, 4].map(async () => lookUps.find(directory, 'guess', suspect, waiter));
  expect(await guesses[1]).toBe('unavailable');
  resolve(undefined);
  expect(await Promise.all(guesses)).toEqual([undefined, 'unavailable', undefined, undefined]);
});

test('a guess whose client leaves while it waits makes room for another one', async () => {
  const lookUps = new LookUps(8);
  const { promise, resolve } = Promise.withResolvers<LookupResult>();
  const asked: string[] = [];
  const find = (hash: string): Promise<LookupResult> => {
    asked.push(hash);
    return promise;
  };
  const directory: KeyDirectory = { find, holds: () => false, serves: () => false };
  const leave: (() => void)[] = [];
  const leaving: Waiter = { wait: (queue) => new Promise((turn) => void leave.push(queue.add(turn))) };
  const first = lookUps.find(directory, 'first', suspect, waiter);
  for (const hash of ['left', 'left too']) void lookUps.find(directory, hash, suspect, leaving);
  for (const each of leave) each();
  const later = ['next', 'last'].map(async (hash) => lookUps.find(directory, hash, suspect, waiter));
  resolve(undefined);
  expect(await Promise.all([first, ...later])).toEqual([undefined, undefined, undefined]);
  expect(asked).toEqual(['first', 'next', 'last']);
});

describe('look-ups of keys that are not cached', () => {
  /** A directory whose look-ups end when the test says so. It counts the look-ups that are open at the same time. */
  function startDirectory() {
    const open: (() => void)[] = [];
    let most = 0;
    const find = (): Promise<LookupResult> =>
      new Promise((resolve) => {
        open.push(() => resolve(undefined));
        most = Math.max(most, open.length);
      });
    const directory: KeyDirectory = { find, holds: () => false, serves: () => false };
    const answerOne = async (): Promise<void> => {
      open.shift()?.();
      for (let i = 0; i < 10; i += 1) await Promise.resolve();
    };
    return { directory, open, answerOne, most: () => most };
  }

  test('of suspects are open one at a time, and the end of each one lets the next one begin', async () => {
    const { directory, open, answerOne, most } = startDirectory();
    const lookUps = new LookUps(32);
    const found = Array.from({ length: 10 }, async () => lookUps.find(directory, 'guess', suspect, waiter));
    expect(await found[1]).toBe('unavailable');
    for (let i = 0; i < 9; i += 1) {
      expect(open).toHaveLength(1);
      await answerOne();
    }
    expect(await Promise.all(found)).toEqual([undefined, 'unavailable', ...Array<undefined>(8).fill(undefined)]);
    expect(most()).toBe(1);
    // All places for waiting suspects are free again.
    const again = Array.from({ length: 9 }, async () => lookUps.find(directory, 'guess', suspect, waiter));
    for (let i = 0; i < 9; i += 1) await answerOne();
    expect(await Promise.all(again)).toEqual(Array(9).fill(undefined));
  });

  test('are never more than a quarter of inFlight, plus an eighth of that for suspects', async () => {
    const { directory, open, answerOne, most } = startDirectory();
    const lookUps = new LookUps(16);
    const suspects = Array.from({ length: 5 }, async () => lookUps.find(directory, 'guess', suspect, waiter));
    const others = Array.from({ length: 4 }, async () => lookUps.find(directory, 'key', client, waiter));
    expect(open).toHaveLength(5);
    // With an empty cache, many merchants' keys are looked up at the same moment.
    const [evicted, ...waiting] = Array.from({ length: 13 }, async () =>
      lookUps.find(directory, 'key', client, waiter),
    );
    expect(open).toHaveLength(5);
    expect(await evicted).toBe('unavailable');
    while (open.length > 0) await answerOne();
    expect(await Promise.all([...suspects, ...others, ...waiting])).toEqual(Array(21).fill(undefined));
    expect(most()).toBe(5);
  });

  test('take turns by network and client, and those of the network with the most look-ups are evicted', async () => {
    const { directory, open } = startDirectory();
    const lookUps = new LookUps(8);
    const order: string[] = [];
    const find = async (name: string, networks: readonly string[]): Promise<void> => {
      const result = await lookUps.find(directory, name, () => ({ networks, isThrottled: false }), waiter);
      order.push(result === 'unavailable' ? `${name} evicted` : name);
    };
    const all = ['a1', 'a1', 'a2', 'a3', 'a4', 'a5'].map(async (client, i) => find(`${client}-${i}`, ['a', client]));
    all.push(find('b1-6', ['b', 'b1']), find('b2-7', ['b', 'b2']), find('c1-8', ['c', 'c1']));
    while (open.length > 0) {
      open.shift()?.();
      await nextTurn();
    }
    await Promise.all(all);
    // Two look-ups were open at once, and six could wait. The network whose look-up was evicted goes to the end.
    expect(order).toEqual(['a2-2 evicted', 'a1-0', 'a1-1', 'b1-6', 'c1-8', 'a3-3', 'b2-7', 'a4-4', 'a5-5']);
  });

  test('of suspects continue although their clients leave while other look-ups take all places', async () => {
    const { directory, open, answerOne } = startDirectory();
    const lookUps = new LookUps(8);
    const leave: (() => void)[] = [];
    const leaving: Waiter = { wait: (queue) => new Promise((turn) => void leave.push(queue.add(turn))) };
    const others = [1, 2].map(async () => lookUps.find(directory, 'key', client, waiter));
    for (let i = 0; i < 3; i += 1) void lookUps.find(directory, 'guess', suspect, leaving);
    for (const each of leave) each();
    while (open.length > 0) await answerOne();
    await Promise.all(others);
    const later = lookUps.find(directory, 'valid', suspect, waiter);
    expect(open).toHaveLength(1);
    await answerOne();
    expect(await later).toBeUndefined();
  });

  test('of keys that existed at their last look-up are all open at once, for suspects too, until a key no longer exists', async () => {
    const principal = {} as unknown as Principal;
    const find = async (): Promise<LookupResult> => principal;
    const answering: KeyDirectory = { find, holds: () => false, serves: () => false };
    const lookUps = new LookUps(8);
    expect(await lookUps.find(answering, 'key', client, waiter)).toBeDefined();
    const { directory, open, answerOne } = startDirectory();
    const guesses = [1, 2, 3].map(async () => lookUps.find(directory, 'guess', suspect, waiter));
    expect(open).toHaveLength(1);
    const known = [true, false, true, false].map(async (isSuspect) =>
      lookUps.find(directory, 'key', isSuspect ? suspect : client, waiter),
    );
    expect(open).toHaveLength(5);
    while (open.length > 0) await answerOne();
    // The key no longer exists.
    expect(await Promise.all(known)).toEqual(Array(4).fill(undefined));
    expect(await Promise.all(guesses)).toEqual([undefined, undefined, undefined]);
    const again = [1, 2].map(async () => lookUps.find(directory, 'key', suspect, waiter));
    expect(open).toHaveLength(1);
    while (open.length > 0) await answerOne();
    await Promise.all(again);
  });

  test('that no request waits for have the same limit for a key that existed before', async () => {
    const answering: KeyDirectory = {
      find: async () => ({}) as unknown as Principal,
      holds: () => false,
      serves: () => false,
    };
    const lookUps = new LookUps(64);
    await lookUps.find(answering, 'key', client, waiter);
    const { directory, open } = startDirectory();
    for (let i = 0; i < 20; i += 1) void Promise.resolve(lookUps.findUnawaited(directory, 'key')).catch(() => {});
    expect(open).toHaveLength(2);
  });

  test('give their places back if the store fails', async () => {
    const failing: KeyDirectory = {
      find: () => Promise.reject(new Error('gone')),
      holds: () => false,
      serves: () => false,
    };
    const lookUps = new LookUps(8);
    for (let i = 0; i < 10; i += 1) {
      for (const isSuspect of [true, false]) {
        await expect(async () => lookUps.find(failing, 'key', isSuspect ? suspect : client, waiter)).rejects.toThrow(
          'gone',
        );
      }
    }
  });
});

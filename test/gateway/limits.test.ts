import { Socket } from 'node:net';
import { describe, expect, test } from 'vitest';
import type { KeyDirectory, LookupResult } from '../../src/accounts/key-directory.ts';
import { ClientConnections, connectionOf } from '../../src/gateway/client-connection.ts';
import { Budget, Budgets, Reservation } from '../../src/gateway/limits.ts';
import { LookUps } from '../../src/gateway/look-ups.ts';
import { configOf } from '../support/sidecar.ts';

const { limits } = configOf('http://127.0.0.1:1');

describe('a budget', () => {
  test('is never exceeded by its parts together', () => {
    const budget = new Budget();
    budget.resize(8, 1);
    expect(budget.take(8, 'secret')).toBe(true);
    for (const claimant of ['keyless', 'public', 'secret'] as const) expect(budget.take(1, claimant)).toBe(false);
    budget.give(1, 'secret');
    expect(budget.take(2, 'secret')).toBe(false);
    expect(budget.take(1, 'keyless')).toBe(true);
  });

  test('has the size that was set last', () => {
    const budget = new Budget();
    budget.resize(8, 1);
    budget.resize(4, 1);
    expect(budget.take(5, 'secret')).toBe(false);
    expect(budget.take(4, 'secret')).toBe(true);
    expect(budget.take(1, 'public')).toBe(false);
  });

  test('leaves requests without a key one slot and room for one body, however small it is', () => {
    const budgets = new Budgets({ ...limits, inFlight: 1, buffered: 1_000, requestBody: 900 });
    expect(budgets.slots.take(1, 'keyless')).toBe(true);
    expect(budgets.bytes.take(900, 'keyless')).toBe(true);
    expect(budgets.bytes.take(1, 'keyless')).toBe(false);
  });
});

describe('a reservation', () => {
  test('returns its bytes to the part of the budget that they came from', () => {
    const budgets = new Budgets({ ...limits, buffered: 8_000, requestBody: 1_000 });
    const reservation = new Reservation(budgets, connectionOf(new Socket()));
    expect(reservation.hold(600)).toBe(true);
    reservation.identify('secret');
    expect(reservation.hold(400)).toBe(true);
    expect(budgets.bytes.take(1, 'keyless')).toBe(false);
    reservation.release();
    reservation.release();
    expect(budgets.bytes.used).toBe(0);
    expect(budgets.bytes.take(1_000, 'keyless')).toBe(true);
    expect(budgets.bytes.take(1, 'keyless')).toBe(false);
  });

  test('returns its slot once', () => {
    const budgets = new Budgets(limits);
    const reservation = new Reservation(budgets, connectionOf(new Socket()));
    expect([reservation.takeSlot(), reservation.takeSlot()]).toEqual([true, true]);
    expect(budgets.slots.used).toBe(1);
    reservation.leaveSlot();
    reservation.leaveSlot();
    expect(budgets.slots.used).toBe(0);
  });

  test('protects its connection from eviction while it has a slot, and forever with a known key', () => {
    const budgets = new Budgets(limits);
    const open = (connections: ClientConnections): { socket: Socket; reservation: Reservation } => {
      const socket = new Socket();
      connections.open(socket, false);
      return { socket, reservation: new Reservation(budgets, connectionOf(socket)) };
    };
    const connections = new ClientConnections(3);
    const [busy, known, idle] = [open(connections), open(connections), open(connections)];
    busy.reservation.takeSlot();
    known.reservation.identify('public');
    known.reservation.leaveSlot();
    open(connections);
    expect([busy, known, idle].map(({ socket }) => socket.destroyed)).toEqual([false, false, true]);
    busy.reservation.leaveSlot();
    const last = open(connections);
    open(connections);
    // The fourth is closed first, because it has been idle for longer, then the first.
    expect([busy, known, last].map(({ socket }) => socket.destroyed)).toEqual([true, false, false]);
  });
});

test('a bounded number of guesses wait for their look-up', async () => {
  const lookUps = new LookUps(8);
  const { promise, resolve } = Promise.withResolvers<LookupResult>();
  const directory: KeyDirectory = { find: () => promise, holds: () => false, serves: () => false };
  // One is looked up, and two wait.
  const waiting = [1, 2, 3].map(async () => lookUps.find(directory, 'guess', () => true));
  expect(await lookUps.find(directory, 'guess', () => true)).toBe('unavailable');
  resolve(undefined);
  expect(await Promise.all(waiting)).toEqual([undefined, undefined, undefined]);
});

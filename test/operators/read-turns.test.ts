import { createServer } from 'node:http';
import type { Socket } from 'node:net';
import { expect, onTestFinished, test } from 'vitest';
import type { OperatorsToken } from '../../src/config/config.ts';
import { ReadTurns } from '../../src/operators/read-turns.ts';
import { openConnection, type Connection } from '../support/connection.ts';
import { eventually } from '../support/eventually.ts';
import { listen } from '../support/listen.ts';

/**
 * Starts a server with `count` clients. `ask` makes all of them send a request now. `turns` lists the turns in which these were
 * read, and `order` their sockets in the same order.
 */
async function start(count: number) {
  const turns: number[] = [];
  const order: Socket[] = [];
  let turn = 0;
  let counting = true;
  const countTurn = (): void => void (counting && setImmediate(() => ((turn += 1), countTurn())));
  countTurn();
  onTestFinished(() => {
    counting = false;
  });
  const server = createServer((req, res) => {
    turns.push(turn);
    order.push(req.socket);
    res.end();
  });
  const readTurns = new ReadTurns(server);
  const sockets: Socket[] = [];
  server.on('connection', (socket: Socket) => void sockets.push(socket));
  server.on('clientError', () => {});
  const port = await listen(server);
  const clients: Connection[] = [];
  for (let i = 0; i < count; i += 1) {
    clients.push(await openConnection(port));
    await eventually('the client is accepted', () => sockets.length === i + 1);
  }
  const ask = (): void => {
    for (const client of clients) client.send('GET / HTTP/1.1\r\nHost: localhost\r\n\r\n');
  };
  const cause = (code: string): void =>
    void server.emit('clientError', Object.assign(new Error('too much'), { code }), sockets[0]);
  return { ask, cause, turns, order, sockets, readTurns };
}

const token = (hash: string, role: OperatorsToken['role'], account?: string): OperatorsToken => {
  return { name: hash, role, account, hash };
};

test('after a client has caused too much work, the others are read one per turn of the event loop', async () => {
  const { ask, cause, turns } = await start(12);
  ask();
  cause('COSTLY_REQUEST');
  await eventually('all have been read', () => turns.length === 12);
  expect(new Set(turns).size).toBeGreaterThanOrEqual(11);
});

test.each([
  ['an admin', token('a', 'admin')],
  ['an operator', token('o', 'operator')],
])('the connections of %s are read at once', async (_, operator) => {
  const { ask, cause, turns, sockets, readTurns } = await start(12);
  for (const socket of sockets.slice(-2)) readTurns.identify(socket, operator);
  ask();
  cause('COSTLY_REQUEST');
  await eventually('all have been read', () => turns.length === 12);
  // The client itself and the two others were read at once.
  expect(new Set(turns.slice(0, 3)).size).toBeLessThanOrEqual(2);
  expect(new Set(turns).size).toBeGreaterThanOrEqual(9);
});

test.each([
  ['a viewer', token('v', 'viewer')],
  ['one account', token('t', 'admin', 'acme')],
])('connections of %s are read in turns too, but do not wait for all others', async (_, weak) => {
  const { ask, cause, turns, sockets, order, readTurns } = await start(20);
  for (const socket of sockets.slice(-4)) readTurns.identify(socket, weak);
  ask();
  cause('COSTLY_REQUEST');
  await eventually('all have been read', () => turns.length === 20);
  expect(new Set(turns).size).toBeGreaterThanOrEqual(19);
  // The four connections take turns with the fifteen others.
  const last = Math.max(...sockets.slice(-4).map((socket) => order.indexOf(socket)));
  expect(last).toBeLessThanOrEqual(9);
});

test('an ordinary mistake of a client keeps no others waiting', async () => {
  const { ask, cause, turns } = await start(12);
  ask();
  cause('HPE_INVALID_METHOD');
  await eventually('all have been read', () => turns.length === 12);
  expect(new Set(turns).size).toBeLessThanOrEqual(6);
});

test('clients that are held up again and again, or leave, leave nothing behind', async () => {
  const { cause, ask, turns, sockets } = await start(12);
  for (let i = 0; i < 20; i += 1) {
    cause('COSTLY_REQUEST');
    await new Promise((resolve) => setTimeout(resolve, 5));
  }
  expect(Math.max(...sockets.map((socket) => socket.listenerCount('close')))).toBeLessThan(10);
  cause('COSTLY_REQUEST');
  for (const socket of sockets.slice(6)) socket.destroy();
  ask();
  await eventually('the others are read', () => turns.length === 6);
});

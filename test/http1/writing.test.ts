import { expect, test } from 'vitest';
import type { ServerExchange } from '../../src/http1/exchange.ts';
import { WriteRoom } from '../../src/http1/writing.ts';
import { openConnection } from '../support/connection.ts';
import { eventually } from '../support/eventually.ts';
import { keepIn, startServer } from '../support/http1.ts';

/** Counts writes, none of which is sent before `send` is called. `outcome.rooms` counts how often there was room again. */
function startWrites() {
  const room = new WriteRoom(() => (outcome.rooms += 1));
  const outcome = { rooms: 0 };
  const write = (times: number, hasRoom = true): boolean[] => Array.from({ length: times }, () => room.count(hasRoom));
  const send = (times: number, error?: Error): void => {
    for (let i = 0; i < times; i += 1) room.done(error);
  };
  return { outcome, write, send };
}

test('a socket has room for 199 writes that wait; there is room again when all are sent', () => {
  const { outcome, write, send } = startWrites();
  expect(write(199)).not.toContain(false);
  expect(write(2)).toEqual([false, false]);
  send(200);
  expect(outcome.rooms).toBe(0);
  send(1);
  expect(outcome.rooms).toBe(1);
  expect(write(1)).toEqual([true]);
  send(1);
  expect(outcome.rooms).toBe(1);
});

test('a socket that has no room for more bytes has room again when all are sent', () => {
  const { outcome, write, send } = startWrites();
  expect(write(1, false)).toEqual([false]);
  expect(write(1, true)).toEqual([false]);
  send(2);
  expect(outcome.rooms).toBe(1);
});

test('a socket that has failed asks for no further writes', () => {
  const { outcome, write, send } = startWrites();
  write(200);
  send(200, new Error('it has closed'));
  expect(outcome.rooms).toBe(0);
});

test('a response in small pieces waits for a client that does not read, although there is room for the bytes', async () => {
  const open: ServerExchange[] = [];
  const server = await startServer({ serve: keepIn(open) });
  const client = await openConnection(server.port);
  client.send('GET / HTTP/1.1\r\nHost: a\r\n\r\n');
  const exchange = await eventually('the request arrives', () => open[0]);
  exchange.connection.socket.cork();
  exchange.sendHead(200, []);
  const written = Array.from({ length: 200 }, () => exchange.write('x'));
  expect(written.indexOf(false)).toBe(199);
  exchange.connection.socket.uncork();
  await eventually('the sender is asked for more', () => server.events.includes('drain'));
  exchange.end();
  expect(await client.untilText('0\r\n\r\n')).toContain('1\r\nx\r\n'.repeat(200));
});

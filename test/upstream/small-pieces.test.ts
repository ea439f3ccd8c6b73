import { once } from 'node:events';
import { connect } from 'node:net';
import { expect, onTestFinished, test } from 'vitest';
import { Call } from '../../src/upstream/call.ts';
import { Connection } from '../../src/upstream/connection.ts';
import { ignored } from '../support/ask-upstream.ts';
import { startSilentUpstream } from '../support/byte-upstream.ts';
import { manualQueue } from '../support/manual-queue.ts';

/** Creates a connection that awaits a response of `length` bytes. `heard` lists its events, `waiting` the reads that wait for a turn. */
async function start(length: number) {
  const { port } = await startSilentUpstream();
  const socket = connect(port, '127.0.0.1');
  await once(socket, 'connect');
  onTestFinished(() => void socket.destroy());
  const { queue, waiting } = manualQueue();
  const heard: string[] = [];
  const connection = new Connection(socket, {
    reading: { of: () => queue },
    onIdle: () => heard.push('idle'),
    onUnasked: () => heard.push('unasked'),
    onClosed: () => heard.push('closed'),
    onRetryable: () => heard.push('retried'),
  });
  const request = { method: 'GET', target: '/', headers: [], body: undefined };
  const handler = {
    ...ignored,
    onData: (bytes: Buffer) => heard.push(bytes.toString()),
    onEnd: () => heard.push('end'),
    onFailure: () => heard.push('failure'),
    onError: (error: unknown) => heard.push(String(error)),
  };
  const ask = (): void => connection.send(new Call(request, 'localhost', handler));
  const answer = (text: string): void => connection.receive(Buffer.from(text));
  const head = `HTTP/1.1 200 OK\r\nContent-Length: ${length}\r\n\r\n`;
  ask();
  answer(head);
  return { connection, socket, heard, waiting, answer, ask, head };
}

const letters = (count: number): string[] => Array.from({ length: count }, () => 'a');

test('after a hundred small pieces of an upstream, what follows is held, and read as one piece in its turn', async () => {
  const { heard, waiting, answer, socket } = await start(2_000);
  // The head counts as one of the hundred small pieces.
  for (const letter of letters(98)) answer(letter);
  expect(waiting).toHaveLength(0);
  answer('b');
  expect(waiting).toHaveLength(1);
  expect(socket.isPaused()).toBe(true);
  for (const letter of letters(50)) answer(letter);
  expect(heard).toEqual([...letters(98), 'b']);
  waiting.shift()?.();
  expect(heard.slice(99)).toEqual(['a'.repeat(50)]);
  expect(socket.isPaused()).toBe(false);
});

test('the end of a response that is held comes in its turn, and what follows it is unsolicited', async () => {
  const { heard, waiting, answer } = await start(150);
  for (const letter of letters(151)) answer(letter);
  waiting.shift()?.();
  expect(heard.slice(99)).toEqual(['a'.repeat(51), 'unasked', 'end']);
});

test('held bytes also wait while the client reads nothing', async () => {
  const { connection, heard, waiting, answer } = await start(2_000);
  for (const letter of letters(110)) answer(letter);
  connection.pause();
  waiting.shift()?.();
  expect(heard).toHaveLength(99);
  connection.resume();
  expect(heard.slice(99)).toEqual(['a'.repeat(11)]);
});

test('held bytes are not lost if the upstream closes the connection', async () => {
  const { heard, waiting, answer, socket } = await start(150);
  for (const letter of letters(150)) answer(letter);
  socket.destroy();
  await once(socket, 'close');
  expect(heard.slice(99, 101)).toEqual(['a'.repeat(51), 'end']);
  expect(heard).not.toContain('failure');
  expect(waiting).toEqual([]);
});

test('small responses one after the other do not wait', async () => {
  const { heard, waiting, answer, ask, head } = await start(2);
  for (let i = 0; i < 300; i += 1) {
    answer('o');
    answer('k');
    ask();
    answer(head);
  }
  expect(heard.filter((each) => each === 'end')).toHaveLength(300);
  expect(waiting).toEqual([]);
});

test('a response does not wait because earlier ones on its connection came in small pieces', async () => {
  const { waiting, answer, ask, head } = await start(90);
  for (const letter of letters(90)) answer(letter);
  for (let i = 0; i < 3; i += 1) {
    ask();
    answer(head);
    for (const letter of letters(90)) answer(letter);
  }
  expect(waiting).toHaveLength(0);
});

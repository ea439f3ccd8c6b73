import { Socket } from 'node:net';
import { setImmediate as turn } from 'node:timers/promises';
import { expect, test, vi } from 'vitest';
import { Incoming } from '../../src/http1/incoming.ts';
import { WaitQueue } from '../../src/wait-queue.ts';
import { settle } from '../support/turns.ts';

const limits = { maxHeadSize: 16_384, maxFields: 100 };

/** Creates an `Incoming` on a socket of its own. `events` lists what it reports. */
function incoming(): { readonly from: Incoming; readonly socket: Socket; readonly events: string[] } {
  const events: string[] = [];
  const socket = new Socket();
  const from = new Incoming({
    socket,
    limits,
    onHeadBegins: () => {},
    onHead: (_head, whole) => events.push('head', ...(whole?.length ? [whole.toString(), 'end'] : [])),
    onFault: (fault) => events.push(fault),
    onBody: (piece) => events.push(piece.toString()),
    onBodyEnd: (fault) => events.push(fault ?? 'end'),
    onSuspend: (resume) => void setImmediate(resume),
    onHeld: () => true,
    destroy: () => void events.push('limit'),

    fail: (error) => events.push(String(error)),
  });
  return { from, socket, events };
}

const head = 'POST / HTTP/1.1\r\nContent-Length: 4\r\n\r\n';

test('bytes that arrive for a paused body are held until it is resumed, and do not take a turn', async () => {
  const { from, events } = incoming();
  from.receive(Buffer.from(head));
  from.readBody();
  from.pause();
  const later = vi.spyOn(globalThis, 'setImmediate');
  from.receive(Buffer.from('body'));
  expect(later).not.toHaveBeenCalled();
  later.mockRestore();
  await settle();
  expect(events).toEqual(['head']);
  from.resume();
  await settle();
  expect(events).toEqual(['head', 'body', 'end']);
});

test('a socket that was handed over with its held bytes stays as its new owner leaves it', async () => {
  const { from, socket } = incoming();
  from.receive(Buffer.from('GET / HTTP/1.1\r\n\r\nearly'));
  from.expectHead();
  expect(from.take().toString()).toBe('early');
  socket.pause();
  await settle();
  expect(socket.isPaused()).toBe(true);
});

test('a client whose bytes are discarded while it waits for its turn leaves the queue, and nothing more is read', async () => {
  const { from, events } = incoming();
  const queue = new WaitQueue();
  from.receive(Buffer.from('GET / HTTP/1.1\r\n\r\n'));
  from.expectHead(queue);
  expect(queue.length).toBe(1);
  queue.shift()?.();
  from.receive(Buffer.from('GET / HTTP/1.1\r\n\r\n'));
  expect(events).toEqual(['head', 'head']);
  from.expectHead(queue);
  from.discard();
  expect(queue.length).toBe(0);
  from.receive(Buffer.from('GET /other HTTP/1.1\r\n\r\n'));
  await settle();
  expect(events).toEqual(['head', 'head']);
});

const chunkedHead = 'POST / HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n';

// One socket can deliver tens of thousands of such chunks at once, and anyone may send them.
test.each([
  ['of one byte', '1\r\nx\r\n'],
  ['with an extension', '1;a\r\nx\r\n'],
  ['with leading zeros', '001\r\nx\r\n'],
])('chunks %s that arrive at once are all read, a few in each turn', async (_what, chunk) => {
  const { from, events } = incoming();
  from.receive(Buffer.from(`${chunkedHead}${chunk.repeat(9_000)}0\r\n\r\n`));
  from.readBody();
  while (!events.includes('end')) {
    const before = events.length;
    await turn();
    expect(events.length - before).toBeLessThanOrEqual(2);
  }
  const pieces = events.slice(1, -1);
  expect(pieces.join('')).toBe('x'.repeat(9_000));
  expect(Math.max(...pieces.map(({ length }) => length))).toBeLessThanOrEqual(1_000);
});

test('chunks of all sizes are read alike, at once and byte by byte', async () => {
  const sizes = Array.from({ length: 300 }, (_, i) => i + 1);
  const chunks = sizes.map((size) => {
    const hex = size.toString(16);
    return `${size % 2 === 0 ? hex : hex.toUpperCase()}\r\n${'x'.repeat(size)}\r\n`;
  });
  const bytes = Buffer.from(`${chunkedHead}${chunks.join('')}0\r\n\r\n`);
  const whole = incoming();
  whole.from.receive(bytes);
  whole.from.readBody();
  const split = incoming();
  for (const byte of bytes) {
    split.from.receive(Buffer.from([byte]));
    split.from.readBody();
  }
  const length = sizes.reduce((sum, size) => sum + size, 0);
  for (const { events } of [whole, split]) {
    await expect.poll(() => events.at(-1)).toBe('end');
    expect(events.slice(1, -1).join('')).toBe('x'.repeat(length));
  }
});

test.each(['g\r\n', '1\n', '1\r', '1 \r\n', '-1\r\n', '+1\r\n', '0x1\r\n', '/\r\n', ':\r\n', '@\r\n', '`\r\n'])(
  'a chunk that begins with %j is malformed',
  async (line) => {
    const { from, events } = incoming();
    from.receive(Buffer.from(`${chunkedHead}1\r\nx\r\n${line}${'x'.repeat(300)}`));
    from.readBody();
    await expect.poll(() => events.at(-1)).toBe('malformed');
  },
);

test.each(['x\n', 'xy', 'x\r\r\n'])('a chunk of one byte that continues with %j is malformed', async (rest) => {
  const { from, events } = incoming();
  from.receive(Buffer.from(`${chunkedHead}1\r\n${rest}0\r\n\r\n`));
  from.readBody();
  await expect.poll(() => events.at(-1)).toBe('malformed');
});

import { Socket } from 'node:net';
import { expect, test } from 'vitest';
import { Incoming } from '../../src/http1/incoming.ts';
import { settle } from '../support/turns.ts';

const limits = { maxHeadSize: 16_384, maxFields: 100 };

/** Counts how often the reader looks whether it is paused. */
class WatchedSocket extends Socket {
  looks = 0;

  override isPaused(): boolean {
    this.looks += 1;
    return super.isPaused();
  }
}

/** The bytes of a client, on a socket of their own, and what was read of them. */
function incoming(): { readonly from: Incoming; readonly socket: WatchedSocket; readonly events: string[] } {
  const events: string[] = [];
  const socket = new WatchedSocket();
  const from = new Incoming({
    socket,
    limits,
    onHeadBegins: () => {},
    onHead: () => events.push('head'),
    onFault: (fault) => events.push(fault),
    onBody: (piece) => events.push(piece.toString()),
    onBodyEnd: () => events.push('end'),
    onHeld: () => true,
    destroy: (reason) => events.push(reason),
    fail: (error) => events.push(String(error)),
  });
  return { from, socket, events };
}

const head = 'POST / HTTP/1.1\r\nContent-Length: 4\r\n\r\n';

test('bytes that arrive for a paused body are held, without a turn of work, until it goes on', async () => {
  const { from, socket, events } = incoming();
  from.receive(Buffer.from(head));
  from.readBody();
  from.pause();
  from.receive(Buffer.from('body'));
  const { looks } = socket;
  await settle();
  expect([events, socket.looks]).toEqual([['head'], looks]);
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

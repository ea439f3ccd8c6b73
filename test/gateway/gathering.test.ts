import { Socket } from 'node:net';
import { setImmediate as turn } from 'node:timers/promises';
import { expect, test } from 'vitest';
import { GatheringRequest } from '../../src/http.ts';

/** Pushes a body byte by byte, one in each turn of the event loop. */
async function trickle(request: GatheringRequest, body: string): Promise<void> {
  for (const character of body) {
    request.push(Buffer.from(character));
    await turn();
  }
}

test('a body that trickles in before it is read is kept in few pieces, and read whole', async () => {
  const request = new GatheringRequest(new Socket());
  const body = Array.from({ length: 40_000 }, (_, i) => String(i % 10)).join('');
  await trickle(request, body);
  const pieces: Buffer[] = [];
  request.on('data', (piece: Buffer) => pieces.push(piece));
  await turn();
  expect(Buffer.concat(pieces).toString()).toBe(body);
  // The first byte, and pieces of up to 16 KiB.
  expect(pieces.length).toBe(4);
});

test('a body that trickles in while it is read is passed on in every turn', async () => {
  const request = new GatheringRequest(new Socket());
  let received = '';
  request.on('data', (piece: Buffer) => (received += piece.toString()));
  await turn();
  for (const [i, character] of '0123456789'.split('').entries()) {
    request.push(Buffer.from(character));
    await turn();
    await turn();
    expect(received).toHaveLength(i + 1);
  }
  request.push(null);
  expect(received).toBe('0123456789');
});

test('a paused body loses no bytes', async () => {
  const request = new GatheringRequest(new Socket());
  let received = '';
  request.on('data', (piece: Buffer) => (received += piece.toString()));
  await trickle(request, 'abc');
  for (const part of ['def', 'ghi']) {
    request.pause();
    const before = received;
    await trickle(request, part);
    expect(received).toBe(before);
    request.resume();
    await turn();
    expect(received).toBe(before + part);
  }
});

test('a body that ended before it is read is read whole', async () => {
  const request = new GatheringRequest(new Socket());
  await trickle(request, 'abcdef');
  request.push(null);
  let received = '';
  request.on('data', (piece: Buffer) => (received += piece.toString()));
  await new Promise((resolve) => void request.once('end', resolve));
  expect(received).toBe('abcdef');
});

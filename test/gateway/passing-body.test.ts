import { PassThrough } from 'node:stream';
import { expect, test, vi } from 'vitest';
import { PassingBody } from '../../src/gateway/request-body.ts';
import type { Reply } from '../../src/gateway/reply.ts';

function passing(lookedAt: readonly Buffer[] = []) {
  const raw = new PassThrough();
  const release = vi.fn<() => void>();
  const request = { raw, stats: { bytesIn: 0 }, reservation: { release } };
  const reply = { request, begun: false, setDeadline: vi.fn<(expiry: string) => void>() };
  const sink = { write: vi.fn<(chunk: Buffer) => boolean>(() => true), end: vi.fn<() => void>() };
  return { raw, release, reply, sink, body: new PassingBody(reply as unknown as Reply, lookedAt) };
}

test('a body pauses when the upstream takes no more, and resumes when it does', () => {
  const { raw, reply, sink, body } = passing();
  body.start(sink);
  sink.write.mockReturnValue(false);
  raw.emit('data', Buffer.from('first'));
  expect([raw.isPaused(), reply.setDeadline.mock.lastCall?.[0]]).toEqual([true, 'upstream_timeout']);
  body.resume();
  expect([raw.isPaused(), reply.setDeadline.mock.lastCall?.[0]]).toEqual([false, 'request_timeout']);
});

test('the bytes that were inspected are charged until the upstream takes more', () => {
  const { release, sink, body } = passing([Buffer.from('looked at')]);
  sink.write.mockReturnValue(false);
  body.start(sink);
  expect(release).not.toHaveBeenCalled();
  body.resume();
  expect(release).toHaveBeenCalledTimes(1);
});

test('after a stop, no more of the body is sent', () => {
  const { raw, sink, body } = passing();
  body.start(sink);
  body.stop();
  raw.emit('data', Buffer.from('late'));
  raw.emit('end');
  expect(sink.write).not.toHaveBeenCalled();
  expect(sink.end).not.toHaveBeenCalled();
});

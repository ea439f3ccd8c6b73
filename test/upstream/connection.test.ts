import { expect, onTestFinished, test, vi } from 'vitest';
import type { BodyWriter, StreamedBody } from '../../src/upstream/call.ts';
import type { Connection } from '../../src/upstream/connection.ts';
import { ask, ignored, upstreamAt } from '../support/ask-upstream.ts';
import { startByteUpstream, startSilentUpstream } from '../support/byte-upstream.ts';

const ok = 'HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n';

function bodyOf(...parts: readonly string[]): StreamedBody {
  return {
    start: (sink) => {
      for (const part of parts) sink.write(Buffer.from(part));
      sink.end();
    },
    resume: () => {},
    stop: () => {},
  };
}

test('a body of unknown length is sent in chunks that end with CRLF, and a last chunk', async () => {
  const { origin, connections } = await startByteUpstream((connection) => {
    void vi
      .waitFor(() => expect(connection.received).toMatch(/0\r\n\r\n$/))
      .then(() => connection.socket.write(`${ok}{}`));
  });
  expect(await ask(upstreamAt(origin), 'POST', bodyOf('0123456789abcdefg', '!')).outcome).toBe(200);
  expect(connections[0]?.received).toBe(
    'POST / HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\n11\r\n0123456789abcdefg\r\n1\r\n!\r\n0\r\n\r\n',
  );
});

test('a body in small pieces waits for an upstream that does not read, although there is room for the bytes', async () => {
  const { origin, connections } = await startByteUpstream((connection) => {
    void vi
      .waitFor(() => expect(connection.received).toMatch(/0\r\n\r\n$/))
      .then(() => connection.socket.write(`${ok}{}`));
  });
  const written: boolean[] = [];
  let writer: BodyWriter | undefined;
  const body: StreamedBody = {
    start: (to) => {
      writer = to;
      const { socket } = to as Connection;
      socket.cork();
      for (let i = 0; i < 200; i += 1) written.push(to.write(Buffer.from('x')));
      setImmediate(() => {
        while (socket.writableCorked > 0) socket.uncork();
      });
    },
    resume: () => writer?.end(),
    stop: () => {},
  };
  expect(await ask(upstreamAt(origin), 'POST', body).outcome).toBe(200);
  expect(written.indexOf(false)).toBe(199);
  expect(connections[0]?.received).toContain('1\r\nx\r\n'.repeat(200));
});

test('a call that is aborted at the head of its response gets no events of the body', async () => {
  const { origin, connections } = await startByteUpstream(({ socket }) => void socket.write(`${ok}{}`));
  const heard: string[] = [];
  const { outcome } = ask(upstreamAt(origin), 'GET', undefined, '/', (event, call) => {
    heard.push(event);
    call.abort();
  });
  await vi.waitFor(() => expect(connections[0]?.closed).toBe(true));
  expect(heard).toEqual(['head']);
  expect(await Promise.race([outcome, Promise.resolve('nothing')])).toBe('nothing');
});

test('a call whose handler throws at the head closes its connection', async () => {
  const { origin, connections } = await startByteUpstream(({ socket }) => void socket.write(`${ok}{`));
  const { outcome } = ask(upstreamAt(origin), 'GET', undefined, '/', () => {
    throw new Error('unforeseen');
  });
  await expect(outcome).rejects.toThrow('unforeseen');
  await vi.waitFor(() => expect(connections[0]?.closed).toBe(true));
});

test('a request fails as soon as the upstream ends its side, even if it reads no more of the body', async () => {
  const { origin } = await startByteUpstream(({ socket }) => void socket.pause().end());
  expect(await ask(upstreamAt(origin), 'POST', Buffer.alloc(64 << 20)).outcome).toBe('ECONNCLOSED');
});

test.each([
  ['the end', { onEnd: fail }],
  ['the failure', { onFailure: fail }],
])('an error that a handler throws at %s of its response is passed to its onError', async (name, throwing) => {
  const { origin } = await startByteUpstream(({ socket }) => void socket.end(name === 'the end' ? `${ok}{}` : 'none'));
  const { promise, resolve } = Promise.withResolvers<unknown>();
  const request = { method: 'GET', target: '/', headers: [], body: undefined };
  upstreamAt(origin).send(request, { ...ignored, ...throwing, onError: resolve });
  expect(await promise).toEqual(new Error('unforeseen'));
});

test('a request without a Host is sent with the Host of the upstream', async () => {
  const { origin, connections } = await startByteUpstream(({ socket }) => void socket.write(`${ok}{}`));
  const { promise, resolve, reject } = Promise.withResolvers<void>();
  upstreamAt(origin).send(
    { method: 'GET', target: '/', headers: [], body: undefined },
    { ...ignored, onEnd: resolve, onFailure: reject, onError: reject },
  );
  await promise;
  expect(connections[0]?.received).toBe(`GET / HTTP/1.1\r\nHost: ${new URL(origin).host}\r\n\r\n`);
});

test('a POST is sent on a new connection if the idle one has just died', async () => {
  const { origin, connections } = await startByteUpstream(({ socket }) => void socket.write(`${ok}{}`), {
    every: true,
  });
  const upstream = upstreamAt(origin);
  expect(await ask(upstream).outcome).toBe(200);
  const start = performance.now();
  const clock = vi.spyOn(performance, 'now').mockImplementation(() => start + 1_000);
  onTestFinished(() => clock.mockRestore());
  const outcome = await new Promise((resolve) => {
    // Do this in a timer, after which Node reports the end of the connection before it sends the request.
    setTimeout(() => {
      connections[0]?.socket.destroy();
      resolve(ask(upstream, 'POST').outcome);
    }, 5);
  });
  expect(outcome).toBe(200);
  expect(connections).toHaveLength(2);
});

test('a request fails with ETIMEDOUT if the upstream never completes the TLS handshake', async () => {
  const { origin } = await startSilentUpstream();
  const upstream = upstreamAt(origin.replace('http:', 'https:'), 50);
  const failure = await new Promise((resolve, reject) => {
    const request = { method: 'GET', target: '/', headers: [], body: undefined };
    upstream.send(request, { ...ignored, onEnd: reject, onError: reject, onFailure: resolve });
  });
  expect(failure).toEqual({ code: 'upstream_timeout', cause: 'ETIMEDOUT' });
});

function fail(): never {
  throw new Error('unforeseen');
}

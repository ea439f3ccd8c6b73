import { expect, onTestFinished, test } from 'vitest';
import { Responder } from '../../src/proxy/respond/responder.ts';
import { Upstream } from '../../src/upstream/upstream.ts';
import type { BodyWriter, UpstreamRequest } from '../../src/upstream/call.ts';
import { envelopeOf } from '../support/client.ts';
import { openConnection, type Connection } from '../support/connection.ts';
import { eventually } from '../support/eventually.ts';
import { startGateway } from '../support/gateway.ts';
import { untilCollected } from '../support/memory.ts';
import { startOverDirectory } from '../support/over-directory.ts';
import { acmeTest, keys, route } from '../support/sidecar.ts';

const routes = [route('/api/s2s/*', { envelope: true }), route('/api/v1/*', { keys: ['public', 'secret'] })];
const amount = `{"amount":1,"text":"${'x'.repeat(100_000)}"}`;

/** Wraps a method until the test ends. A spy of vitest's would keep the arguments of all calls in memory. */
function wrap<T extends object, K extends keyof T>(prototype: T, name: K, wrapped: (original: T[K]) => T[K]): void {
  const original = prototype[name];
  prototype[name] = wrapped(original);
  onTestFinished(() => void (prototype[name] = original));
}

/** The bodies, or parts of them, that were given to the upstream. */
function watchBodies(): WeakRef<object>[] {
  const bodies: WeakRef<object>[] = [];
  wrap(
    Upstream.prototype,
    'send',
    (send) =>
      function (this: Upstream, request, handler) {
        return send.call(this, watched(request, bodies), handler);
      },
  );
  return bodies;
}

function watched(request: UpstreamRequest, bodies: WeakRef<object>[]): UpstreamRequest {
  const { body } = request;
  if (body === undefined) return request;
  if (Buffer.isBuffer(body)) bodies.push(new WeakRef(body));
  else {
    wrap(body, 'start', (start) => (writer: BodyWriter) => {
      const write: BodyWriter['write'] = (piece, whenWritten) => {
        bodies.push(new WeakRef(piece));
        return writer.write(piece, whenWritten);
      };
      start.call(body, { write, end: () => writer.end() });
    });
  }
  return request;
}

/** Makes responses stay in the process, as those of a client that does not read. */
function neverSend(): void {
  for (const name of ['send', 'end'] as const) {
    wrap(
      Responder.prototype,
      name,
      (write: (...values: never[]) => void) =>
        function (this: Responder, ...values: never[]) {
          this.http.connection.socket.cork();
          write.apply(this, values);
        },
    );
  }
}

/** How many clients send the same request, because the latest object may still be on the stack. */
const clients = 4;

/** Sends a request on each of several connections. */
async function sendAll(port: number, path: string, framing: string, body: string): Promise<readonly Connection[]> {
  const opened = await Promise.all(Array.from({ length: clients }, () => openConnection(port)));
  const fields = `Host: a\r\nAuthorization: Bearer ${keys.acme}\r\nContent-Type: application/json\r\n${framing}`;
  for (const client of opened) client.send(`POST ${path} HTTP/1.1\r\n${fields}\r\n\r\n${body}`);
  return opened;
}

test.each([
  ['an opened envelope', '/api/s2s/charge', envelopeOf(acmeTest, amount)],
  ['a body that is forwarded unchanged', '/api/v1/pay', amount],
])(
  'while clients do not read their responses, %s is not kept, because it is no longer charged',
  async (_, path, body) => {
    const { sidecar, upstream } = await startGateway({ routes });
    const bodies = watchBodies();
    neverSend();
    const opened = await sendAll(sidecar.port, path, `Content-Length: ${body.length}`, body);
    await eventually('the requests are forwarded', () => upstream.seen.length === clients);
    await untilCollected(bodies);
    expect(bodies).toHaveLength(clients);
    for (const { received, ending } of opened) expect([received, ending]).toEqual(['', 'open']);
  },
);

test('while clients do not read their refusals, a body that has waited for a look-up is not kept', async () => {
  const { port } = await startOverDirectory(
    { find: async () => undefined, holds: () => false, serves: () => false },
    {},
  );
  const bodies: WeakRef<object>[] = [];
  wrap(
    Responder.prototype,
    'takeWholeBody',
    (take) =>
      function (this: Responder, outlives) {
        const body = take.call(this, outlives);
        bodies.push(new WeakRef(body));
        return body;
      },
  );
  neverSend();
  const body = JSON.stringify('x'.repeat(10_000));
  const opened = await sendAll(port, '/api/s2s/charge', `Content-Length: ${body.length}`, body);
  await eventually('the bodies are taken', () => bodies.length === clients);
  await untilCollected(bodies);
  for (const { received, ending } of opened) expect([received, ending]).toEqual(['', 'open']);
});

test('the beginning of an upload that was looked at is not kept while the rest arrives', async () => {
  const { sidecar } = await startGateway({ routes, limits: { requestBody: 65_536 } });
  const bodies = watchBodies();
  const first = amount.slice(0, 80_000);
  const chunk = `${first.length.toString(16)}\r\n${first}\r\n`;
  const opened = await sendAll(sidecar.port, '/api/v1/pay', 'Transfer-Encoding: chunked', chunk);
  await eventually('the beginnings are forwarded', () => bodies.length >= clients);
  await untilCollected(bodies);
  for (const { ending } of opened) expect(ending).toBe('open');
});

import { describe, expect, test, vi } from 'vitest';
import { startByteUpstream } from '../support/byte-upstream.ts';
import { openConnection, parseOnly } from '../support/connection.ts';
import { limitUsed } from '../support/metrics.ts';
import { request } from '../support/refused.ts';
import { configOf, keys, route, startSidecar } from '../support/sidecar.ts';

const kib = 1_024;
const mib = 1_024 * kib;
const routes = [route('/api/s2s/*', { envelope: true }), route('/ws', { upgrade: true })];
const webSocket = ['Connection: Upgrade', 'Upgrade: websocket'];

/** Starts an upstream that sends informational responses endlessly, as fast as its socket accepts them. */
async function startFlood(head: string): ReturnType<typeof startByteUpstream> {
  const piece = head.repeat(Math.ceil((64 * kib) / head.length));
  return startByteUpstream(({ socket, received }) => {
    if (received.startsWith('GET /now')) {
      socket.write('HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok');
      return;
    }
    const flood = (): void => {
      while (!socket.destroyed && socket.bytesWritten < 32 * mib) {
        if (!socket.write(piece)) return;
      }
    };
    socket.on('drain', flood);
    flood();
  });
}

describe('endless informational responses', () => {
  test.each([
    ['103, to a plain client', 'HTTP/1.1 103 Early Hints\r\nLink: </a>\r\n\r\n', ['GET /x HTTP/1.1'], keys.globex],
    ['102, as short as possible', 'HTTP/1.1 102\r\n\r\n', ['GET /x HTTP/1.1'], keys.globex],
    ['100, which is not forwarded', 'HTTP/1.1 100 Continue\r\n\r\n', ['GET /x HTTP/1.1'], keys.globex],
    ['103, before a sealed response', 'HTTP/1.1 103 Early Hints\r\n\r\n', ['GET /api/s2s/x HTTP/1.1'], keys.acme],
    ['103, before a WebSocket', 'HTTP/1.1 103 Early Hints\r\n\r\n', ['GET /ws HTTP/1.1', ...webSocket], keys.globex],
    ['100, before a WebSocket', 'HTTP/1.1 100\r\nA: b\r\n\r\n', ['GET /ws HTTP/1.1', ...webSocket], keys.globex],
  ])(
    '(%s) end the request with 502, however slowly the client reads',
    async (_name, head, [line = '', ...fields], key) => {
      const upstream = await startFlood(head);
      const sidecar = await startSidecar(configOf(upstream.origin, { routes }));
      const client = await openConnection(sidecar.port);
      client.socket.pause();
      client.send(request(line, 'Host: localhost', `Authorization: Bearer ${key}`, ...fields));
      await vi.waitFor(() => expect(upstream.connections[0]?.closed).toBe(true), { timeout: 10_000 });
      expect(upstream.connections[0]?.socket.bytesWritten).toBeLessThan(16 * mib);

      const other = await openConnection(sidecar.port);
      other.send(request('GET /now HTTP/1.1', 'Host: localhost', `Authorization: Bearer ${keys.globex}`));
      expect(await other.untilText('\r\n\r\nok')).toContain('200 OK');

      client.socket.resume();
      await client.untilText('HTTP/1.1 502 ');
      // These are the bytes that the sidecar and the kernel held for the client.
      expect(client.received.length).toBeLessThan(64 * kib);
      const last = client.received.slice(client.received.indexOf('HTTP/1.1 502 '));
      expect(last).toContain(key === keys.acme ? 'Envelope: sealed' : '"code":"upstream_unavailable"');
      expect(parseOnly(last).status).toBe(502);
      await vi.waitFor(async () => expect(await limitUsed(sidecar, 'in_flight')).toBe(0));
      expect(sidecar.accessLines().find(({ status }) => status === 502)).toMatchObject({
        upstream_error: 'HEAD_TOO_LARGE',
      });
    },
  );
});

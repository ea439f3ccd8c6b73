import dns from 'node:dns';
import { createServer } from 'node:http';
import { createServer as createHttpsServer } from 'node:https';
import { syncBuiltinESMExports } from 'node:module';
import { connect, type LookupFunction } from 'node:net';
import { setTimeout as delay } from 'node:timers/promises';
import { expect, onTestFinished, test, vi } from 'vitest';
import { createAuthority } from '../support/certificates.ts';
import { send } from '../support/client.ts';
import { openConnection } from '../support/connection.ts';
import { configOf, keys, route, routes, startSidecar, targetOf } from '../support/sidecar.ts';
import { startWebSocketUpstream } from '../support/web-socket-upstream.ts';

const authority = createAuthority();
const head = `Host: localhost\r\nAuthorization: Bearer ${keys.globex}\r\n`;
const request = `GET /notes HTTP/1.1\r\n${head}\r\n`;
const handshake =
  `GET /ws/feed HTTP/1.1\r\n${head}Connection: Upgrade\r\nUpgrade: websocket\r\n` +
  'Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n';

/** Has each look-up take a fifth of a second, as at a resolver far away. Counts them, and those in progress. */
function slowLookups(): { readonly count: () => number; readonly most: () => number } {
  const { lookup } = dns;
  let count = 0;
  let running = 0;
  let most = 0;
  const slow: LookupFunction = (host, options, callback) => {
    count += 1;
    running += 1;
    most = Math.max(most, running);
    setTimeout(() => {
      running -= 1;
      lookup(host, options, callback);
    }, 200);
  };
  const spy = vi.spyOn(dns, 'lookup').mockImplementation(slow as typeof lookup);
  syncBuiltinESMExports();
  onTestFinished(() => {
    spy.mockRestore();
    syncBuiltinESMExports();
  });
  return { count: () => count, most: () => most };
}

test.each([
  ['requests', 'http', request],
  ['requests over TLS', 'https', request],
  ['WebSockets', 'http', handshake],
  ['WebSockets over TLS', 'https', handshake],
])('%s that are given up leave no look-ups of the core behind for which others wait', async (_, protocol, text) => {
  const lookups = slowLookups();
  const tls = createHttpsServer(authority.issue('DNS:localhost'));
  const { port } = await startWebSocketUpstream(protocol === 'http' ? createServer() : tls);
  const upstream = targetOf(`${protocol}://localhost:${port}`, { ca: authority.cert });
  const sidecar = await startSidecar(
    configOf('', {
      routes: [...routes, route('/ws/*', { upgrade: true })],
      environments: [{ name: 'test', hosts: [], upstream }],
    }),
  );
  for (let i = 0; i < 40; i += 1) {
    const client = connect(sidecar.port, '127.0.0.1');
    client.write(text);
    await delay(5);
    client.destroy();
  }
  expect((await send(sidecar, 'GET /notes', { key: keys.globex })).status).toBe(200);
  const client = await openConnection(sidecar.port);
  client.send(handshake);
  await client.untilText('101 Switching Protocols');
  expect(lookups.count()).toBeGreaterThan(1);
  expect(lookups.most()).toBe(1);
});

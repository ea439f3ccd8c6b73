import { once } from 'node:events';
import { connect as connectPlain, type AddressInfo } from 'node:net';
import { setImmediate as nextTurn } from 'node:timers/promises';
import { connect, type TLSSocket } from 'node:tls';
import { expect, onTestFinished, test } from 'vitest';
import type { ServerConnection } from '../../src/http1/connection.ts';
import { Listener } from '../../src/http1/listener.ts';
import { createAuthority } from '../support/certificates.ts';
import { eventually } from '../support/eventually.ts';

/** A listener with TLS, what waits for a turn there, and a way to connect. */
async function start() {
  const { cert, key } = createAuthority().issue('DNS:localhost');
  const limits = { maxHeadSize: 16_384, maxFields: 100 };
  const times = { headTimeout: 60_000, idleTimeout: 60_000, lingerTimeout: 60_000 };
  const handshakes: (() => void)[] = [];
  const resting: (() => void)[] = [];
  const connections: ServerConnection[] = [];
  const { server } = new Listener(
    {
      limits: { ...limits, ...times },
      tls: { cert, key },
      clock: Date.now,
      handshakes: { add: (begin) => handshakes.push(begin) },
    },
    (connection) => {
      connections.push(connection);
      return {
        onRequest: (exchange) => exchange.send(200, [], 'served'),
        onExcess: () => expect.fail('too much'),
        onError: (error) => expect.fail(String(error)),
        onClose: () => {},
        onRest: (resume) => void resting.push(resume),
        onHeld: () => true,
      };
    },
  );
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
  onTestFinished(() => void server.close());
  const { port } = server.address() as AddressInfo;
  const open = (): TLSSocket => {
    const client = connect({ port, host: '127.0.0.1', rejectUnauthorized: false }).on('error', () => {});
    onTestFinished(() => void client.destroy());
    return client;
  };
  return { port, open, handshakes, resting, connections };
}

async function turns(): Promise<void> {
  for (let i = 0; i < 50; i += 1) await nextTurn();
}

test('a handshake begins in its turn, whatever has arrived before', async () => {
  const { open, handshakes } = await start();
  const client = open();
  let isSecure = false;
  client.once('secureConnect', () => (isSecure = true));
  await eventually('it waits', () => handshakes.length === 1);
  await turns();
  expect(isSecure).toBe(false);
  handshakes[0]?.();
  client.write('GET / HTTP/1.1\r\nHost: a\r\n\r\n');
  expect(String((await once(client, 'data'))[0])).toContain('served');
});

test('a client that leaves before its first byte, or its turn, begins none', async () => {
  const { port, open, handshakes, connections } = await start();
  const silent = connectPlain(port, '127.0.0.1');
  await once(silent, 'connect');
  await eventually('it is accepted', () => connections.length === 1);
  silent.end();
  await eventually('it is closed', () => connections[0]?.socket.destroyed === true);
  expect(handshakes).toEqual([]);
  const leaving = open();
  await eventually('it waits', () => handshakes.length === 1);
  leaving.destroy();
  connections[1]?.destroy();
  handshakes[0]?.();
  await turns();
  expect(connections[1]?.socket.destroyed).toBe(true);
});

test('a client that rests in its handshake is read when its turn has come', async () => {
  const { open, handshakes, resting, connections } = await start();
  const client = open();
  await eventually('it waits', () => handshakes.length === 1);
  handshakes[0]?.();
  connections[0]?.rest();
  connections[0]?.rest();
  expect(resting).toHaveLength(1);
  client.write('GET / HTTP/1.1\r\nHost: a\r\n\r\n');
  let received = '';
  client.on('data', (bytes: Buffer) => (received += bytes.toString()));
  await turns();
  expect(received).toBe('');
  resting[0]?.();
  await eventually('it is served', () => received.includes('served'));
});

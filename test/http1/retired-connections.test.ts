import { once } from 'node:events';
import { connect } from 'node:net';
import { describe, expect, onTestFinished, test } from 'vitest';
import type { ServerExchange } from '../../src/http1/exchange.ts';
import { createAuthority } from '../support/certificates.ts';
import { openConnection, parseOnly, parseResponses } from '../support/connection.ts';
import { eventually } from '../support/eventually.ts';
import { echo, startServer } from '../support/http1.ts';
import { settle } from '../support/turns.ts';

const get = 'GET / HTTP/1.1\r\nHost: x\r\n\r\n';

describe('a connection that is retired', () => {
  test.each([
    ['that is new', '', 0],
    ['within its first head', 'GET / HT', 0],
    ['that is idle', get, 1],
    ['within a later head', `${get}GET /`, 1],
  ])('%s is closed at once', async (_name, bytes, responses) => {
    const server = await startServer();
    const client = await openConnection(server.port);
    client.send(bytes);
    if (responses > 0) await client.untilText('GET / ');
    await eventually('the connection is accepted', () => server.listener.size === 1);
    await settle();
    server.listener.retireConnections();
    expect(parseResponses(await client.untilEnded())).toHaveLength(responses);
    await eventually('the connection is closed', () => server.closed > 0);
    expect(server.closed).toBe(1);
  });

  test.each([
    ['has not begun', false],
    ['has begun', true],
  ])('with a request whose response %s ends with it, and no further request is read', async (_name, hasBegun) => {
    const open: ServerExchange[] = [];
    const server = await startServer({
      serve: (exchange, server) => {
        exchange.handler = server.outcomes();
        open.push(exchange);
        if (hasBegun) exchange.sendHead(200, ['Content-Length', '2']);
      },
    });
    const client = await openConnection(server.port);
    client.send(get + get);
    const exchange = await eventually('the request arrives', () => open[0]);
    if (hasBegun) await client.untilText('\r\n\r\n');
    server.listener.retireConnections();
    await settle();
    expect(client.ending).toBe('open');
    if (hasBegun) exchange.end('ok');
    else exchange.send(200, [], 'ok');
    const { headers, body } = parseOnly(await client.untilEnded());
    expect([body, headers['connection']]).toEqual(['ok', hasBegun ? undefined : 'close']);
    expect(server.events).toEqual(['GET /', 'complete']);
  });

  test.each([
    ['the rest of its last request', 'PUT / HTTP/1.1\r\nContent-Length: 6\r\n\r\nabc', true],
    ['bytes after its last response', 'PUT / HTTP/1.1\r\nContent-Length: 6\r\n\r\nabc', false],
  ])(
    'that still gets %s closes its own side only, so that the response is not lost',
    async (_name, bytes, keepAlive) => {
      const server = await startServer({
        serve: (exchange) => {
          exchange.keepAlive = keepAlive;
          exchange.send(413, [], 'refused');
        },
      });
      const client = await openConnection(server.port);
      await client.send(bytes).untilText('refused');
      server.listener.retireConnections();
      expect(parseOnly(await client.untilEnded()).status).toBe(413);
      client.send(`def${get}`);
      await settle();
      expect([client.ending, server.closed, server.events]).toEqual(['end', 0, ['PUT /']]);
      client.socket.end();
      await eventually('the connection is closed', () => server.closed > 0);
      expect(server.closed).toBe(1);
    },
  );

  test('that was handed over is closed', async () => {
    const server = await startServer({
      serve: (exchange, server) => {
        exchange.handler = server.outcomes();
        exchange.handOver();
      },
    });
    const client = await openConnection(server.port);
    client.send(get);
    await eventually('the request arrives', () => server.events.length > 0);
    server.listener.retireConnections();
    await client.untilEnded();
    await eventually('the connection is closed', () => server.listener.size === 0);
    expect(server.events).toEqual(['GET /', 'complete']);
  });

  test('is closed within its TLS handshake', async () => {
    const server = await startServer({ tls: createAuthority().issue('DNS:localhost') });
    const socket = connect(server.port, '127.0.0.1');
    onTestFinished(() => void socket.destroy());
    await eventually('the connection is accepted', () => server.listener.size === 1);
    server.listener.retireConnections();
    await once(socket.resume(), 'close');
    await eventually('the connection is closed', () => server.closed > 0);
    expect(server.closed).toBe(1);
  });

  test('does not keep the listener from serving others', async () => {
    const server = await startServer({ serve: echo });
    const before = await openConnection(server.port);
    await before.send(get).untilText('GET / ');
    server.listener.retireConnections();
    await before.untilEnded();
    const after = await openConnection(server.port);
    await after.send(get).untilText('GET / ');
    expect(await after.send(get).untilText('GET / ', 2)).not.toContain('close');
  });
});

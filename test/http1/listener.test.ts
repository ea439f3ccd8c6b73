import { connect as connectTls, type ConnectionOptions, type TLSSocket } from 'node:tls';
import { connect, type Socket } from 'node:net';
import { once } from 'node:events';
import { setImmediate as turn } from 'node:timers/promises';
import { describe, expect, onTestFinished, test } from 'vitest';
import type { ServerExchange } from '../../src/http1/exchange.ts';
import { createAuthority } from '../support/certificates.ts';
import { Connection, openConnection, parseOnly, parseResponses } from '../support/connection.ts';
import { eventually } from '../support/eventually.ts';
import { floodWhileBlocked } from '../support/flood.ts';
import { freePort } from '../support/free-port.ts';
import { record, recordHello } from '../support/hello.ts';
import { openRaw13 } from '../support/key-updates.ts';
import { echo, keepIn, startServer, TestServer } from '../support/http1.ts';
import { settle } from '../support/turns.ts';

const get = 'GET / HTTP/1.1\r\nHost: x\r\n\r\n';
const long = 20_000;
const short = 50;

describe('a timeout', () => {
  test('that is shortened applies to clients that are already awaited, but to no request in progress', async () => {
    const open: ServerExchange[] = [];
    const server = await startServer({
      serve: (exchange, own) => (exchange.head?.target === '/' ? echo(exchange, own) : open.push(exchange)),
    });
    const silent = await openConnection(server.port);
    const idle = await openConnection(server.port);
    const busy = await openConnection(server.port);
    await idle.send(get).untilText('GET / ');
    busy.send('GET /slow HTTP/1.1\r\n\r\n');
    const exchange = await eventually('the request arrives', () => open[0]);
    server.listener.configure({ ...server.listener.limits, headTimeout: short, idleTimeout: short });
    expect(parseOnly(await silent.untilEnded()).body).toBe('timeout');
    await idle.untilEnded();
    expect(busy.ending).toBe('open');
    exchange.send(200, [], 'late');
    await busy.untilText('late');
  });

  test.each([
    ['before the first byte', ''],
    ['within the first head', 'GET / HT'],
  ])('%s is a fault', async (_name, bytes) => {
    const server = await startServer({ headTimeout: short });
    const client = await openConnection(server.port);
    client.send(bytes);
    expect(parseOnly(await client.untilEnded()).body).toBe('timeout');
    expect(server.events).toEqual(['timeout', 'complete']);
  });

  test('within a later head is a fault, counted from its first byte', async () => {
    const server = await startServer({ headTimeout: short, idleTimeout: long });
    const client = await openConnection(server.port);
    await client.send(get).untilText('GET / ');
    await new Promise((resolve) => setTimeout(resolve, 4 * short));
    expect(client.ending).toBe('open');
    client.send('G');
    expect(parseResponses(await client.untilEnded()).map(({ status }) => status)).toEqual([200, 400]);
    expect(server.events.slice(2)).toEqual(['timeout', 'complete']);
  });

  test('between two requests closes the connection silently, even after an empty line', async () => {
    const server = await startServer({ headTimeout: long, idleTimeout: short });
    const client = await openConnection(server.port);
    client.send(`${get}\r\n`);
    expect(parseOnly(await client.untilEnded()).body).toBe('GET / ');
    await eventually('the connection is closed', () => server.closed > 0);
    expect([server.events, server.closed]).toEqual([['GET /', 'complete'], 1]);
  });

  test('does not end a request that is served', async () => {
    const open: ServerExchange[] = [];
    const server = await startServer({
      headTimeout: short,
      idleTimeout: short,
      serve: (exchange) => open.push(exchange),
    });
    const client = await openConnection(server.port);
    client.send(get);
    await eventually('the request arrives', () => open[0]);
    await new Promise((resolve) => setTimeout(resolve, 4 * short));
    open[0]?.send(200, [], 'late');
    expect(parseOnly(await client.untilText('late')).body).toBe('late');
  });

  test('of an exchange is set by its owner, and reported once', async () => {
    const server = await startServer({
      serve: (exchange, server) => {
        exchange.handler = server.outcomes({ onDeadline: () => exchange.send(504, [], 'too late') });
        exchange.deadline = performance.now() + 10;
      },
    });
    const client = await openConnection(server.port);
    expect(parseOnly(await client.send(get).untilText('too late')).status).toBe(504);
    expect(server.events).toEqual(['GET /', 'complete']);
  });

  test('can be changed while the listener runs', async () => {
    const server = await startServer({ idleTimeout: long });
    server.listener.configure({ ...server.listener.limits, idleTimeout: short });
    const client = await openConnection(server.port);
    client.send(get);
    await client.untilEnded();
  });

  test.each([
    ['a first head', '', 'headTimeout'],
    ['a later head', `${get}GET`, 'headTimeout'],
    ['a request', get, 'idleTimeout'],
  ])('can be shortened for a connection that waits for %s', async (_name, bytes, timeout) => {
    const server = await startServer();
    const client = await openConnection(server.port);
    client.send(bytes);
    if (bytes !== '') await client.untilText('GET / ');
    await eventually('the connection is accepted', () => server.listener.size === 1);
    await settle();
    server.listener.configure({ ...server.listener.limits, [timeout]: short });
    await client.untilEnded();
  });

  test('ends a connection whose client keeps sending after its last response', async () => {
    const server = await startServer({ lingerTimeout: short });
    const client = await openConnection(server.port);
    client.send('garbage\r\n');
    await client.untilEnded();
    await eventually('the connection is closed', () => server.closed > 0);
    expect(server.closed).toBe(1);
  });

  test('is not needed for a client that sends more than 64 MiB after its last response', async () => {
    const server = await startServer({ lingerTimeout: long });
    const client = await openConnection(server.port);
    client.send('garbage\r\n');
    await client.untilEnded();
    const piece = Buffer.alloc(1 << 20);
    for (let sent = 0; sent < 63; sent += 1) {
      if (!client.socket.write(piece)) await once(client.socket, 'drain');
    }
    await settle();
    expect(server.closed).toBe(0);
    client.send(piece).send(piece);
    await eventually('the connection is closed', () => server.closed > 0);
    expect(server.closed).toBe(1);
  });

  test('ends a connection whose client does not send the rest of a refused body', async () => {
    const server = await startServer({
      lingerTimeout: short,
      serve: (exchange) => exchange.send(413, [], 'too large'),
    });
    const client = await openConnection(server.port);
    client.send('PUT / HTTP/1.1\r\nContent-Length: 9\r\n\r\n');
    expect(parseOnly(await client.untilEnded()).body).toBe('too large');
  });
});

describe('a client that leaves', () => {
  test.each([
    ['closes its side', (socket: { end(): void; resetAndDestroy(): void }) => socket.end()],
    ['resets the connection', (socket: { end(): void; resetAndDestroy(): void }) => socket.resetAndDestroy()],
  ])('and %s ends its exchange once', async (_name, leave) => {
    const open: ServerExchange[] = [];
    const server = await startServer({ serve: keepIn(open) });
    const client = await openConnection(server.port);
    client.send(get);
    await eventually('the request arrives', () => open[0]);
    leave(client.socket);
    await eventually('the connection is closed', () => server.closed > 0);
    expect([server.events, server.closed, server.listener.size]).toEqual([['GET /', 'client_left'], 1, 0]);
    open[0]?.send(200, [], 'late');
    expect(open[0]?.write('late')).toBe(true);
    expect(server.events).toHaveLength(2);
  });

  test('without a request ends its connection', async () => {
    const server = await startServer();
    const client = await openConnection(server.port);
    await client.send(get).untilText('GET / ');
    client.socket.end();
    await client.untilEnded();
    await eventually('the connection is closed', () => server.closed > 0);
    expect(server.closed).toBe(1);
  });

  test('within its head or body is never served', async () => {
    const server = await startServer();
    for (const part of ['GET / HT', 'PUT / HTTP/1.1\r\nContent-Length: 3\r\n\r\nab']) {
      const client = await openConnection(server.port);
      client.send(part);
      client.socket.end();
      expect(await client.untilEnded()).toBe('');
    }
    expect(server.events).toEqual(['PUT /', 'client_left']);
  });

  test('after a long response was begun still gets all of it', async () => {
    const body = 'x'.repeat(10_000_000);
    const server = await startServer({
      serve: (exchange, server) => {
        exchange.handler = server.outcomes();
        exchange.send(200, [], Buffer.from(body));
      },
    });
    const client = await openConnection(server.port);
    client.socket.pause();
    client.send(get);
    await eventually('the request arrives', () => server.events.length > 0);
    client.socket.end();
    await settle();
    client.socket.resume();
    expect(parseOnly(await client.untilEnded()).body).toHaveLength(body.length);
    await eventually('the connection is closed', () => server.closed > 0);
    expect(server.events).toEqual(['GET /', 'complete']);
  });
});

describe('an aborted response', () => {
  test.each([
    ['that only the end of the connection frames is reset', '1.0', [], 'reset'],
    ['on HTTP/1.0 is reset even if its length is stated', '1.0', ['Content-Length', '9'], 'reset'],
    ['in chunks is not reset', '1.1', [], 'end'],
    ['on HTTP/1.1 with a stated length is not reset', '1.1', ['Content-Length', '9'], 'end'],
  ])('%s', async (_name, version, fields, ending) => {
    const server = await startServer({
      serve: (exchange, server) => {
        exchange.handler = server.outcomes();
        exchange.sendHead(200, fields);
        exchange.write('part');
        setImmediate(() => exchange.abort());
      },
    });
    const client = await openConnection(server.port);
    client.send(`GET / HTTP/${version}\r\n\r\n`);
    await client.untilEnded();
    await eventually('the connection is closed', () => server.closed > 0);
    expect([client.ending, server.events]).toEqual([ending, ['GET /', 'aborted']]);
    expect(server.closed).toBe(1);
  });

  test('ends the connection before the end of its chunks', async () => {
    const server = await startServer({
      serve: (exchange, server) => {
        exchange.handler = server.outcomes();
        exchange.sendHead(200, []);
        exchange.write('part');
        exchange.abort();
        exchange.end();
      },
    });
    const client = await openConnection(server.port);
    client.send(get + get);
    expect(await client.untilEnded()).not.toContain('\r\n0\r\n');
    await eventually('the connection is closed', () => server.closed > 0);
    expect([server.events, server.closed]).toEqual([['GET /', 'aborted'], 1]);
  });

  test('is the end of a request whose owner throws', async () => {
    const server = await startServer({
      serve: (exchange, server) => {
        exchange.handler = server.outcomes();
        throw new Error('a fault of the owner');
      },
    });
    const client = await openConnection(server.port);
    client.send(get);
    await client.untilEnded();
    await eventually('the connection is closed', () => server.closed > 0);
    expect(server.errors).toEqual([new Error('a fault of the owner')]);
    expect(server.events).toEqual(['GET /', 'aborted']);
  });
});

test.each([
  ['the read of held bytes of a body', 'PUT / HTTP/1.1\r\nContent-Length: 6\r\n\r\nabc', ''],
  ['a pipelined request', get, get],
])('an error that the owner throws in %s closes its connection only', async (_name, first, second) => {
  const open: ServerExchange[] = [];
  const server = await startServer({
    serve: (exchange) => {
      if (open.push(exchange) > 1) throw new Error('a fault of the owner');
    },
  });
  const client = await openConnection(server.port);
  client.send(first + second);
  const exchange = await eventually('the request arrives', () => open[0]);
  await settle();
  const onData = (): void => {
    throw new Error('a fault of the owner');
  };
  if (exchange.bodyComplete) exchange.send(200, [], 'ok');
  else exchange.readBody({ onData, onEnd: () => {}, onFault: () => {} });
  await client.untilEnded();
  await eventually('the connection is closed', () => server.closed > 0);
  expect(server.errors).toEqual([new Error('a fault of the owner')]);
  expect(server.closed).toBe(1);
});

describe('a body that is not read', () => {
  const refuse = (exchange: ServerExchange): void => exchange.send(413, [], 'refused');

  test('is discarded, and the connection carries the next request', async () => {
    const server = await startServer({
      serve: (exchange, server) => (exchange.head?.method === 'PUT' ? refuse : echo)(exchange, server),
    });
    const client = await openConnection(server.port);
    await client.send('PUT / HTTP/1.1\r\nContent-Length: 6\r\n\r\nabc').untilText('refused');
    client.send(`def${get}`);
    expect(parseResponses(await client.untilText('GET / ')).map(({ body }) => body)).toEqual(['refused', 'GET / ']);
    expect(server.events).toEqual(['PUT /', 'GET /', 'complete']);
  });

  test('does not keep a connection that is to be closed', async () => {
    const server = await startServer({
      serve: (exchange) => {
        exchange.keepAlive = false;
        refuse(exchange);
      },
    });
    const client = await openConnection(server.port);
    client.send('PUT / HTTP/1.1\r\nContent-Length: 6\r\n\r\nabc');
    client.send(`def${get}`);
    expect(parseOnly(await client.untilEnded()).headers['connection']).toBe('close');
    expect(server.events).toEqual(['PUT /']);
  });

  test('holds its client up, and is bounded', async () => {
    const open: ServerExchange[] = [];
    const server = await startServer({ serve: (exchange) => open.push(exchange) });
    const client = await openConnection(server.port);
    client.send(`PUT / HTTP/1.1\r\nContent-Length: 30000000\r\n\r\n`);
    for (let i = 0; i < 300; i += 1) client.send(Buffer.alloc(100_000));
    await eventually('the request arrives', () => open[0]);
    await settle();
    expect(client.socket.writableLength).toBeGreaterThan(0);
    expect(server.mostHeld).toBeLessThanOrEqual(16_384 + 65_536);
    let received = 0;
    open[0]?.readBody({
      onData: (piece) => (received += piece.length),
      onEnd: () => open[0]?.send(200, [], String(received)),
      onFault: () => {},
    });
    expect(parseOnly(await client.untilText('30000000')).status).toBe(200);
    expect([open[0]?.received, server.held]).toEqual([30_000_000, 0]);
  });

  test('is paused and resumed by its reader', async () => {
    const pieces: number[] = [];
    let paused: ServerExchange | undefined;
    const server = await startServer({
      serve: (exchange) =>
        exchange.readBody({
          onData: (piece) => {
            pieces.push(piece.length);
            paused = exchange;
            exchange.pause();
          },
          onEnd: () => exchange.send(200, [], 'ok'),
          onFault: () => {},
        }),
    });
    const client = await openConnection(server.port);
    client.send('PUT / HTTP/1.1\r\nContent-Length: 3000000\r\n\r\n').send(Buffer.alloc(3_000_000));
    await eventually('a piece arrives', () => pieces.length === 1);
    await settle();
    expect(pieces).toHaveLength(1);
    while (pieces.reduce((sum, length) => sum + length, 0) < 3_000_000) {
      const before = pieces.length;
      paused?.resume();
      await eventually('another piece arrives', () => pieces.length > before);
    }
    await client.untilText('ok');
  });
});

describe('the sink of a body', () => {
  test('gets nothing while the body is paused, even if bytes of it were held before', async () => {
    const open: ServerExchange[] = [];
    const server = await startServer({ serve: (exchange) => open.push(exchange) });
    const client = await openConnection(server.port);
    client.send('PUT / HTTP/1.1\r\nContent-Length: 6\r\n\r\nabc');
    const exchange = await eventually('the request arrives', () => open[0]);
    await eventually('a part of the body is held', () => server.held === 3);
    let body = '';
    const onEnd = (): void => exchange.send(200, [], body);
    exchange.readBody({ onData: (piece) => (body += piece.toString()), onEnd, onFault: () => {} });
    exchange.pause();
    client.send('def');
    await settle();
    expect(body).toBe('');
    exchange.resume();
    expect(parseOnly(await client.untilText('abcdef')).body).toBe('abcdef');
  });

  test('is not told of the end of a body if it has aborted the exchange at the last piece', async () => {
    const heard: string[] = [];
    const server = await startServer({
      serve: (exchange) =>
        exchange.readBody({
          onData: () => {
            heard.push('data');
            exchange.abort();
          },
          onEnd: () => heard.push('end'),
          onFault: () => heard.push('fault'),
        }),
    });
    const client = await openConnection(server.port);
    client.send('PUT / HTTP/1.1\r\nContent-Length: 2\r\n\r\n');
    await eventually('the request arrives', () => server.events.length > 0);
    client.send('hi');
    await client.untilEnded();
    expect(heard).toEqual(['data']);
  });
});

test('a length of more than 4 GiB is read as it is stated', async () => {
  const open: ServerExchange[] = [];
  const server = await startServer({ serve: (exchange) => open.push(exchange) });
  const client = await openConnection(server.port);
  client.send('PUT / HTTP/1.1\r\nContent-Length: 999999999999999\r\n\r\nx');
  const exchange = await eventually('the request arrives', () => open[0]);
  expect(exchange.head?.framing).toEqual({ type: 'sized', length: 999_999_999_999_999 });
  expect(exchange.bodyComplete).toBe(false);
});

describe('a connection that is handed over', () => {
  test('is no longer read as HTTP, and its exchange is over when it closes', async () => {
    const server = await startServer({
      serve: (exchange, server) => {
        exchange.handler = server.outcomes();
        setImmediate(() => {
          const { socket, firstBytes } = exchange.handOver();
          socket.on('data', (bytes: Buffer) => socket.write(bytes)).on('end', () => socket.end());
          socket.unshift(firstBytes);
          socket.resume();
        });
      },
    });
    const client = await openConnection(server.port);
    client.send(`${get}early`);
    await client.untilText('early');
    await client.send(get).untilText(get);
    expect(server.events).toEqual(['GET /']);
    expect(server.listener.size).toBe(1);
    client.socket.destroy();
    await eventually('the connection is closed', () => server.closed > 0);
    expect(server.events).toEqual(['GET /', 'complete']);
  });

  test('is closed with all others', async () => {
    const server = await startServer({ serve: (exchange) => void exchange.handOver() });
    const client = await openConnection(server.port);
    client.send(get);
    await eventually('the request arrives', () => server.events.length > 0);
    server.listener.closeAll();
    await client.untilEnded();
    await eventually('the connection is closed', () => server.listener.size === 0);
  });
});

describe('a listener', () => {
  test('refuses a connection before it reads it', async () => {
    const server = await startServer({ accepts: false });
    const client = await openConnection(server.port);
    client.send(get);
    expect(await client.untilEnded()).toBe('');
    expect([server.listener.size, server.events]).toEqual([0, []]);
  });

  test('that closes ends idle connections at once, and others with their response', async () => {
    const open: ServerExchange[] = [];
    const server = await startServer({
      serve: (exchange, server) => (exchange.head?.target === '/' ? echo(exchange, server) : open.push(exchange)),
    });
    const [idle, busy] = [await openConnection(server.port), await openConnection(server.port)];
    await idle.send(get).untilText('GET / ');
    busy.send('GET /slow HTTP/1.1\r\n\r\n');
    const exchange = await eventually('the request arrives', () => open[0]);
    const closed = once(server.listener.server, 'close');
    server.listener.close();
    await idle.untilEnded();
    expect(busy.ending).toBe('open');
    exchange.keepAlive = false;
    exchange.send(200, [], 'ok');
    expect(parseOnly(await busy.untilEnded()).headers['connection']).toBe('close');
    await closed;
    expect(server.listener.size).toBe(0);
  });

  test('accepts several connections in a turn of the event loop', async () => {
    const server = await startServer();
    expect(floodWhileBlocked(server.port, 200)).toBe(200);
    let turns = 0;
    for (; server.listener.size < 200; turns += 1) await turn();
    expect(turns).toBeLessThan(25);
  });

  test('accepts no connection once it closes, on any of its sockets', async () => {
    const { listener } = new TestServer({});
    const port = await freePort();
    await listener.listen({ host: '127.0.0.1', port });
    onTestFinished(() => listener.closeAll());
    const open = await openConnection(port);
    open.send('GET / HTTP/1.1');
    await eventually('the connection is accepted', () => listener.size === 1);
    listener.close();
    for (let i = 0; i < 50; i += 1) {
      await expect(once(connect(port, '127.0.0.1'), 'connect')).rejects.toMatchObject({ code: 'ECONNREFUSED' });
    }
  });

  test('shares its port with no other listener', async () => {
    const { port } = await startServer();
    const { listener } = new TestServer({});
    onTestFinished(() => listener.close());
    await expect(listener.listen({ host: '127.0.0.1', port })).rejects.toThrow('EADDRINUSE');
  });

  test('switches Nagle off', async () => {
    const server = await startServer();
    const client = await openConnection(server.port);
    await client.send(get).untilText('GET / ');
    // Node applies this setting to each socket, where it cannot be read back, so the server's setting is checked.
    expect(server.listener.server).toMatchObject({ noDelay: true });
  });
});

describe('on TLS', () => {
  const authority = createAuthority();
  const certificate = authority.issue('DNS:localhost');

  const openTls = async (
    port: number,
    options: ConnectionOptions = {},
  ): Promise<Connection & { readonly tls: TLSSocket }> => {
    const tls = connectTls({
      port,
      host: '127.0.0.1',
      servername: 'localhost',
      ca: authority.cert,
      ALPNProtocols: ['http/1.1'],
      ...options,
    });
    await once(tls, 'secureConnect');
    return Object.assign(new Connection(tls), { tls });
  };

  test('two clients with the same address and port, which are connected to two addresses of this machine, are told apart', async () => {
    const server = await startServer({ tls: certificate }, '0.0.0.0');
    const localPort = await freePort();
    const sockets = ['127.0.0.1', '127.0.0.2'].map((host) =>
      connect({ host, port: server.port, localAddress: '127.0.0.1', localPort }),
    );
    await Promise.all(sockets.map((socket) => once(socket, 'connect')));
    for (const socket of sockets) {
      const tls = connectTls({ socket, rejectUnauthorized: false });
      onTestFinished(() => void tls.destroy());
      await once(tls, 'secureConnect');
      await new Connection(tls).send(get).untilText('GET / ');
    }
  });

  test('a client that renegotiates is cut off, because its handshake could be 128 KiB long', async () => {
    const server = await startServer({ tls: certificate });
    const { tls } = await openTls(server.port, { maxVersion: 'TLSv1.2' });
    tls.renegotiate({}, () => {});
    await eventually('the client is cut off', () => server.closed > 0);
    expect([server.closed, server.exceeded]).toEqual([1, 1]);
  });

  test('a client may replace its keys twice in a minute', async () => {
    const server = await startServer({ tls: certificate });
    const accepted = once(server.listener.server, 'connection') as Promise<[Socket]>;
    const client = await openRaw13(server.port);
    const [socket] = await accepted;
    client.replaceKeys(2);
    await eventually('all is read', () => socket.bytesRead === client.socket.bytesWritten);
    await settle();
    expect(server.closed).toBe(0);
    client.replaceKeys(1);
    await eventually('the client is cut off', () => server.closed > 0);
    expect([server.closed, server.exceeded]).toEqual([1, 1]);
  });

  test('a client that replaces its keys again and again is cut off in the middle of what it sends', async () => {
    const server = await startServer({ tls: certificate });
    const accepted = once(server.listener.server, 'connection') as Promise<[Socket]>;
    const client = await openRaw13(server.port);
    const [socket] = await accepted;
    const before = client.socket.bytesWritten;
    client.replaceKeys(10_000);
    await eventually('the client is cut off', () => server.closed > 0);
    expect([server.closed, server.exceeded]).toEqual([1, 1]);
    // The listener has made only one read of the 270,000 bytes.
    expect(socket.bytesRead - before).toBeGreaterThan(0);
    expect(socket.bytesRead - before).toBeLessThanOrEqual(65_536);
  });

  test('a handshake of more than 32 KiB is cut off', async () => {
    const server = await startServer({ tls: { ...certificate, requestCert: true, ca: authority.cert } });
    const client = await openConnection(server.port);
    client.send((await recordHello({ maxVersion: 'TLSv1.2' })).toString('latin1'));
    await eventually('the client gets an answer', () => client.received !== '');
    // Three records with parts of a chain of certificates (message type 11) of 98,304 bytes.
    const part = (first: Buffer): string =>
      record(Buffer.concat([first, Buffer.alloc(0x3000)]), 22, 3).toString('latin1');
    client.send(part(Buffer.of(11, 1, 0x80, 0)) + part(Buffer.alloc(0)));
    await new Promise((resolve) => setTimeout(resolve, 600));
    expect(server.closed).toBe(0);
    client.send(part(Buffer.alloc(0)));
    await eventually('the client is cut off', () => server.closed > 0);
    expect([server.closed, server.exceeded]).toEqual([1, 1]);
  });

  test('requests are served one after another', async () => {
    const server = await startServer({ tls: certificate });
    const client = await openTls(server.port);
    expect(client.tls.alpnProtocol).toBe('http/1.1');
    client.send(get + get);
    await client.untilText('GET / ', 2);
    await eventually('the second request is over', () => server.events.length === 4);
    expect(server.events).toEqual(['GET /', 'complete', 'GET /', 'complete']);
    client.socket.end();
    await client.untilEnded();
    await eventually('the connection is closed', () => server.listener.size === 0);
    expect(server.closed).toBe(1);
  });

  test('large bodies go through in both directions', async () => {
    const server = await startServer({ tls: certificate });
    const client = await openTls(server.port);
    const body = 'x'.repeat(3_000_000);
    client.send(`PUT / HTTP/1.1\r\nContent-Length: ${body.length}\r\nConnection: close\r\n\r\n${body}`);
    expect(parseOnly(await client.untilEnded()).body).toHaveLength(body.length + 6);
  });

  test('a refusal reaches a client that keeps sending', async () => {
    const server = await startServer({ tls: certificate });
    const client = await openTls(server.port);
    client.send('garbage\r\n').send(Buffer.alloc(2_000_000));
    expect(parseOnly(await client.untilEnded()).body).toBe('malformed');
  });

  test('a handshake that takes too long is ended', async () => {
    const server = await startServer({ tls: certificate, headTimeout: short });
    const client = await openConnection(server.port);
    expect(await client.untilEnded()).toBe('');
    await eventually('the connection is closed', () => server.listener.size === 0);
    expect([server.events, server.closed]).toEqual([[], 1]);
  });

  test('a failed handshake ends its connection', async () => {
    const server = await startServer({ tls: certificate });
    const client = await openConnection(server.port);
    client.send(get);
    await client.untilEnded();
    await eventually('the connection is closed', () => server.closed > 0);
    expect(server.closed).toBe(1);
  });

  test('handshakes in progress are closed with all connections', async () => {
    const server = await startServer({ tls: certificate });
    const socket = connect(server.port, '127.0.0.1');
    onTestFinished(() => void socket.destroy());
    await eventually('the connection is accepted', () => server.listener.size === 1);
    server.listener.closeAll();
    await once(socket, 'close');
    await eventually('the connection is closed', () => server.listener.size === 0);
  });

  test('a new certificate is used in handshakes that begin later', async () => {
    const server = await startServer({ tls: certificate });
    const before = await openTls(server.port);
    const renewed = authority.issue('DNS:localhost');
    server.listener.setSecureContext(renewed);
    const after = await openTls(server.port);
    expect(before.tls.getPeerCertificate().serialNumber).not.toBe(after.tls.getPeerCertificate().serialNumber);
    await before.send(get).untilText('GET / ');
    await after.send(get).untilText('GET / ');
  });

  test('clients without a certificate are refused if one is required', async () => {
    const demands = { requestCert: true, rejectUnauthorized: true, ca: authority.cert };
    const server = await startServer({ tls: { ...certificate, ...demands } });
    const admitted = await openTls(server.port, authority.issue('DNS:client'));
    await admitted.send(get).untilText('GET / ');
    const refused = await openTls(server.port);
    refused.send(get);
    expect(await refused.untilEnded()).toBe('');
    await eventually('the connection is closed', () => server.closed > 0);
    expect(server.events).toEqual(['GET /', 'complete']);
    expect(server.closed).toBe(1);
  });
});

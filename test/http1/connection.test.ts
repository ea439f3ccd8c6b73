import { describe, expect, test } from 'vitest';
import type { ServerExchange } from '../../src/http1/exchange.ts';
import { openConnection, parseOnly, parseResponses } from '../support/connection.ts';
import { eventually } from '../support/eventually.ts';
import { echo, startServer } from '../support/http1.ts';
import { settle, turnsOfResponses } from '../support/turns.ts';

const get = 'GET / HTTP/1.1\r\nHost: x\r\n\r\n';

/** The bodies of complete responses. */
const bodies = (raw: string): string[] => parseResponses(raw).map(({ body }) => body);

describe('a request', () => {
  test('gets its response, with Date and length, and the connection stays open', async () => {
    const server = await startServer();
    const client = await openConnection(server.port);
    const raw = await client.send('POST /a HTTP/1.1\r\nHost: x\r\nContent-Length: 2\r\n\r\nhi').untilText('hi');
    expect(raw).toBe('HTTP/1.1 200 OK\r\nContent-Length: 10\r\nDate: Sun, 06 Nov 1994 08:49:37 GMT\r\n\r\nPOST /a hi');
    await client.send(get).untilText('GET / ');
    expect(server.events).toEqual(['POST /a', 'complete', 'GET /', 'complete']);
    expect(server.connections).toHaveLength(1);
  });

  test.each([
    ['without a body', get, 'GET / '],
    ['with a length', 'PUT /x HTTP/1.1\r\nContent-Length: 11\r\n\r\nhello world', 'PUT /x hello world'],
    [
      'in chunks',
      'PUT /x HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n6;a=b\r\n world\r\n0\r\nX: 1\r\n\r\n',
      'PUT /x hello world',
    ],
    ['behind an empty line', `\r\n${get}`, 'GET / '],
  ])('%s is the same however it is split', async (_name, request, expected) => {
    const server = await startServer();
    for (let at = 1; at < request.length; at += 1) {
      const client = await openConnection(server.port);
      client.send(request.slice(0, at));
      await settle();
      client.send(request.slice(at));
      expect(parseOnly(await client.untilText(expected)).body).toBe(expected);
      client.socket.destroy();
    }
    expect(new Set(server.events)).toEqual(new Set([expected.split(' ').slice(0, 2).join(' '), 'complete']));
    await eventually('nothing is held', () => server.held === 0);
  });

  test('byte by byte holds no more than its head', async () => {
    const server = await startServer();
    const client = await openConnection(server.port);
    for (const byte of get) {
      client.send(byte);
      await settle();
    }
    await client.untilText('GET / ');
    expect([server.mostHeld, server.held]).toEqual([get.length - 1, 0]);
  });

  test.each([
    ['empty', ''],
    ['whole', 'hi'],
  ])('whose body is %s when its head arrives offers it only then, and never again', async (_name, body) => {
    const arrived: (string | undefined)[] = [];
    const later: ServerExchange[] = [];
    const server = await startServer({
      serve: (exchange) => {
        arrived.push(exchange.wholeBody?.toString());
        later.push(exchange);
      },
    });
    const client = await openConnection(server.port);
    client.send(`PUT / HTTP/1.1\r\nContent-Length: ${body.length}\r\n\r\n${body}`);
    const exchange = await eventually('the request arrives', () => later[0]);
    expect(arrived).toEqual([body]);
    const sink = { onData: () => {}, onEnd: () => {}, onFault: () => {} };
    expect(() => exchange.readBody(sink)).toThrow('the body is complete');
    expect([exchange.wholeBody?.length ?? 0, exchange.bodyComplete, exchange.received]).toEqual([0, true, body.length]);
  });

  test('whose body is read later loses none of it', async () => {
    const server = await startServer({
      serve: (exchange, server) => void setTimeout(() => echo(exchange, server), 20),
    });
    const client = await openConnection(server.port);
    client.send('PUT / HTTP/1.1\r\nContent-Length: 6\r\n\r\nabc');
    await settle();
    client.send(`def${get}`);
    expect(bodies(await client.untilText('GET / '))).toEqual(['PUT / abcdef', 'GET / ']);
  });
});

describe('pipelined requests', () => {
  test('get their responses in order, 200 on one connection, with few bytes held', async () => {
    const waiting: ServerExchange[] = [];
    const server = await startServer({
      serve: (exchange, server) => {
        waiting.push(exchange);
        setImmediate(() => echo(exchange, server));
      },
    });
    const client = await openConnection(server.port);
    const filler = `X: ${'x'.repeat(1_000)}\r\n`;
    const requests = Array.from({ length: 200 }, (_, i) => `GET /${i} HTTP/1.1\r\n${filler}\r\n`);
    client.send(requests.join(''));
    await client.untilText('GET /199 ');
    expect(bodies(client.received)).toEqual(requests.map((_, i) => `GET /${i} `));
    expect(server.mostHeld).toBeLessThanOrEqual(16_384 + 65_536);
    await eventually('nothing is held', () => server.held === 0);
  });

  test('are parsed one at a time, each after the response to the one before', async () => {
    const open: ServerExchange[] = [];
    const server = await startServer({ serve: (exchange) => open.push(exchange) });
    const client = await openConnection(server.port);
    client.send(`${get}garbage\r\n\r\n`);
    await eventually('the request arrives', () => open[0]);
    await settle();
    expect(server.events).toEqual(['GET /']);
    open[0]?.send(200, [], 'ok');
    expect(parseResponses(await client.untilEnded()).map(({ status }) => status)).toEqual([200, 400]);
    expect(server.events).toEqual(['GET /', 'malformed', 'complete']);
  });

  test('are served one per turn of the event loop', async () => {
    const turns = turnsOfResponses();
    const server = await startServer();
    const client = await openConnection(server.port);
    client.send(get + get + get);
    await client.untilText('GET / ', 3);
    expect(new Set(turns).size).toBe(3);
  });

  test('are not parsed after a response that ends the connection', async () => {
    const server = await startServer();
    const client = await openConnection(server.port);
    client.send(`GET /1 HTTP/1.1\r\nConnection: close\r\n\r\n${get}`);
    expect(bodies(await client.untilEnded())).toEqual(['GET /1 ']);
    expect(server.events).toEqual(['GET /1', 'complete']);
  });

  test('close the connection if their bytes may not be held', async () => {
    const server = await startServer({ serve: () => {}, maxHeld: 100 });
    const client = await openConnection(server.port);
    client.send(get + 'x'.repeat(101));
    await client.untilEnded();
    await eventually('the connection is closed', () => server.closed > 0);
    expect([server.closed, server.held]).toEqual([1, 0]);
  });
});

describe('bytes that are no request', () => {
  test.each([
    ['malformed', 'GET / HTTP/1.1\nHost: x\r\n\r\n'],
    ['malformed', '\x16\x03\x01'],
    ['malformed', '\r\n\r\n'],
    ['ambiguous', 'GET http:// HTTP/1.1\r\n\r\n'],
    ['ambiguous', 'CONNECT x:1 HTTP/1.1\r\n\r\n'],
    ['ambiguous', 'PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n'],
    ['too_large', `GET / HTTP/1.1\r\nX: ${'x'.repeat(3_000)}\r\n\r\n`],
    ['too_large', `GET / HTTP/1.1\r\n${'X: x\r\n'.repeat(21)}\r\n`],
  ])('are %s, and no byte is parsed after them: %.40j', async (fault, bytes) => {
    const server = await startServer();
    const client = await openConnection(server.port);
    client.send(bytes + get);
    const { status, headers, body } = parseOnly(await client.untilEnded());
    expect([status, headers['connection'], body]).toEqual([400, 'close', fault]);
    expect(server.events).toEqual([fault, 'complete']);
    client.socket.destroy();
    await eventually('the connection is closed', () => server.closed > 0);
    expect(server.closed).toBe(1);
  });

  test('in a body are reported to its sink after the valid bytes', async () => {
    const server = await startServer();
    const client = await openConnection(server.port);
    client.send('PUT / HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nhi\r\nx\r\n' + get);
    expect(parseOnly(await client.untilEnded()).body).toBe('malformed');
    expect(server.events).toEqual(['PUT /', 'malformed', 'complete']);
  });

  test('get a response that reaches a client that keeps sending', async () => {
    const server = await startServer();
    const client = await openConnection(server.port);
    client.send('garbage\r\n');
    for (let i = 0; i < 20; i += 1) client.send('x'.repeat(100_000));
    expect(parseOnly(await client.untilEnded()).body).toBe('malformed');
    expect(client.ending).toBe('end');
  });
});

describe('a response', () => {
  const respond = async (request: string, serve: (exchange: ServerExchange) => void): Promise<string> => {
    const server = await startServer({
      serve: (exchange, server) => {
        exchange.handler = server.outcomes();
        serve(exchange);
      },
    });
    const client = await openConnection(server.port);
    client.send(request);
    await eventually(
      'the exchange is over',
      () => server.events.includes('complete') || server.events.includes('aborted'),
    );
    expect(server.errors).toEqual([]);
    client.socket.end();
    return (await client.untilEnded()).replace(/Date: .*\r\n/, '');
  };

  test('without a length goes out in chunks', async () => {
    const raw = await respond(get, (exchange) => {
      exchange.sendHead(200, ['X-A', '1']);
      exchange.write('one');
      exchange.write('');
      exchange.write(Buffer.alloc(20_000, 'x'));
      exchange.end('\xe9');
    });
    const start = 'HTTP/1.1 200 OK\r\nX-A: 1\r\nTransfer-Encoding: chunked\r\n\r\n3\r\none\r\n4e20\r\n';
    expect(raw).toBe(`${start}${'x'.repeat(20_000)}\r\n1\r\n\xe9\r\n0\r\n\r\n`);
  });

  test('on HTTP/1.0 without a length ends with the connection', async () => {
    const raw = await respond('GET / HTTP/1.0\r\nConnection: keep-alive\r\n\r\n', (exchange) => {
      exchange.sendHead(200, []);
      exchange.end('body');
    });
    expect(raw).toBe('HTTP/1.1 200 OK\r\nConnection: close\r\n\r\nbody');
  });

  test('on HTTP/1.0 with a length keeps the connection if asked to', async () => {
    const raw = await respond('GET / HTTP/1.0\r\nConnection: Keep-Alive\r\n\r\n', (exchange) =>
      exchange.send(200, [], 'x'),
    );
    expect(raw).toBe('HTTP/1.1 200 OK\r\nContent-Length: 1\r\nConnection: keep-alive\r\n\r\nx');
    expect(await respond('GET / HTTP/1.0\r\n\r\n', (exchange) => exchange.send(200, [], 'x'))).toContain('close');
  });

  test.each([
    ['HEAD', 200, 'HTTP/1.1 200 OK\r\nX: 1\r\n\r\n'],
    ['GET', 204, 'HTTP/1.1 204 No Content\r\nX: 1\r\n\r\n'],
    ['GET', 304, 'HTTP/1.1 304 Not Modified\r\nX: 1\r\n\r\n'],
  ])('to %s with status %i has no body', async (method, status, expected) => {
    const raw = await respond(`${method} / HTTP/1.1\r\n\r\n`, (exchange) => exchange.send(status, ['X', '1'], 'body'));
    expect(raw).toBe(expected);
    const streamed = await respond(`${method} / HTTP/1.1\r\n\r\n`, (exchange) => {
      exchange.sendHead(status, ['X', '1']);
      exchange.write('body');
      exchange.end('body');
    });
    expect(streamed).toBe(expected);
  });

  test('may follow informational ones, but not on HTTP/1.0', async () => {
    const serve = (exchange: ServerExchange): void => {
      exchange.sendInformation(100, []);
      exchange.sendInformation(103, ['Link', '</a>']);
      exchange.send(200, [], 'x');
      exchange.sendInformation(100, []);
    };
    const raw = await respond(get, serve);
    expect(raw).toMatch(
      /^HTTP\/1.1 100 Continue\r\n\r\nHTTP\/1.1 103 Early Hints\r\nLink: <\/a>\r\n\r\nHTTP\/1.1 200 OK/,
    );
    expect(await respond('GET / HTTP/1.0\r\n\r\n', serve)).toMatch(/^HTTP\/1.1 200 OK/);
  });

  test('that is shorter than its length is broken off', async () => {
    const raw = await respond(get, (exchange) => {
      exchange.sendHead(200, ['Content-Length', '5']);
      exchange.write('four');
      exchange.end();
    });
    expect(raw).toBe('HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nfour');
  });

  test('may be longer than the longest body that can be received, because it is sealed', async () => {
    const raw = await respond(get, (exchange) => {
      exchange.sendHead(200, ['Content-Length', '1999999999999998']);
      exchange.abort();
    });
    expect(raw).toBe('');
  });

  test('whose head is sent by itself goes out before its body', async () => {
    const open: ServerExchange[] = [];
    const server = await startServer({
      serve: (exchange) => {
        open.push(exchange);
        exchange.sendHead(200, ['Content-Length', '1']);
      },
    });
    const client = await openConnection(server.port);
    await client.send(get).untilText('\r\n\r\n');
    open[0]?.end('x');
    await client.untilText('\r\n\r\nx');
  });

  test.each([
    ['a line end', ['X', 'a\r\nSet-Cookie: b']],
    ['a line feed', ['X', 'a\nb']],
    ['a carriage return', ['X', 'a\rb']],
    ['a NUL', ['X', 'a\0b']],
    ['a character that is no byte, though its low byte is a line feed', ['X', 'a\u010ab']],
    ['a whole response', ['X', 'a\r\n\r\nHTTP/1.1 200 OK']],
    ['a line end in a name', ['X: a\r\nY', 'b']],
    ['a space in a name', ['X Y', 'b']],
    ['no name', ['', 'b']],
    ['a length that is no number', ['Content-Length', '1, 1']],
    ['two lengths', ['Content-Length', '1', 'content-length', '1']],
    ['Connection', ['connection', 'close']],
    ['Transfer-Encoding', ['Transfer-Encoding', 'chunked']],
  ])('with %s in a field is not written', async (_name, fields) => {
    const fault = /not valid|invalid|must not be set by the caller/;
    const server = await startServer({
      serve: (exchange) => {
        expect(() => exchange.sendHead(200, fields)).toThrow(fault);
        expect(() => exchange.send(200, [...fields], 'x')).toThrow(fault);
        if (!/^(?:co|tr)/i.test(fields[0] ?? '')) expect(() => exchange.sendInformation(103, fields)).toThrow(fault);
        exchange.send(200, [], 'fine');
      },
    });
    const client = await openConnection(server.port);
    expect(parseOnly(await client.send(get).untilText('fine')).body).toBe('fine');
    expect(server.errors).toEqual([]);
  });

  test('of many bytes waits for a slow client', async () => {
    const open: ServerExchange[] = [];
    const server = await startServer({
      serve: (exchange, server) => {
        exchange.handler = server.outcomes();
        open.push(exchange);
        exchange.sendHead(200, []);
      },
    });
    const client = await openConnection(server.port);
    client.socket.pause();
    client.send(get);
    const exchange = await eventually('the request arrives', () => open[0]);
    const piece = Buffer.alloc(65_536, 'x');
    let sent = 0;
    await eventually('there is no room left', () => {
      sent += piece.length;
      return !exchange.write(piece);
    });
    expect(server.events).toEqual(['GET /']);
    client.socket.resume();
    await eventually('there is room', () => server.events.includes('drain'));
    exchange.end();
    await client.untilText('\r\n0\r\n\r\n');
    expect(parseOnly(client.received).body).toHaveLength(sent);
    expect(server.events).toEqual(['GET /', 'drain', 'complete']);
  });
});

import { setImmediate as turn, setTimeout as sleep } from 'node:timers/promises';
import { describe, expect, test, vi } from 'vitest';
import { startByteUpstream } from '../support/byte-upstream.ts';
import { openConnection, parseResponses, parseOnly } from '../support/connection.ts';
import { startGateway } from '../support/gateway.ts';
import { configOf, keys, startSidecar } from '../support/sidecar.ts';
import { eventually } from '../support/eventually.ts';
import { startRawUpstream, startUpstream } from '../support/upstream.ts';

/** The head of a request from globex, which does not encrypt. */
function head(line: string, ...headers: readonly string[]): string {
  return [line, 'Host: localhost', `Authorization: Bearer ${keys.globex}`, ...headers, '', ''].join('\r\n');
}

const megabyte = 1 << 20;

describe('a response', () => {
  test('of events arrives event by event, with its head before the first', async () => {
    const send: ((event: string) => void)[] = [];
    const upstream = await startUpstream((_seen, res) => {
      res.writeHead(200, { 'Content-Type': 'text/event-stream' }).flushHeaders();
      send.push((event) => void (event === '' ? res.end() : res.write(event)));
    });
    const sidecar = await startSidecar(configOf(upstream.origin));
    const client = await openConnection(sidecar.port);
    client.send(head('GET /events HTTP/1.1'));
    expect(await client.untilText('\r\n\r\n')).toMatch(
      /^HTTP\/1\.1 200 OK\r\n(?:.+\r\n)*Content-Type: text\/event-stream\r\n/,
    );
    for (let i = 0; i < 5; i += 1) {
      send[0]?.(`data: ${i}\n\n`);
      await client.untilText(`data: ${i}\n\n`);
    }
    send[0]?.('');
    await client.untilText('\r\n0\r\n\r\n');
    expect(parseOnly(client.received).body).toBe('data: 0\n\ndata: 1\n\ndata: 2\n\ndata: 3\n\ndata: 4\n\n');
  });

  test.each([
    ['a length', 'Content-Length: 5\r\n\r\nhello'],
    ['chunks', 'Transfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n0\r\n\r\n'],
  ])('framed by %s arrives well framed, and the connection is reusable', async (framing, rest) => {
    const upstream = await startByteUpstream(({ socket }) => void socket.write(`HTTP/1.1 200 OK\r\n${rest}`), {
      every: true,
    });
    const sidecar = await startSidecar(configOf(upstream.origin));
    const client = await openConnection(sidecar.port);
    for (let i = 1; i <= 3; i += 1) {
      client.send(head('GET / HTTP/1.1'));
      await client.until(
        (received) =>
          received.endsWith(framing === 'a length' ? 'hello' : '0\r\n\r\n') && received.split('hello').length > i,
      );
    }
    const responses = parseResponses(client.received);
    expect(responses.map(({ status, body }) => [status, body])).toEqual(
      Array.from({ length: 3 }, () => [200, 'hello']),
    );
  });

  test.each([
    ['204', 'HTTP/1.1 204 No Content\r\n\r\n'],
    ['204 with a length', 'HTTP/1.1 204 No Content\r\nContent-Length: 0\r\n\r\n'],
    ['304', 'HTTP/1.1 304 Not Modified\r\nETag: "1"\r\n\r\n'],
    ['304 with the length of the representation', 'HTTP/1.1 304 Not Modified\r\nContent-Length: 5\r\n\r\n'],
  ])('without a body reaches the client without one: %s', async (name, bytes) => {
    const upstream = await startByteUpstream(({ socket }) => void socket.write(bytes), { every: true });
    const sidecar = await startSidecar(configOf(upstream.origin));
    const client = await openConnection(sidecar.port);
    client.send(head('GET / HTTP/1.1'));
    await client.untilText('\r\n\r\n');
    client.send(head('GET / HTTP/1.1', 'Connection: close'));
    const responses = parseResponses(await client.untilEnded());
    expect(responses.map(({ status }) => String(status))).toEqual([name.slice(0, 3), name.slice(0, 3)]);
    expect(responses[0]?.headers).not.toHaveProperty('transfer-encoding');
    // RFC 9110 §8.6: a 204 has no Content-Length.
    if (name.startsWith('204')) expect(responses[0]?.headers).not.toHaveProperty('content-length');
  });

  test('to HEAD has the Content-Length of the upstream and no body', async () => {
    const upstream = await startUpstream((_seen, res) => void res.writeHead(200, { 'Content-Length': 12 }).end());
    const sidecar = await startSidecar(configOf(upstream.origin));
    const client = await openConnection(sidecar.port);
    for (let i = 1; i <= 3; i += 1) {
      client.send(head('HEAD /x HTTP/1.1'));
      await client.untilText('\r\n\r\n', i);
    }
    expect(client.received.match(/^HTTP\/1\.1 200 OK\r$/gm)).toHaveLength(3);
    expect(client.received.match(/^Content-Length: 12\r$/gm)).toHaveLength(3);
    expect(client.received.endsWith('\r\n\r\n')).toBe(true);
    expect(upstream.seen.map(({ method }) => method)).toEqual(['HEAD', 'HEAD', 'HEAD']);
  });

  test('is preceded by the upstream’s Early Hints', async () => {
    let release = (): void => {};
    const upstream = await startUpstream((_seen, res) => {
      res.writeEarlyHints({ link: '</style.css>; rel=preload' });
      res.writeProcessing();
      release = () => void res.end('{}');
    });
    const sidecar = await startSidecar(configOf(upstream.origin));
    const client = await openConnection(sidecar.port);
    client.send(head('GET / HTTP/1.1', 'Connection: close'));
    await client.untilText('\r\n\r\n', 2);
    expect(client.received).not.toContain('200');
    release();
    const responses = parseResponses(await client.untilEnded());
    expect(responses.map(({ status }) => status)).toEqual([103, 102, 200]);
    expect(responses[0]?.headers['link']).toBe('</style.css>; rel=preload');
  });

  test.each([
    ['to an HTTP/1.0 client', 'GET /x HTTP/1.0', keys.globex],
    ['on an enveloped route, because they would reveal what is sealed', 'GET /api/s2s/x HTTP/1.1', keys.acme],
  ])('is not preceded by Early Hints %s', async (_name, line, key) => {
    const upstream = await startUpstream((_seen, res) => {
      res.writeEarlyHints({ link: '</style.css>; rel=preload' });
      res.end('{}');
    });
    const sidecar = await startSidecar(configOf(upstream.origin));
    const client = await openConnection(sidecar.port);
    client.send(head(line, 'Connection: close').replace(keys.globex, key));
    expect(parseOnly(await client.untilEnded()).status).toBe(200);
  });

  test.each([
    ['plain', '/x', keys.globex],
    ['sealed', '/api/s2s/x', keys.acme],
  ])('sent byte by byte arrives like one sent at once (%s)', async (_name, path, key) => {
    const bytes =
      'HTTP/1.1 201 Created\r\nTransfer-Encoding: chunked\r\nX-A: \t b\r\n\r\n2;x=y\r\nhe\r\n3\r\nllo\r\n0\r\nX-T: 1\r\n\r\n';
    let drips = false;
    const upstream = await startByteUpstream(
      async ({ socket }) => {
        for (const part of drips ? bytes : [bytes]) {
          socket.write(part);
          await turn();
        }
      },
      { every: true },
    );
    const sidecar = await startSidecar(configOf(upstream.origin));
    const ask = async () => {
      const client = await openConnection(sidecar.port);
      client.send(head(`GET ${path} HTTP/1.1`, 'Connection: close').replace(keys.globex, key));
      const { status, headers, body } = parseOnly(await client.untilEnded());
      return { status, body, a: headers['x-a'], envelope: headers['envelope'] };
    };
    const atOnce = await ask();
    drips = true;
    expect(await ask()).toEqual(atOnce);
    expect(atOnce).toMatchObject({ status: 201, a: 'b' });
  });

  test('keeps the bytes of its headers', async () => {
    // The last byte of `à` in UTF-8 would be a space in ISO 8859-1.
    const upstream = await startByteUpstream(({ socket }) => {
      socket.write(Buffer.from('HTTP/1.1 200 OK\r\nX-Name:  voil\xc3\xa0\t\r\nContent-Length: 2\r\n\r\nok', 'latin1'));
    });
    const sidecar = await startSidecar(configOf(upstream.origin));
    const client = await openConnection(sidecar.port);
    client.send(head('GET / HTTP/1.1', 'Connection: close'));
    expect(await client.untilEnded()).toContain('\r\nX-Name: voil\xc3\xa0\r\n');
  });

  test('is forwarded without its trailers', async () => {
    const upstream = await startByteUpstream(({ socket }) => {
      socket.write(
        'HTTP/1.1 200 OK\r\nTrailer: X-Sum\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nok\r\n0\r\nX-Sum: 1\r\n\r\n',
      );
    });
    const sidecar = await startSidecar(configOf(upstream.origin));
    const client = await openConnection(sidecar.port);
    client.send(head('GET / HTTP/1.1', 'TE: trailers', 'Connection: close'));
    const response = parseOnly(await client.untilEnded());
    expect(response.body).toBe('ok');
    expect(client.received.toLowerCase()).not.toContain('x-sum');
  });
});

describe('a request with a body', () => {
  const methods = ['GET', 'HEAD', 'POST', 'PUT', 'PATCH', 'DELETE', 'OPTIONS'];
  // A response to HEAD has no body.
  const responseTo = (method: string): string =>
    `HTTP/1.1 200 OK\r\nContent-Length: ${method === 'HEAD' ? 0 : 2}\r\n\r\n${method === 'HEAD' ? '' : 'ok'}`;

  test.each(methods.flatMap((method) => [[method, 'chunks'] as const, [method, 'a length'] as const]))(
    'by %s, framed by %s, is well framed at the upstream',
    async (method, framing) => {
      const upstream = await startByteUpstream(({ socket, received }) => {
        // Respond when the head has arrived. Bytes of the body must not count as another request.
        if (received.includes('\r\n\r\n')) socket.write(responseTo(method));
      });
      const sidecar = await startSidecar(configOf(upstream.origin));
      const client = await openConnection(sidecar.port);
      const smuggled = 'GET /admin HTTP/1.1\r\n\r\n';
      client.send(
        framing === 'chunks'
          ? `${head(`${method} /x HTTP/1.1`, 'Transfer-Encoding: chunked')}5\r\nhello\r\n${smuggled.length.toString(16)}\r\n${smuggled}\r\n0\r\n\r\n`
          : `${head(`${method} /x HTTP/1.1`, `Content-Length: ${5 + smuggled.length}`)}hello${smuggled}`,
      );
      await client.untilText('\r\n\r\n');
      const [{ received } = { received: '' }] = upstream.connections;
      const end = received.indexOf('\r\n\r\n') + 4;
      const lengths = received.slice(0, end).match(/^content-length: .*\r$/gim) ?? [];
      const codings = received.slice(0, end).match(/^transfer-encoding: .*\r$/gim) ?? [];
      // A body that has arrived completely is forwarded with a length.
      expect([lengths, codings]).toEqual([[`Content-Length: ${5 + smuggled.length}\r`], []]);
      expect(received.slice(end)).toBe(`hello${smuggled}`);
    },
  );

  test.each(methods)('by %s, without a chunk, is well framed at the upstream', async (method) => {
    const upstream = await startByteUpstream(({ socket }) => void socket.write(responseTo(method)));
    const sidecar = await startSidecar(configOf(upstream.origin));
    const client = await openConnection(sidecar.port);
    client.send(`${head(`${method} /x HTTP/1.1`, 'Transfer-Encoding: chunked')}0\r\n\r\n`);
    await client.untilText('\r\n\r\n');
    const [{ received } = { received: '' }] = upstream.connections;
    expect(received).toMatch(/\r\nContent-Length: 0\r\n\r\n$/);
    expect(received).not.toMatch(/^transfer-encoding:/im);
  });

  test.each(methods)(
    'by %s, in chunks that arrive one after another, is well framed at the upstream',
    async (method) => {
      const upstream = await startByteUpstream(() => {});
      const sidecar = await startSidecar(configOf(upstream.origin));
      const client = await openConnection(sidecar.port);
      const received = (): string => upstream.connections[0]?.received ?? '';
      client.send(`${head(`${method} /x HTTP/1.1`, 'Transfer-Encoding: chunked')}5\r\nhello\r\n`);
      await eventually('the upstream has the first chunk', () => received().endsWith('hello\r\n'));
      client.send('1\r\n!\r\n0\r\n\r\n');
      await eventually('the upstream has the last chunk', () => received().endsWith('\r\n0\r\n\r\n'));
      const end = received().indexOf('\r\n\r\n') + 4;
      expect(received().slice(0, end)).toMatch(/^Transfer-Encoding: chunked\r$/m);
      expect(received().slice(0, end)).not.toMatch(/^content-length:/im);
      expect(unchunked(received().slice(end))).toBe('hello!');
    },
  );

  test('of thousands of tiny chunks is forwarded in few chunks', async () => {
    const upstream = await startByteUpstream((connection) => {
      const respondAtEnd = (): void => {
        if (connection.received.endsWith('\r\n0\r\n\r\n')) connection.socket.write(responseTo('POST'));
      };
      respondAtEnd();
      connection.socket.on('data', respondAtEnd);
    });
    const sidecar = await startSidecar(configOf(upstream.origin));
    const client = await openConnection(sidecar.port);
    const digits = Array.from({ length: 9_000 }, (_, i) => String(i % 10));
    const large = 'x'.repeat(600);
    const pieces = [...digits, large, ...digits];
    const chunked = pieces.map((piece) => `${piece.length.toString(16)}\r\n${piece}\r\n`).join('');
    client.send(`${head('POST /x HTTP/1.1', 'Transfer-Encoding: chunked', 'Connection: close')}${chunked}0\r\n\r\n`);
    expect(parseOnly(await client.untilEnded()).status).toBe(200);
    const [{ received } = { received: '' }] = upstream.connections;
    const forwarded = [...received.slice(received.indexOf('\r\n\r\n')).matchAll(/\r\n[0-9a-f]+\r\n([^\r]*)/g)];
    expect(forwarded.map(([, piece]) => piece).join('')).toBe(pieces.join(''));
    expect(forwarded.length).toBeLessThan(40);
  });

  test('is forwarded byte for byte after its beginning was inspected', async () => {
    const { sidecar, upstream } = await startGateway();
    for (const body of [
      '{"a": 1}',
      ' \n{"data":"not an envelope"}',
      'text',
      '[1]',
      `{"a":"${'x'.repeat(2 * megabyte)}"}`,
    ]) {
      const client = await openConnection(sidecar.port);
      const chunks = [body.slice(0, 3), body.slice(3)].filter((chunk) => chunk !== '');
      client.send(
        head('POST /x HTTP/1.1', 'Transfer-Encoding: chunked', 'Connection: close').replace(keys.globex, keys.acme),
      );
      for (const chunk of chunks) {
        client.send(`${chunk.length.toString(16)}\r\n${chunk}\r\n`);
        await sleep(5);
      }
      client.send('0\r\n\r\n');
      expect(parseOnly(await client.untilEnded()).status).toBe(200);
      expect(upstream.seen.at(-1)?.body).toBe(body);
    }
  });
});

describe('a response that arrives while the request is still being sent', () => {
  test.each([
    ['with a length', (body: string) => `Content-Length: ${body.length}\r\n\r\n${body}`],
    [
      'in chunks',
      (body: string) => `Transfer-Encoding: chunked\r\n\r\n${body.length.toString(16)}\r\n${body}\r\n0\r\n\r\n`,
    ],
  ])('%s reaches the client, and the connection is closed without a reset', async (_name, framed) => {
    const upstream = await startByteUpstream(({ socket }) => {
      socket.write(`HTTP/1.1 403 Forbidden\r\n${framed('{"no":1}')}`);
    });
    const sidecar = await startSidecar(configOf(upstream.origin));
    const client = await openConnection(sidecar.port);
    client.send(head('POST /upload HTTP/1.1', `Content-Length: ${8 * megabyte}`));
    client.send(Buffer.alloc(megabyte, 'x'));
    await client.untilText('{"no":1}');
    for (let i = 0; i < 7; i += 1) client.send(Buffer.alloc(megabyte, 'x'));
    const response = parseOnly(await client.untilEnded());
    expect(client.ending).toBe('end');
    expect(response).toMatchObject({ status: 403, body: '{"no":1}' });
    expect(response.headers['connection']).toBe('close');
    await vi.waitFor(() => expect(sidecar.accessLines()[0]).toMatchObject({ status: 403 }));
  });

  test('is complete even if the client never sends the rest', async () => {
    const upstream = await startByteUpstream(({ socket }) => {
      socket.write('HTTP/1.1 403 Forbidden\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nno\r\n0\r\n\r\n');
    });
    const sidecar = await startSidecar(configOf(upstream.origin));
    const client = await openConnection(sidecar.port);
    client.send(`${head('POST /upload HTTP/1.1', 'Content-Length: 1000')}x`);
    expect(parseOnly(await client.untilEnded())).toMatchObject({ status: 403, body: 'no' });
    await vi.waitFor(() => expect(sidecar.accessLines()[0]).toMatchObject({ status: 403 }));
  });

  test('may be interleaved with the request', async () => {
    const upstream = await startRawUpstream((req, res) => {
      res.flushHeaders();
      req.on('data', (chunk: Buffer) => void res.write(chunk));
      req.on('end', () => res.end());
    });
    const sidecar = await startSidecar(configOf(upstream.origin));
    const client = await openConnection(sidecar.port);
    client.send(head('POST /echo HTTP/1.1', 'Transfer-Encoding: chunked'));
    for (const word of ['one', 'two', 'three']) {
      client.send(`${word.length}\r\n${word}\r\n`);
      await client.untilText(word);
    }
    client.send('0\r\n\r\n');
    expect(parseOnly(await client.untilEnded()).body).toBe('onetwothree');
  });
});

describe('an HTTP/1.0 client', () => {
  test.each([
    ['plain', '/x', keys.globex, 'hello'],
    ['sealed', '/api/s2s/x', keys.acme, '{"data":"'],
  ])(
    'gets a %s response of unknown length without chunks, until the connection ends',
    async (_name, path, key, begins) => {
      const upstream = await startUpstream((_seen, res) => {
        res.write('hel');
        res.end('lo');
      });
      const sidecar = await startSidecar(configOf(upstream.origin));
      const client = await openConnection(sidecar.port);
      client.send(head(`GET ${path} HTTP/1.0`).replace(keys.globex, key));
      const raw = await client.untilEnded();
      expect(client.ending).toBe('end');
      expect(raw).not.toMatch(/^transfer-encoding:/im);
      expect(raw.slice(raw.indexOf('\r\n\r\n') + 4)).toMatch(new RegExp(`^${begins}`));
    },
  );
});

/** The content of a chunked body; nothing may follow it. */
function unchunked(raw: string): string {
  const response = parseOnly(`HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n${raw}`);
  return response.body;
}

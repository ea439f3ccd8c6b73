import { once } from 'node:events';
import { setTimeout as sleep } from 'node:timers/promises';
import { describe, expect, test, vi } from 'vitest';
import { envelopeOf } from '../support/client.ts';
import { openConnection, parseResponses, parseOnly, type Connection } from '../support/connection.ts';
import { inFlight, limitUsed } from '../support/metrics.ts';
import { acmeTest, configOf, keys, startSidecar, type TestSidecar } from '../support/sidecar.ts';
import { settle } from '../support/turns.ts';
import { startRawUpstream, startUpstream } from '../support/upstream.ts';

const envelope = envelopeOf(acmeTest, '{"amount":1000}');

/** An envelope of exactly this many bytes, padded with white space, which is part of the body. */
function envelopeOfSize(bytes: number): string {
  return envelope + ' '.repeat(bytes - envelope.length);
}

/** The head of a POST. The default `key` belongs to acme, which encrypts. */
function head(path: string, headers: readonly string[], key: string = keys.acme): string {
  return [`POST ${path} HTTP/1.1`, 'Host: localhost', `Authorization: Bearer ${key}`, ...headers, '', ''].join('\r\n');
}

function withLength(body: string): string {
  return head('/api/s2s/charge', [`Content-Length: ${body.length}`]) + body;
}

function inChunks(body: string): string {
  const half = body.length >> 1;
  const chunks = [body.slice(0, half), body.slice(half)].map((chunk) => `${chunk.length.toString(16)}\r\n${chunk}\r\n`);
  return `${head('/api/s2s/charge', ['Transfer-Encoding: chunked'])}${chunks.join('')}0\r\n\r\n`;
}

async function start(more: Parameters<typeof configOf>[1] = {}) {
  const upstream = await startUpstream();
  const sidecar = await startSidecar(configOf(upstream.origin, more));
  return { upstream, sidecar };
}

/** @param later the number of bytes at the end that are sent a moment later */
async function ask(
  sidecar: TestSidecar,
  bytes: string,
  later = 0,
): Promise<ReturnType<typeof parseOnly> & { client: Connection }> {
  const client = await openConnection(sidecar.port);
  const soon = bytes.length - later;
  client.send(bytes.slice(0, soon));
  if (later > 0) {
    await sleep(50);
    client.send(bytes.slice(soon));
  }
  return { ...parseOnly(await client.untilText('}')), client };
}

const codeOf = (body: string): unknown => (JSON.parse(body) as { code?: unknown }).code;

// The second request has arrived completely before its turn begins.
test.each([1, 7, 83, 511, 512, 700])('a pipelined body in chunks of %i bytes is read completely', async (size) => {
  const plaintext = JSON.stringify({ note: 'x'.repeat(1_000) });
  const { upstream, sidecar } = await start();
  const chunks = envelopeOf(acmeTest, plaintext).match(new RegExp(`.{1,${size}}`, 'g')) ?? [];
  const framed = chunks.map((chunk) => `${chunk.length.toString(16)}\r\n${chunk}\r\n`).join('');
  const chunked = head('/api/s2s/charge', ['Transfer-Encoding: chunked']);
  const client = await openConnection(sidecar.port);
  client.send(`${withLength(envelope)}${chunked}${framed}0\r\n\r\n`);
  await client.untilText('}', 2);
  expect(upstream.seen.map(({ body }) => body)).toEqual(['{"amount":1000}', plaintext]);
});

describe('a body that is buffered', () => {
  const limit = 1_000;
  const limits = { requestBody: limit };
  const framings = [
    ['with a length', withLength, 0],
    ['in chunks', inChunks, 0],
    // The five bytes that arrive later are the last chunk, `0` and two line ends.
    ['in chunks, of which the end arrives later', inChunks, 5],
  ] as const;

  test.each(framings)('may be as large as limits.requestBody, %s', async (_name, framed, later) => {
    const { upstream, sidecar } = await start({ limits });
    const { status } = await ask(sidecar, framed(envelopeOfSize(limit)), later);
    expect(status).toBe(200);
    expect(upstream.seen[0]?.body).toBe('{"amount":1000}');
  });

  test.each(framings)(
    'one byte above limits.requestBody is refused and closes the connection, %s',
    async (_name, framed, later) => {
      const { upstream, sidecar } = await start({ limits });
      const { status, headers, client } = await ask(sidecar, framed(envelopeOfSize(limit + 1)), later);
      expect(status).toBe(413);
      expect(headers).toMatchObject({ connection: 'close', envelope: 'sealed' });
      await client.untilEnded();
      expect(client.ending).toBe('end');
      expect(upstream.heads()).toBe(0);
      await vi.waitFor(() => expect(sidecar.accessLines()).toHaveLength(1));
      expect(sidecar.accessLines()[0]).toMatchObject({ status: 413, code: 'body_too_large' });
    },
  );

  test.each([
    [limit, '200'],
    [limit + 1, '413'],
  ])('that arrived before its turn, in chunks of %i bytes in total, gets %s', async (size, status) => {
    const { upstream, sidecar } = await start({ limits });
    const client = await openConnection(sidecar.port);
    client.send(withLength(envelope) + inChunks(envelopeOfSize(size)));
    const [, response] = parseResponses(await client.untilText('}', 2));
    expect(String(response?.status)).toBe(status);
    expect(upstream.seen).toHaveLength(size > limit ? 1 : 2);
  });

  test('is refused because of its Content-Length before it arrives', async () => {
    const { sidecar } = await start({ limits });
    const { status } = await ask(sidecar, head('/api/s2s/charge', [`Content-Length: ${limit + 1}`]));
    expect(status).toBe(413);
  });

  test('is refused in the middle of its chunks', async () => {
    const { sidecar } = await start({ limits });
    const chunk = `${(limit + 1).toString(16)}\r\n${'x'.repeat(limit + 1)}\r\n`;
    const { status } = await ask(sidecar, head('/api/s2s/charge', ['Transfer-Encoding: chunked']) + chunk);
    expect(status).toBe(413);
  });

  test.each([
    ['with a length', `Content-Length: ${8 << 20}`, ''],
    ['in chunks', 'Transfer-Encoding: chunked', `${(8 << 20).toString(16)}\r\n`],
  ])(
    'that is far too large is discarded, so that a client that sends it all first gets its refusal, %s',
    async (_name, framing, size) => {
      const { sidecar } = await start();
      const client = await openConnection(sidecar.port);
      client.socket.pause();
      client.send(head('/api/s2s/charge', [framing]) + size);
      client.send(Buffer.alloc(8 << 20, 'x'));
      if (size !== '') client.send('\r\n0\r\n\r\n');
      if (client.socket.writableNeedDrain) await once(client.socket, 'drain');
      client.socket.resume();
      expect(parseOnly(await client.untilEnded()).status).toBe(413);
      expect(client.ending).toBe('end');
      await vi.waitFor(() => expect(sidecar.accessLines()[0]).toMatchObject({ status: 413 }));
    },
  );

  test('that never ends gets its connection closed', async () => {
    const { sidecar } = await start();
    const client = await openConnection(sidecar.port);
    client.send(head('/api/s2s/charge', ['Transfer-Encoding: chunked']));
    const chunk = Buffer.from(`10000\r\n${'x'.repeat(65_536)}\r\n`);
    const flood = setInterval(() => client.socket.writableNeedDrain || client.send(chunk), 1);
    await client.untilEnded();
    clearInterval(flood);
    expect(client.received).toMatch(/^HTTP\/1\.1 413 /);
    await vi.waitFor(() => expect(sidecar.accessLines()[0]).toMatchObject({ status: 413 }));
  });
});

describe('the bytes held for all requests together', () => {
  const size = 10_000;
  const settings = { limits: { requestBody: size, buffered: 5 * size, inFlight: 100 } };

  /** Sends all but the last byte of a body on each of this many connections. */
  async function hold(sidecar: TestSidecar, count: number, body = envelopeOfSize(size)): Promise<Connection[]> {
    const clients = await Promise.all(Array.from({ length: count }, () => openConnection(sidecar.port)));
    for (const client of clients) client.send(withLength(body).slice(0, -1));
    return clients;
  }

  /** Expects that five bodies fit, but not a sixth. */
  async function expectAllFree(sidecar: TestSidecar): Promise<void> {
    await vi.waitFor(async () => expect(await inFlight(sidecar)).toBe(0));
    const clients = await hold(sidecar, 6);
    const refused = await Promise.any(clients.map(async (client) => (await client.untilText('}'), client)));
    expect(codeOf(parseOnly(refused.received).body)).toBe('overloaded');
    const held = clients.filter((client) => client !== refused);
    expect(held.map(({ received }) => received)).toEqual(['', '', '', '', '']);
    for (const client of held) client.send(' ');
    for (const client of held) expect(parseOnly(await client.untilText('}')).status).toBe(200);
    for (const client of clients) client.socket.end();
  }

  test('are limited: one body too many is refused as overloaded, and the others are served', async () => {
    const { sidecar } = await start(settings);
    await expectAllFree(sidecar);
  });

  test('are limited for a body that arrives at once, too', async () => {
    const { upstream, sidecar } = await start({ limits: { requestBody: 2_000, buffered: 3_000, inFlight: 100 } });
    const clients = await hold(sidecar, 1, envelopeOfSize(2_000));
    await vi.waitFor(async () => expect(await inFlight(sidecar)).toBe(1));
    expect((await ask(sidecar, withLength(envelopeOfSize(1_000)))).status).toBe(200);
    const { body } = await ask(sidecar, withLength(envelopeOfSize(1_002)));
    expect(codeOf(body)).toBe('overloaded');
    expect(upstream.heads()).toBe(1);
    for (const client of clients) client.socket.destroy();
  });

  test('are given back after each response', async () => {
    const { sidecar } = await start(settings);
    for (let round = 0; round < 5; round += 1) await expectAllFree(sidecar);
  });

  test('are given back when clients disconnect', async () => {
    const { sidecar } = await start(settings);
    for (const client of await hold(sidecar, 5)) {
      await vi.waitFor(async () => expect(await inFlight(sidecar)).toBeGreaterThan(0));
      client.socket.destroy();
    }
    await expectAllFree(sidecar);
  });

  test('are given back with a refusal, even while the rest of the request is read', async () => {
    const { sidecar } = await start({ ...settings, limits: { ...settings.limits, requestBody: size - 1 } });
    const chunked = head('/api/s2s/charge', ['Transfer-Encoding: chunked']);
    for (let i = 0; i < 20; i += 1) {
      const client = await openConnection(sidecar.port);
      client.send(`${chunked}${size.toString(16)}\r\n${'x'.repeat(size)}\r\n`);
      expect(parseOnly(await client.untilText('}')).status).toBe(413);
    }
  });

  test('are given back when the upstream fails', async () => {
    const upstream = await startRawUpstream((req) => void req.socket.destroy());
    const sidecar = await startSidecar(configOf(upstream.origin, settings));
    for (let i = 0; i < 20; i += 1) {
      expect((await ask(sidecar, withLength(envelopeOfSize(size)))).status).toBe(502);
    }
  });

  test('are at most twice those of a body, even if it arrives byte by byte', async () => {
    const { sidecar } = await start({ limits: { requestBody: 2_048, inFlight: 100 } });
    const client = await openConnection(sidecar.port);
    client.send(head('/api/s2s/charge', ['Transfer-Encoding: chunked']));
    for (let sent = 0; sent < 1_025; sent += 1) {
      client.send('1\r\n \r\n');
      await settle();
    }
    expect(await limitUsed(sidecar, 'buffered')).toBe(2_048);
    client.socket.destroy();
    await vi.waitFor(async () => expect(await limitUsed(sidecar, 'buffered')).toBe(0));
  });

  test('of requests without a key leave room for those with one', async () => {
    const { sidecar } = await start(settings);
    const keyless = await Promise.all(Array.from({ length: 5 }, () => openConnection(sidecar.port)));
    for (const client of keyless) {
      client.send(
        `POST /api/s2s/aes-encrypt HTTP/1.1\r\nHost: localhost\r\nkey: ${acmeTest.key}\r\niv: ${acmeTest.iv}\r\n` +
          `Content-Length: ${size}\r\n\r\n${' '.repeat(size - 1)}`,
      );
    }
    await vi.waitFor(() => expect(keyless.filter(({ received }) => received.includes('"overloaded"'))).toHaveLength(4));
    expect((await ask(sidecar, withLength(envelopeOfSize(size)))).status).toBe(200);
    for (const client of keyless) client.socket.destroy();
  });

  test('do not include bodies that stream through', async () => {
    const { upstream, sidecar } = await start({ limits: { requestBody: size, buffered: 100_000, inFlight: 100 } });
    const body = 'x'.repeat(1_000_000);
    const bytes = head('/notes', [`Content-Length: ${body.length}`], keys.globex) + body;
    expect((await ask(sidecar, bytes)).status).toBe(200);
    expect(upstream.seen[0]?.body).toBe(body);
  });
});

describe('Expect: 100-continue', () => {
  const expects = 'Expect: 100-continue';

  test.each([
    ['an envelope', '/api/s2s/charge', keys.acme, envelope, '{"amount":1000}'],
    ['a streamed body', '/notes', keys.globex, 'text', 'text'],
    ['a body that is inspected', '/notes', keys.acme, '{"a":1}', '{"a":1}'],
  ])('gets a 100 response when the request is admitted: %s', async (_name, path, key, body, arrived) => {
    const { upstream, sidecar } = await start();
    const client = await openConnection(sidecar.port);
    client.send(head(path, [expects, `Content-Length: ${body.length}`], key));
    expect(await client.untilText('\r\n\r\n')).toBe('HTTP/1.1 100 Continue\r\n\r\n');
    client.send(body);
    await client.untilText('}');
    expect(parseResponses(client.received).map(({ status }) => status)).toEqual([100, 200]);
    expect(upstream.seen[0]?.body).toBe(arrived);
    expect(upstream.seen[0]?.headers).not.toHaveProperty('expect');
  });

  test.each([
    ['without a key', 'POST /notes', [], 401],
    ['with an unknown key', 'POST /notes', ['Authorization: Bearer sk_test_unknownunknownunknown'], 401],
    ['with a key of the other environment', 'POST /notes', [`Authorization: Bearer ${keys.acmeLive}`], 403],
    ['with a key that the route does not permit', 'POST /notes', [`Authorization: Bearer ${keys.globexPublic}`], 403],
    [
      'with a compressed envelope',
      'POST /api/s2s/charge',
      [`Authorization: Bearer ${keys.acme}`, 'Content-Encoding: gzip'],
      415,
    ],
    [
      'with a method that the route does not list',
      'PUT /api/v1/transactions/initialize',
      [`Authorization: Bearer ${keys.globex}`],
      405,
    ],
    ['with an ambiguous path', 'POST //notes', [`Authorization: Bearer ${keys.globex}`], 400],
  ])('gets no 100 response if the request is refused: %s', async (_name, line, headers, status) => {
    const { sidecar } = await start();
    const { client, ...response } = await ask(
      sidecar,
      [`${line} HTTP/1.1`, 'Host: localhost', ...headers, expects, 'Content-Length: 10', '', ''].join('\r\n'),
    );
    expect(response.status).toBe(status);
    // The client may omit its body, so no other request can follow on this connection.
    expect(response.headers['connection']).toBe('close');
    client.socket.destroy();
  });

  test('gets no 100 response if the body is too large', async () => {
    const { sidecar } = await start({ limits: { requestBody: 100 } });
    const response = await ask(sidecar, head('/api/s2s/charge', [expects, 'Content-Length: 101']));
    expect(response.status).toBe(413);
  });

  test('is the only expectation: another one is ignored, and the body is accepted', async () => {
    const { upstream, sidecar } = await start();
    const bytes = head('/notes', ['Expect: a-payment', 'Content-Length: 4'], keys.globex);
    expect((await ask(sidecar, `${bytes}text`)).status).toBe(200);
    expect(upstream.seen[0]?.body).toBe('text');
  });
});

describe('a slow body', () => {
  const timeouts = { request: 250 };

  test('that is buffered is refused after timeouts.request, even if bytes keep trickling in', async () => {
    const { upstream, sidecar } = await start({ timeouts });
    const client = await openConnection(sidecar.port);
    client.send(head('/api/s2s/charge', ['Content-Length: 1000']));
    const drip = setInterval(() => client.send(' '), 20);
    const response = parseOnly(await client.untilText('}'));
    clearInterval(drip);
    expect([response.status, codeOf(response.body)]).toEqual([408, 'request_timeout']);
    expect(response.headers['connection']).toBe('close');
    expect(upstream.heads()).toBe(0);
    client.socket.end();
    await client.untilEnded();
    await vi.waitFor(() => expect(sidecar.accessLines()[0]).toMatchObject({ status: 408, code: 'request_timeout' }));
  });

  test('that streams may take any time while bytes keep arriving', async () => {
    const { upstream, sidecar } = await start({ timeouts });
    const client = await openConnection(sidecar.port);
    client.send(head('/notes', ['Content-Length: 12'], keys.globex));
    for (let i = 0; i < 12; i += 1) {
      await sleep(50);
      client.send('x');
    }
    expect(parseOnly(await client.untilText('}')).status).toBe(200);
    expect(upstream.seen[0]?.body).toBe('x'.repeat(12));
  });

  test.each([
    ['at the beginning', ''],
    ['in the middle', 'some bytes'],
  ])('that streams is refused when bytes stop arriving %s, and is broken off at the upstream', async (_name, sent) => {
    let closed = 0;
    const upstream = await startRawUpstream((req) => {
      req.resume().on('error', () => {});
      req.socket.on('close', () => (closed += 1));
    });
    const sidecar = await startSidecar(configOf(upstream.origin, { timeouts }));
    const client = await openConnection(sidecar.port);
    client.send(head('/notes', ['Content-Length: 100'], keys.globex) + sent);
    const response = parseOnly(await client.untilText('}'));
    expect([response.status, codeOf(response.body)]).toEqual([408, 'request_timeout']);
    await vi.waitFor(() => expect(closed).toBe(1));
    expect(upstream.heads()).toBe(1);
  });

  test('that is inspected is refused when bytes stop arriving', async () => {
    const { sidecar } = await start({ timeouts });
    const response = await ask(sidecar, `${head('/notes', ['Content-Length: 100'])}{"data":`);
    expect([response.status, codeOf(response.body)]).toEqual([408, 'request_timeout']);
  });
});

describe('requests in flight', () => {
  test('beyond the limit are refused at once, and each response frees its slot', async () => {
    const responses: (() => void)[] = [];
    const upstream = await startUpstream((_seen, res) => void responses.push(() => res.end('{}')));
    const sidecar = await startSidecar(configOf(upstream.origin, { limits: { inFlight: 3 } }));
    for (let round = 0; round < 3; round += 1) {
      const clients = await Promise.all([0, 1, 2].map(() => openConnection(sidecar.port)));
      for (const client of clients) client.send(withLength(envelope));
      await vi.waitFor(() => expect(responses).toHaveLength(3));

      const refused = await ask(sidecar, withLength(envelope));
      expect([refused.status, codeOf(refused.body)]).toEqual([503, 'overloaded']);
      expect(refused.headers['retry-after']).toBe('1');
      expect(await inFlight(sidecar)).toBe(3);

      for (const respond of responses.splice(0)) respond();
      for (const client of clients) expect(parseOnly(await client.untilText('}')).status).toBe(200);
      await vi.waitFor(async () => expect(await inFlight(sidecar)).toBe(0));
    }
    expect(upstream.heads()).toBe(9);
  });
});

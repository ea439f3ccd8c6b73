import { hash } from 'node:crypto';
import type { OutgoingHttpHeaders } from 'node:http';
import { setImmediate as turn } from 'node:timers/promises';
import { brotliCompressSync, deflateSync, gzipSync, zstdCompressSync } from 'node:zlib';
import { describe, expect, test, vi } from 'vitest';
import { envelopeOf, expectPlainRefusal, opened, send, type Response } from '../support/client.ts';
import { openConnection, parseOnly, type Connection } from '../support/connection.ts';
import { acmeWith, startGateway } from '../support/gateway.ts';
import { limitUsed } from '../support/metrics.ts';
import { acmeTest, encryptionOf, keys } from '../support/sidecar.ts';
import { settle } from '../support/turns.ts';
import type { Respond } from '../support/upstream.ts';

const json = { 'Content-Type': 'application/json' };

/** Responds with a body of stated length. */
function responding(status: number, headers: OutgoingHttpHeaders = {}, body: string | Buffer = ''): Respond {
  return (_, res) =>
    res.writeHead(status, { 'Content-Length': Buffer.byteLength(body), ...headers }).end(Buffer.from(body));
}

/** Responds in as many chunks as there are pieces. */
function chunked(headers: OutgoingHttpHeaders, ...pieces: readonly (string | Buffer)[]): Respond {
  return (_, res) => {
    res.writeHead(200, headers);
    for (const piece of pieces) res.write(piece);
    res.end();
  };
}

/** Bytes with the last `count` set to zero. */
function overwritten(bytes: Buffer, count: number): Buffer {
  return Buffer.concat([bytes.subarray(0, -count), Buffer.alloc(count)]);
}

/** The response that an encrypting account gets to a charge if the upstream responds like this. */
async function responseTo(respond: Respond, method = 'POST'): Promise<Response> {
  const { sidecar } = await startGateway({ respond });
  return send(sidecar, `${method} /api/s2s/charge`, { key: keys.acme });
}

describe('every body is sealed', () => {
  test.each([
    200, 201, 202, 206, 299, 300, 302, 307, 400, 401, 402, 403, 404, 409, 418, 422, 429, 499, 500, 502, 503, 599,
  ])('with the status unchanged: %i', async (status) => {
    const response = await responseTo(responding(status, json, '{"amount":1}'));
    expect(response.status).toBe(status);
    expect(opened(acmeTest, response)).toBe('{"amount":1}');
  });

  test.each([
    ['JSON that a serialiser would change', Buffer.from('{ "a": 1.00,\r\n "a": 12345678901234567890 }\n')],
    ['a body that is not JSON', Buffer.from('<html>')],
    ['an envelope', Buffer.from(envelopeOf(acmeTest, '{}'))],
    ['every byte value', Buffer.from(Array.from({ length: 256 }, (_, i) => i))],
  ])('byte for byte: %s', async (_, body) => {
    const response = await responseTo(responding(200, json, body));
    expect(Buffer.from(opened(acmeTest, response))).toEqual(Buffer.from(body.toString()));
  });

  test.each([
    ['hex', 1],
    ['hex', 15],
    ['hex', 16],
    ['hex', 17],
    ['hex', 65_535],
    ['hex', 65_536],
    ['hex', 65_537],
    ['hex', 300_000],
    ['base64', 1],
    ['base64', 15],
    ['base64', 16],
    ['base64', 32],
    ['base64', 65_536],
    ['base64', 65_537],
    ['base64', 300_000],
  ] as const)('in %s, of %i bytes, with a length if the upstream states one', async (encoding, length) => {
    const body = '0123456789'.repeat(length).slice(0, length);
    const accounts = [acmeWith(encryptionOf(acmeTest, { encoding }))];
    const respond: Respond = (seen, res, req) =>
      (seen.url === '/api/s2s/stated' ? responding(200, json, body) : chunked(json, body))(seen, res, req);
    const { sidecar } = await startGateway({ respond, accounts });
    const stated = await send(sidecar, 'GET /api/s2s/stated', { key: keys.acme });
    expect(opened(acmeTest, stated, encoding)).toBe(body);
    expect(stated.headers['content-length']).toBe(String(stated.bytes.length));
    const unstated = await send(sidecar, 'GET /api/s2s/unstated', { key: keys.acme });
    expect(unstated.body).toBe(stated.body);
    expect(unstated.headers).not.toHaveProperty('content-length');
  });

  test('in many pieces just as in one', async () => {
    const pieces = Array.from({ length: 50 }, (_, i) => 'x'.repeat(i));
    expect(opened(acmeTest, await responseTo(chunked(json, ...pieces)))).toBe(pieces.join(''));
  });
});

describe('the memory of a response', () => {
  /** An upstream whose responses of `length` bytes come in two halves, the second when the test releases it. */
  async function startHalving(length: number, buffered: number) {
    const { promise: released, resolve: release } = Promise.withResolvers<unknown>();
    const respond: Respond = (_seen, res) => {
      res.writeHead(200, { ...json, 'Content-Length': length });
      res.write('1'.repeat(length / 2));
      void released.then(() => res.end('1'.repeat(length / 2)));
    };
    const { sidecar } = await startGateway({ respond, limits: { buffered } });
    const ask = async (): Promise<Connection> => {
      const client = await openConnection(sidecar.port);
      return client.send(
        `GET /api/s2s/report HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer ${keys.acme}\r\n\r\n`,
      );
    };
    return { sidecar, release, ask };
  }

  test('is charged to the common budget, beyond which a response streams', async () => {
    const { sidecar, release, ask } = await startHalving(60_000, 60_000);
    const held = await ask();
    await vi.waitFor(async () => expect(await limitUsed(sidecar, 'buffered')).toBe(60_000));
    const streamed = await ask();
    await streamed.untilText('\r\n\r\n');
    expect(held.received).toBe('');
    release(undefined);
    for (const client of [held, streamed]) {
      expect(opened(acmeTest, { ...parseOnly(await client.untilText('"}')), bytes: Buffer.alloc(0) })).toBe(
        '1'.repeat(60_000),
      );
    }
  });

  test.each([
    [59_999, 'streams'],
    [60_000, 'is held'],
  ])('of 60,000 bytes, with a budget of %i, %s', async (buffered, how) => {
    const { sidecar, release, ask } = await startHalving(60_000, buffered);
    const client = await ask();
    if (how === 'streams') await client.untilText('\r\n\r\n');
    else await vi.waitFor(async () => expect(await limitUsed(sidecar, 'buffered')).toBe(60_000));
    await settle();
    expect(client.received === '').toBe(how === 'is held');
    release(undefined);
    await client.untilText('"}');
    // If bytes were not returned, the third response would stream.
    for (let i = 0; i < 3; i += 1) {
      expect(
        (await send(sidecar, 'GET /api/s2s/report', { key: keys.acme })).headers['transfer-encoding'],
      ).toBeUndefined();
    }
  });

  test('is its Content-Length, in however many pieces it arrives', async () => {
    const body = '0123456789'.repeat(30);
    const { sidecar } = await startGateway({
      respond: async (_seen, res) => {
        res.writeHead(200, { ...json, 'Content-Length': body.length });
        for (const character of body) {
          res.write(character);
          await turn();
        }
        res.end();
      },
    });
    const response = await send(sidecar, 'GET /api/s2s/report', { key: keys.acme });
    expect(opened(acmeTest, response)).toBe(body);
  });
});

describe('a response without a body is not sealed', () => {
  test.each<[string, Respond, string, number, string | undefined]>([
    ['204', (_, res) => res.writeHead(204).end(), 'POST', 204, undefined],
    ['205', responding(205), 'POST', 205, '0'],
    ['304', (_, res) => res.writeHead(304, { 'Content-Length': 11, ...json }).end(), 'GET', 304, undefined],
    ['an empty 200', responding(200, json), 'POST', 200, '0'],
    ['an empty 200 in chunks', chunked(json), 'POST', 200, '0'],
    ['an empty 500', responding(500, json), 'POST', 500, '0'],
    ['an empty 200 that claims to be compressed', responding(200, { 'Content-Encoding': 'gzip' }), 'POST', 200, '0'],
    ['HEAD', responding(200, json, '{"ok":true}'), 'HEAD', 200, undefined],
    ['HEAD of a compressed resource', responding(200, { 'Content-Encoding': 'gzip' }, 'x'), 'HEAD', 200, undefined],
    ['HEAD of an unknown coding', responding(200, { 'Content-Encoding': 'aes128gcm' }, 'x'), 'HEAD', 200, undefined],
    ['HEAD of a missing resource', responding(404, json, '{"ok":true}'), 'HEAD', 404, undefined],
  ])('%s', async (_, respond, method, status, length) => {
    const response = await responseTo(respond, method);
    expect([response.status, response.body]).toEqual([status, '']);
    const told = ['envelope', 'envelope-content-type', 'content-encoding'].filter((name) => name in response.headers);
    expect(told).toEqual([]);
    // The length of the plaintext is not revealed.
    expect(response.headers['content-length']).toBe(length);
  });
});

describe('the Content-Type', () => {
  test.each(['application/json', 'application/json; charset=utf-8', 'Application/JSON;charset=UTF-8'])(
    '%s needs no Envelope-Content-Type',
    async (type) => {
      const response = await responseTo(responding(200, { 'Content-Type': type }, '{}'));
      expect(opened(acmeTest, response)).toBe('{}');
      expect(response.headers).not.toHaveProperty('envelope-content-type');
    },
  );

  test.each(['application/problem+json', 'text/html; charset=utf-8', 'application/jsonl', 'text/csv', 'x'])(
    '%s is kept in Envelope-Content-Type',
    async (type) => {
      const response = await responseTo(responding(200, { 'Content-Type': type }, '{}'));
      expect(opened(acmeTest, response)).toBe('{}');
      expect(response.headers['envelope-content-type']).toBe(type);
    },
  );

  test('is not invented if the upstream sends none', async () => {
    const response = await responseTo(responding(200, {}, '{}'));
    expect(opened(acmeTest, response)).toBe('{}');
    expect(response.headers).not.toHaveProperty('envelope-content-type');
  });
});

describe('headers', () => {
  const caching = {
    'Cache-Control': 'public, max-age=600',
    Expires: 'Thu, 01 Jan 2099 00:00:00 GMT',
    'Last-Modified': 'Thu, 01 Jan 2026 00:00:00 GMT',
    Age: '5',
    Pragma: 'cache',
    'Surrogate-Control': 'max-age=600',
    'CDN-Cache-Control': 'max-age=600',
  };

  test('that describe the plaintext or the connection are removed', async () => {
    const ofPlaintext = [
      'ETag',
      'Digest',
      'Content-Digest',
      'Repr-Digest',
      'Content-MD5',
      'Accept-Ranges',
      'Content-Range',
    ];
    const ofConnection = [
      'Keep-Alive',
      'Proxy-Connection',
      'Trailer',
      'Upgrade',
      'TE',
      'Proxy-Authenticate',
      'X-Nominated',
    ];
    const names = [...ofPlaintext, ...ofConnection];
    const removed = Object.fromEntries(names.map((name) => [name, '"x"']));
    const headers = { ...json, ...removed, Connection: 'close, X-Nominated', 'Content-Encoding': 'identity' };
    const response = await responseTo(chunked(headers, '{}'));
    expect(opened(acmeTest, response)).toBe('{}');
    const present = [...names, 'Content-Encoding'].filter((name) => name.toLowerCase() in response.headers);
    expect(present).toEqual([]);
  });

  test.each([
    ['a sealed body', 'POST', responding(200, caching, '{}')],
    ['a sealed body that streams', 'GET', chunked(caching, '{}')],
    ['no body', 'GET', responding(204, caching)],
    ['no body, to HEAD', 'HEAD', responding(200, caching, '{}')],
    ['an error', 'POST', responding(500, caching, '{}')],
  ])('forbid caching, whatever the upstream sends, of a response with %s', async (_, method, respond) => {
    const { headers } = await responseTo(respond, method);
    expect(headers['cache-control']).toBe('no-store');
    const others = Object.keys(caching).filter((name) => name !== 'Cache-Control' && name.toLowerCase() in headers);
    expect(others).toEqual([]);
  });

  test('about caching are kept on a response that is not sealed', async () => {
    const { sidecar } = await startGateway({ respond: responding(200, caching, '{}') });
    const { headers } = await send(sidecar, 'GET /api/s2s/report', { key: keys.globex });
    const lower = Object.fromEntries(Object.entries(caching).map(([name, value]) => [name.toLowerCase(), value]));
    expect(headers).toMatchObject(lower);
  });

  test('that also fit the envelope are kept', async () => {
    const fitting = {
      'Set-Cookie': ['a=1', 'b=2'],
      Location: '/api/s2s/charges/1',
      'Retry-After': '5',
      Vary: 'Accept',
      'WWW-Authenticate': 'Basic',
      'X-Custom': 'caf\u00e9',
    };
    const response = await responseTo(responding(201, { ...json, ...fitting }, '{}'));
    const lower = Object.fromEntries(Object.entries(fitting).map(([name, value]) => [name.toLowerCase(), value]));
    expect(response.headers).toMatchObject(lower);
  });

  const forged = {
    Envelope: 'forged',
    'Envelope-Content-Type': 'forged',
    'Envelope-Credentials': 'forged',
    'Envelope-Other': 'forged',
  };

  test.each([
    ['a sealed response', 'GET /api/s2s/charge', keys.acme, { envelope: 'sealed' }],
    ['a plain response to an encrypting account', 'GET /api/v1/balance', keys.acme, {}],
    ['a response on an enveloped route to an account without encryption', 'GET /api/s2s/charge', keys.globex, {}],
    ['a response without a body', 'HEAD /api/s2s/charge', keys.acme, {}],
  ])('that only the sidecar may send are not taken from the upstream: %s', async (_, line, key, expected) => {
    const respond = responding(200, { ...json, ...forged, 'X-Request-Id': 'forged' }, '{}');
    const { sidecar } = await startGateway({ respond });
    const response = await send(sidecar, line, { key, headers: { 'X-Request-Id': 'r1' } });
    expect(response.headers['x-request-id']).toBe('r1');
    expect(
      Object.fromEntries(Object.entries(response.headers).filter(([name]) => name.startsWith('envelope'))),
    ).toEqual(expected);
  });
});

describe('an unsolicited compressed response', () => {
  // The noise cannot be compressed, so the decoder has emitted much of it before the end shows the fault.
  const noise = Buffer.concat(Array.from({ length: 3_000 }, (_, i) => hash('sha256', String(i), 'buffer')));
  const body = JSON.stringify({ items: Array.from({ length: 20_000 }, (_, id) => ({ id })) });

  test.each<[string, (body: string) => Buffer]>([
    ['gzip', gzipSync],
    ['x-gzip', gzipSync],
    ['GZip', gzipSync],
    ['deflate', deflateSync],
  ])('is decoded, then sealed: %s', async (coding, compress) => {
    const headers = { ...json, 'Content-Encoding': coding };
    for (const plaintext of ['{}', body]) {
      const compressed = compress(plaintext);
      const middle = Math.floor(compressed.length / 2);
      const inPieces = chunked(headers, compressed.subarray(0, middle), compressed.subarray(middle));
      for (const respond of [responding(200, headers, compressed), inPieces]) {
        const response = await responseTo(respond);
        expect(opened(acmeTest, response)).toBe(plaintext);
        expect(response.headers).not.toHaveProperty('content-encoding');
      }
    }
  });

  test.each<[string, string, string | Buffer]>([
    ['of an unknown coding', 'aes128gcm', 'plaintext'],
    ['of a coding named like a property', 'constructor', 'plaintext'],
    ['of two codings', 'gzip, br', brotliCompressSync(gzipSync('plaintext'))],
    ['of a coding with a large window', 'br', brotliCompressSync('plaintext')],
    ['of another one', 'zstd', zstdCompressSync('plaintext')],
    ['that is not compressed', 'gzip', 'plaintext'],
    ['that is damaged from the first byte', 'deflate', Buffer.alloc(100, 0xff)],
    ['with a wrong checksum', 'gzip', overwritten(gzipSync('plaintext'), 8)],
    ['that ends within its header', 'gzip', gzipSync('plaintext').subarray(0, 3)],
  ])('is withheld with sealing_failed if it cannot be decoded: %s', async (_, coding, bytes) => {
    const headers = { 'Content-Type': 'text/plain', 'Content-Encoding': coding, 'X-Plaintext': 'plaintext' };
    for (const respond of [responding(200, headers, bytes), chunked(headers, bytes)]) {
      const { sidecar } = await startGateway({ respond });
      const response = await send(sidecar, 'POST /api/s2s/charge', { key: keys.acme });
      expectPlainRefusal(response, 'sealing_failed');
      expect(JSON.stringify([response.headers, response.body])).not.toContain('plaintext');
      expect(sidecar.accessLines()[0]).toMatchObject({ status: 502, code: 'sealing_failed' });
    }
  });

  test.each([
    ['damaged', overwritten(gzipSync(noise), 2_000)],
    ['cut short', gzipSync(noise).subarray(0, -4)],
  ])('is broken off if it proves to be %s after its beginning was sent', async (_, bytes) => {
    await expect(responseTo(responding(200, { 'Content-Encoding': 'gzip' }, bytes))).rejects.toThrow('aborted');
  });

  test.each(['gzip', 'deflate', 'br', 'anything'])('without a single byte, in chunks, is empty: %s', async (coding) => {
    const response = await responseTo((_seen, res) => {
      res.writeHead(200, { 'Content-Encoding': coding });
      res.flushHeaders();
      res.end();
    });
    expect([response.status, response.body]).toEqual([200, '']);
    expect(response.headers).not.toHaveProperty('envelope');
  });

  test('is charged for its decoder in `limits.buffered` while it is decoded, and is withheld if there is no room for one', async () => {
    const compressed = gzipSync(body);
    const { promise, resolve: goOn } = Promise.withResolvers<undefined>();
    const { sidecar } = await startGateway({
      limits: { buffered: 2 * 262_144, requestBody: 1_024 },
      respond: (seen, res) => {
        res.writeHead(200, { 'Content-Encoding': 'gzip', 'Content-Length': compressed.length });
        res.write(compressed.subarray(0, 50));
        if (seen.url.endsWith('waits')) void promise.then(() => res.end(compressed.subarray(50)));
        else res.end(compressed.subarray(50));
      },
    });
    const get = (path: string): Promise<Response> => send(sidecar, `GET /api/s2s/${path}`, { key: keys.acme });
    const waiting = [get('waits'), get('waits')];
    await vi.waitFor(async () => expect(await limitUsed(sidecar, 'buffered')).toBe(2 * 262_144));
    expectPlainRefusal(await get('third'), 'sealing_failed');
    goOn(undefined);
    for (const response of await Promise.all(waiting)) {
      expect(opened(acmeTest, response)).toBe(body);
    }
    await vi.waitFor(async () => expect(await limitUsed(sidecar, 'buffered')).toBe(0));
    expect(opened(acmeTest, await get('fourth'))).toBe(body);
  });

  test('is refused or broken off if the upstream dies in the middle of it', async () => {
    const compressed = gzipSync(noise);
    const { sidecar } = await startGateway({
      respond: (seen, res) => {
        res.writeHead(200, { 'Content-Encoding': 'gzip', 'Content-Length': compressed.length });
        res.write(compressed.subarray(0, Number(seen.url.split('/').at(-1))), () => res.destroy());
      },
    });
    const outcomeOf = (length: number): Promise<string> =>
      send(sidecar, `GET /api/s2s/${length}`, { key: keys.acme }).then(
        (response) => opened(acmeTest, response),
        String,
      );
    // This response is too short for the decoder to emit anything.
    expect(await outcomeOf(11)).toContain('"code":"upstream_unavailable"');
    // These responses are long enough for output to be sent before the upstream dies.
    for (const length of Array.from({ length: 20 }, (_, i) => 1_000 + i * 4_500)) {
      expect(await outcomeOf(length)).toMatch(/"code":"upstream_unavailable"|aborted|ECONNRESET|socket hang up/);
    }
  });
});

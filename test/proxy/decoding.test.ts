import { randomBytes } from 'node:crypto';
import { Readable } from 'node:stream';
import { setTimeout as sleep } from 'node:timers/promises';
import { createGunzip, createGzip, gzipSync, type Gunzip } from 'node:zlib';
import { describe, expect, onTestFinished, test, vi } from 'vitest';
import { startByteUpstream } from '../support/byte-upstream.ts';
import { openConnection, parseOnly } from '../support/connection.ts';
import { acmeWith, startGateway } from '../support/gateway.ts';
import { inFlight } from '../support/metrics.ts';
import { acmeTest, codecOf, configOf, encryptionOf, keys, startSidecar } from '../support/sidecar.ts';

const get = `GET /api/s2s/report HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer ${keys.acme}\r\nConnection: close\r\n\r\n`;

describe('a compressed response that is sealed', () => {
  test('is complete only when the upstream has sent all of it, not when its compressed data ends', async () => {
    const zipped = gzipSync('{"paid":true}');
    const head = `HTTP/1.1 200 OK\r\nContent-Encoding: gzip\r\nContent-Length: ${zipped.length + 2}\r\n\r\n`;
    const upstream = await startByteUpstream(({ socket }) => {
      // The decoder recognizes the end of its data only by the byte that follows.
      socket.write(Buffer.concat([Buffer.from(head), zipped, Buffer.alloc(1)]));
    });
    const sidecar = await startSidecar(configOf(upstream.origin));
    const client = await openConnection(sidecar.port);
    client.send(get);
    await client.untilText('Envelope: sealed');
    // The decoder reaches the end of its data within this time.
    await sleep(50);
    upstream.connections[0]?.socket.resetAndDestroy();
    const raw = await client.untilEnded();
    expect(() => parseOnly(raw)).toThrow(/not a whole/);
  });

  test('gives up its decoder when its compressed data ends, although the upstream has sent more and the response goes on', async () => {
    const destroy = vi.spyOn(Object.getPrototypeOf(createGunzip()) as Gunzip, 'destroy');
    onTestFinished(() => destroy.mockRestore());
    const zipped = gzipSync('{"paid":true}');
    const head = `HTTP/1.1 200 OK\r\nContent-Encoding: gzip\r\nContent-Length: ${zipped.length + 2}\r\n\r\n`;
    const upstream = await startByteUpstream(({ socket }) => {
      socket.write(Buffer.concat([Buffer.from(head), zipped, Buffer.alloc(1)]));
    });
    const sidecar = await startSidecar(configOf(upstream.origin));
    await (await openConnection(sidecar.port)).send(get).untilText('Envelope: sealed');
    await vi.waitFor(() => expect(destroy).toHaveBeenCalledTimes(1));
    expect(await inFlight(sidecar)).toBe(1);
  });

  test('is read from the upstream no faster than the client reads', async () => {
    const piece = randomBytes(65_536);
    let sent = 0;
    const most = 64 << 20;
    const { sidecar } = await startGateway({
      respond: (_seen, res) => {
        res.writeHead(200, { 'Content-Encoding': 'gzip' });
        const plaintext = new Readable({
          read() {
            sent += piece.length;
            this.push(sent > most ? null : piece);
          },
        });
        plaintext.pipe(createGzip({ level: 0 })).pipe(res);
      },
    });
    const client = await openConnection(sidecar.port);
    client.socket.pause();
    client.send(get);
    await vi.waitFor(() => expect(sent).toBeGreaterThan(0));
    let before = 0;
    for (let still = 0; still < 10; still = sent === before ? still + 1 : 0) {
      before = sent;
      await sleep(50);
    }
    // Some of the response is sent nevertheless, because the kernel's buffers take it.
    expect(sent).toBeLessThan(16 << 20);
  });
});

test('a response is broken off if sealing fails in the middle of it', async () => {
  const failing = codecOf(acmeTest);
  const stream = failing.stream();
  const update = vi.fn<(chunk: Buffer) => string>(() => {
    throw new Error('the cipher fails');
  });
  update.mockImplementationOnce((chunk) => stream.update(chunk));
  vi.spyOn(failing, 'stream').mockReturnValue({ update, end: () => stream.end() });
  const { promise: seen, resolve: goOn } = Promise.withResolvers<unknown>();
  const { sidecar } = await startGateway({
    accounts: [acmeWith(encryptionOf(acmeTest, { current: failing }))],
    respond: (_seen, res) => {
      res.write('1'.repeat(100));
      void seen.then(() => res.end('2'.repeat(100)));
    },
  });
  const client = await openConnection(sidecar.port);
  client.send(get);
  await client.untilText('Envelope: sealed');
  goOn(undefined);
  await vi.waitFor(() => expect(client.ending).not.toBe('open'));
  expect(() => parseOnly(client.received)).toThrow(/not a whole/);
});

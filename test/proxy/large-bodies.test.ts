import { createDecipheriv, createHash, randomBytes, type Hash } from 'node:crypto';
import { request, type IncomingMessage } from 'node:http';
import { Readable } from 'node:stream';
import { pipeline } from 'node:stream/promises';
import { setTimeout as sleep } from 'node:timers/promises';
import { describe, expect, test } from 'vitest';
import { peakMemory } from '../../bench/cpu-time.ts';
import { startServe, type Serving } from '../support/command.ts';
import { accountsFile, acmeEntry, Folder, globexEntry, sidecarFile } from '../support/folder.ts';
import { acmeTest, keys } from '../support/sidecar.ts';
import { startRawUpstream, startUpstream } from '../support/upstream.ts';

const megabyte = 1 << 20;

/** 300 MB in pieces, and their hash once all have been read. */
function large(): { readonly size: number; readonly pieces: Iterable<Buffer>; readonly hash: Hash } {
  const hash = createHash('sha256');
  const piece = randomBytes(megabyte);
  function* pieces(): Generator<Buffer> {
    for (let i = 0; i < 300; i += 1) {
      piece.writeUInt32BE(i);
      const copy = Buffer.from(piece);
      hash.update(copy);
      yield copy;
    }
  }
  return { size: 300 * megabyte, pieces: pieces(), hash };
}

describe('bodies of 300 MB', () => {
  // The heap is limited to far less than a body. Buffers are outside the heap, so the memory of the whole process is measured.
  const start = (upstream: string): Promise<Serving> => {
    const folder = new Folder({
      'sidecar.yaml': sidecarFile(upstream),
      'accounts.yaml': accountsFile(acmeEntry, globexEntry(keys.globex)),
    });
    return startServe(folder.file('sidecar.yaml'), { nodeOptions: ['--max-old-space-size=64'] });
  };
  const allowance = 250 * megabyte;

  /** Makes the receiver wait at first, so that bytes pile up unless the sender is slowed down. */
  const holdStill = (): Promise<void> => sleep(700);

  test('stream to the upstream byte for byte, in little memory', async () => {
    const arrived = createHash('sha256');
    const upstream = await startRawUpstream(async (req, res) => {
      await holdStill();
      for await (const chunk of req) arrived.update(chunk as Buffer);
      res.end('{}');
    });
    const sidecar = await start(upstream.origin);
    const { size, pieces, hash } = large();
    const headers = { authorization: `Bearer ${keys.globex}`, 'Content-Length': size };
    const req = request({ host: '127.0.0.1', port: sidecar.port, method: 'PUT', path: '/files/1', headers });
    const response = new Promise<IncomingMessage>((resolve) => void req.once('response', resolve));
    await pipeline(Readable.from(pieces), req);
    expect((await response).resume().statusCode).toBe(200);
    expect(arrived.digest('hex')).toBe(hash.digest('hex'));
    expect(peakMemory(sidecar.process.pid ?? 0)).toBeLessThan(allowance);
  });

  test('stream to the client byte for byte, in little memory', async () => {
    const { size, pieces, hash } = large();
    const upstream = await startUpstream((_seen, res) => {
      res.writeHead(200, { 'Content-Length': size });
      Readable.from(pieces).pipe(res);
    });
    const sidecar = await start(upstream.origin);
    const response = await get(sidecar.port, '/files/1', keys.globex);
    expect(response.headers['content-length']).toBe(String(size));
    const arrived = createHash('sha256');
    await holdStill();
    for await (const chunk of response) arrived.update(chunk as Buffer);
    expect(arrived.digest('hex')).toBe(hash.digest('hex'));
    expect(peakMemory(sidecar.process.pid ?? 0)).toBeLessThan(allowance);
  });

  test('stream to the client sealed, in little memory', async () => {
    const { pieces, hash } = large();
    const upstream = await startUpstream((_seen, res) => void Readable.from(pieces).pipe(res));
    const sidecar = await start(upstream.origin);
    const response = await get(sidecar.port, '/api/s2s/export', keys.acme);
    expect(response.headers['envelope']).toBe('sealed');
    const arrived = createHash('sha256');
    const decipher = createDecipheriv('aes-256-cbc', acmeTest.key, acmeTest.iv);
    let rest = '';
    let isFirst = true;
    await holdStill();
    for await (const chunk of response) {
      let text = rest + (chunk as Buffer).toString('latin1');
      if (isFirst) {
        expect(text.slice(0, 9)).toBe('{"data":"');
        text = text.slice(9);
        isFirst = false;
      }
      // Leave out the last two characters, which may be the end of the envelope, and an odd digit, because a byte is two digits.
      const whole = Math.max(0, text.length - 2) & ~1;
      arrived.update(decipher.update(Buffer.from(text.slice(0, whole), 'hex')));
      rest = text.slice(whole);
    }
    expect(rest).toBe('"}');
    arrived.update(decipher.final());
    expect(arrived.digest('hex')).toBe(hash.digest('hex'));
    expect(peakMemory(sidecar.process.pid ?? 0)).toBeLessThan(allowance);
  });
});

function get(port: number, path: string, key: string): Promise<IncomingMessage> {
  return new Promise((resolve, reject) => {
    request({ host: '127.0.0.1', port, path, headers: { authorization: `Bearer ${key}` } }, resolve)
      .on('error', reject)
      .end();
  });
}

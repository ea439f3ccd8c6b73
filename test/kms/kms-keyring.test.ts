import { spawn } from 'node:child_process';
import { createSecretKey, randomBytes } from 'node:crypto';
import { once } from 'node:events';
import { createServer, type Server } from 'node:net';
import { createServer as createHttp1 } from 'node:http';
import { createServer as createHttp2, type ServerHttp2Stream } from 'node:http2';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { describe, expect, onTestFinished, test, vi } from 'vitest';
import type { Keyring } from '../../src/accounts/keyring.ts';
import { createMasterKey, openedKey, parseMasterKeys, type MasterKey } from '../../src/accounts/master-key.ts';
import { kmsKeyring } from '../../src/kms/kms-keyring.ts';
import { Folder } from '../support/folder.ts';
import { startKms } from '../support/kms.ts';
import { occurrences } from '../support/memory.ts';

const keyringAt = (socket: string, timeout = 3_000): Keyring => kmsKeyring({ socket, timeout }, () => 0);

function parsed(line: string): MasterKey {
  const [key] = parseMasterKeys(line) ?? [];
  if (key === undefined) throw new Error('not a line');
  return key;
}

const key = createSecretKey(randomBytes(32));
const program = fileURLToPath(new URL('repeated-calls.ts', import.meta.url));

describe('a master key', () => {
  test('is wrapped and unwrapped again, after the KMS has another key too', async () => {
    const kms = await startKms();
    const keyring = keyringAt(kms.socket);
    const line = await keyring.wrap(key);
    expect(line).toMatch(/^kms:v1:[A-Za-z0-9_-]+$/);
    const wrapped = parsed(line);
    expect(wrapped).toMatchObject({ kcv: createMasterKey(key).kcv, wrapped: { key_id: 'key-1' } });
    expect(wrapped.key).toBeUndefined();
    kms.rotate();
    expect(openedKey(await keyring.unwrap(wrapped)).equals(key)).toBe(true);
    expect(parsed(await keyring.wrap(key)).wrapped?.key_id).toBe('key-2');
    expect(await keyring.status()).toEqual({ healthy: true, keyId: 'key-2' });
    kms.healthz = 'HSM lost';
    expect(await keyring.status()).toMatchObject({ healthy: false });
  });

  test.each([
    ['none', {}],
    ['one that is empty', { 'a.example/b': Buffer.alloc(0) }],
    ['32 KiB of them', { 'a.example/b': randomBytes(16_384), 'c.example/d': randomBytes(16_384) }],
  ])('comes with annotations that the KMS gets back byte for byte: %s', async (_, annotations) => {
    const kms = await startKms();
    kms.annotations = annotations;
    const keyring = keyringAt(kms.socket);
    expect(openedKey(await keyring.unwrap(parsed(await keyring.wrap(key)))).equals(key)).toBe(true);
  });

  test.each([
    ['31 bytes', (plaintext: Buffer) => plaintext.subarray(1), /has opened 31 bytes: a master key has 32$/],
    ['33 bytes', (plaintext: Buffer) => Buffer.concat([plaintext, Buffer.alloc(1)]), /has opened 33 bytes/],
    ['nothing', () => Buffer.alloc(0), /has opened 0 bytes/],
    ['another key', () => randomBytes(32), /has opened a different key, KCV [0-9a-f]{10} instead of [0-9a-f]{10}$/],
  ])('is refused if the KMS has opened %s', async (_, spoil, message) => {
    const kms = await startKms();
    const keyring = keyringAt(kms.socket);
    const wrapped = parsed(await keyring.wrap(key));
    kms.spoil = spoil;
    await expect(keyring.unwrap(wrapped)).rejects.toMatchObject({
      code: 'master_key_wrong',
      message: expect.stringMatching(message) as string,
    });
  });

  test.each([
    ['in the clear', (plaintext: Buffer) => ({ ciphertext: plaintext }), 'master_key_wrong'],
    [
      'in the clear, with a prefix',
      (plaintext: Buffer) => ({ ciphertext: Buffer.concat([Buffer.from('v1:'), plaintext]) }),
      'master_key_wrong',
    ],
    [
      'in the clear, in an annotation',
      (plaintext: Buffer) => ({ annotations: { 'a.example/b': Buffer.from(plaintext) } }),
      'master_key_wrong',
    ],
    ['as nothing', () => ({ ciphertext: Buffer.alloc(0) }), 'master_key_wrong'],
    ['without the name of its key', () => ({ key_id: '' }), 'master_key_wrong'],
    ['as something that it does not open', () => ({ ciphertext: randomBytes(60) }), 'kms_unavailable'],
    ['with the name of a key that it does not have', () => ({ key_id: 'key-9' }), 'kms_unavailable'],
  ])('gets no line if the KMS has wrapped it %s', async (_, misWrap, code) => {
    const kms = await startKms();
    kms.misWrap = misWrap;
    await expect(keyringAt(kms.socket).wrap(key)).rejects.toMatchObject({ code });
  });

  test('gets no line if the KMS opens another key', async () => {
    const kms = await startKms();
    kms.spoil = () => randomBytes(32);
    await expect(keyringAt(kms.socket).wrap(key)).rejects.toMatchObject({ code: 'master_key_wrong' });
  });

  test('is overwritten where it was exported to', async () => {
    const exported = vi.spyOn(key, 'export');
    onTestFinished(() => exported.mockRestore());
    await keyringAt((await startKms()).socket).wrap(key);
    expect(exported.mock.results.map(({ value }) => value as Buffer)).toEqual([Buffer.alloc(32)]);
  });

  test('leaves no copies in the memory that Node uses again', async () => {
    const kms = await startKms();
    const refused = randomBytes(33);
    const child = spawn(process.execPath, [program, kms.socket], { stdio: ['pipe', 'pipe', 'inherit'] });
    const ended = new Promise((resolve) => void child.once('close', resolve));
    onTestFinished(async () => {
      child.kill('SIGKILL');
      await ended;
    });
    await once(child.stdout, 'data');
    kms.spoil = () => refused;
    child.stdin.write('unwrap\n');
    await once(child.stdout, 'data');
    expect(kms.calls).toHaveLength(150);
    const found = occurrences(child.pid ?? 0, { wrapped: kms.plaintext, refused });
    // This is not 0, because the key itself is in use.
    expect(found['wrapped']).toBeGreaterThan(0);
    expect(Math.max(...Object.values(found))).toBeLessThan(25);
  });

  test.each([
    ['kms_refused', [3, 5, 7, 9, 12, 16]],
    ['kms_unavailable', [1, 2, 4, 6, 8, 10, 11, 13, 14, 15]],
  ])('is %s by the gRPC statuses %j', async (code, statuses) => {
    const kms = await startKms();
    const wrapped = parsed(await keyringAt(kms.socket).wrap(key));
    for (const status of statuses) {
      kms.failure = status;
      // The error does not repeat the KMS's message, which may contain the key.
      const messageOf = (method: string): string =>
        `${method} of the KMS at ${kms.socket} failed: see its log (gRPC ${status})`;
      const keyring = keyringAt(kms.socket);
      await expect(keyring.wrap(key)).rejects.toMatchObject({ code, message: messageOf('Encrypt') });
      await expect(keyring.unwrap(wrapped)).rejects.toMatchObject({ code, message: messageOf('Decrypt') });
    }
  });
});

describe('a line is refused', () => {
  const content = {
    key_id: 'k',
    ciphertext: 'YQ==',
    annotations: {},
    kcv: '0123456789',
    created_at: '2026-11-01T00:00:00Z',
  };
  const lineOf = (members: unknown): string => `kms:v1:${Buffer.from(JSON.stringify(members)).toString('base64url')}`;

  test('unless it is whole', () => {
    expect(parseMasterKeys(lineOf(content))).toMatchObject([{ kcv: '0123456789', wrapped: { key_id: 'k' } }]);
    expect(parseMasterKeys(`${lineOf(content)}\n${lineOf(content)}`)).toHaveLength(2);
  });

  test.each([
    ['nothing in it', 'kms:v1:'],
    ['base64 with padding', `${lineOf(content)}=`],
    ['another version', lineOf(content).replace('v1', 'v2')],
    ['a list', lineOf([])],
    ['a further member', lineOf({ ...content, more: 1 })],
    ['a missing member', lineOf({ ...content, kcv: undefined })],
    ['a KCV in capitals', lineOf({ ...content, kcv: '012345678A' })],
    ['a ciphertext that is not base64', lineOf({ ...content, ciphertext: '!' })],
    ['an annotation that is not base64', lineOf({ ...content, annotations: { a: '!' } })],
  ])('with %s', (_, line) => {
    expect(parseMasterKeys(line)).toBeUndefined();
  });
});

describe('a server that is not a KMS is reported as kms_unavailable:', () => {
  /** Makes a server listen on a Unix socket until the test is over. Returns the path of the socket. */
  async function listening(server: Pick<Server, 'listen' | 'close'>): Promise<string> {
    const socket = join(new Folder({}).path, 'kms.sock');
    await new Promise<void>((resolve) => void server.listen(socket, resolve));
    onTestFinished(() => void server.close());
    return socket;
  }

  const respond = (body: Buffer, trailers?: Record<string, string>) => (stream: ServerHttp2Stream) => {
    stream.on('error', () => {});
    stream.respond({ ':status': 200, 'content-type': 'application/grpc' }, { waitForTrailers: trailers !== undefined });
    stream.on('wantTrailers', () => stream.sendTrailers(trailers ?? {}));
    stream.end(body);
  };
  const framed = (length: number, body = Buffer.alloc(length)): Buffer => {
    const prefix = Buffer.alloc(5);
    prefix.writeUInt32BE(length, 1);
    return Buffer.concat([prefix, body]);
  };
  const http2 = (handle: (stream: ServerHttp2Stream) => void) => () => createHttp2().on('stream', handle);
  const ok = { 'grpc-status': '0' };

  test.each([
    ['HTTP/1', () => createHttp1((_req, res) => void res.end('{}')), /\(gRPC 14\)$/],
    ['a socket that closes at once', () => createServer((socket) => void socket.destroy()), /\(gRPC 14\)$/],
    ['a socket that hangs', () => createServer(() => {}), /no response within 300 ms \(gRPC 4\)$/],
    ['HTTP/2 that hangs', http2(() => {}), /no response within 300 ms \(gRPC 4\)$/],
    ['an HTTP error', http2((stream) => stream.respond({ ':status': 503 }, { endStream: true })), /HTTP status 503/],
    ['a response without a status', http2(respond(framed(0))), /was cut off \(HTTP status 200\)/],
    ['a stream that is reset', http2((stream) => stream.on('error', () => {}).close(2)), /\(gRPC 14\)$/],
    ['a connection that is cut', http2((stream) => stream.session?.destroy()), /\(gRPC 14\)$/],
    ['1 MiB', http2(respond(framed(1_048_576), ok)), /more than 131072 bytes/],
    ['a message that is cut', http2(respond(framed(10, Buffer.alloc(9)), ok)), /not one uncompressed message/],
    ['a compressed message', http2(respond(Buffer.from([1, 0, 0, 0, 0]), ok)), /not one uncompressed message/],
    ['two messages', http2(respond(Buffer.concat([framed(0), framed(0)]), ok)), /not one uncompressed message/],
    ['a message that is none', http2(respond(framed(2, Buffer.from([0x0a, 9])), ok)), /is malformed/],
    ['a number without an end', http2(respond(framed(12, Buffer.alloc(12, 0xff)), ok)), /is malformed/],
  ])('%s', async (_, server, message) => {
    const socket = await listening(server());
    const keyring = keyringAt(socket, 300);
    for (const call of [keyring.wrap(key), keyring.status()]) {
      await expect(call).rejects.toMatchObject({
        code: 'kms_unavailable',
        message: expect.stringMatching(message) as string,
      });
    }
  });

  test('nothing', async () => {
    const socket = join(new Folder({}).path, 'kms.sock');
    await expect(keyringAt(socket).status()).rejects.toMatchObject({
      code: 'kms_unavailable',
      message: `Status of the KMS at ${socket} failed: ENOENT (gRPC 14)`,
    });
  });
});

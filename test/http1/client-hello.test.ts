import { execFileSync, spawn } from 'node:child_process';
import { once } from 'node:events';
import { createServer as createTcp, connect as connectTcp, type AddressInfo, type Socket } from 'node:net';
import { connect, createServer, type ConnectionOptions } from 'node:tls';
import { expect, onTestFinished, test } from 'vitest';
import { checkHello, maxHelloSize } from '../../src/http1/client-hello.ts';
import { secureContext } from '../../src/tls.ts';
import { createAuthority } from '../support/certificates.ts';
import { helloOf, helloWith, keyShares, offersTls13, record, recordHello, vector } from '../support/hello.ts';

/** The random of a server that asks for a second first message (RFC 8446 §4.1.3). */
const retryRandom = 'cf21ad74e59a6111be1d8c021e65b891c2a211167abb8c5e079e09e2c8a8339c';

/** Connects a client to a server with the listeners' TLS settings. Returns the client's first bytes and the server's. */
async function exchangeFirst(options: ConnectionOptions): Promise<{ readonly hello: Buffer; readonly answer: Buffer }> {
  const server = createServer(secureContext({ ...createAuthority().issue('DNS:localhost'), clientCa: undefined }));
  server.on('tlsClientError', () => {}).listen(0, '127.0.0.1');
  await once(server, 'listening');
  const relay = createTcp().listen(0, '127.0.0.1');
  await once(relay, 'listening');
  onTestFinished(() => void (server.close(), relay.close()));
  const accepted = once(relay, 'connection') as Promise<[Socket]>;
  const { port } = relay.address() as AddressInfo;
  const client = connect({ port, host: '127.0.0.1', rejectUnauthorized: false, ...options }).on('error', () => {});
  const [socket] = await accepted;
  const [hello] = (await once(socket, 'data')) as [Buffer];
  const upstream = connectTcp((server.address() as AddressInfo).port, '127.0.0.1');
  onTestFinished(() => void (client.destroy(), socket.destroy(), upstream.destroy()));
  upstream.write(hello);
  const [answer] = (await once(upstream, 'data')) as [Buffer];
  return { hello, answer };
}

const tls12 = { maxVersion: 'TLSv1.2' } as const;

test.each<[ConnectionOptions, string]>([
  [{}, 'accepted'],
  [tls12, 'accepted'],
  [{ minVersion: 'TLSv1.3' }, 'accepted'],
  [{ ecdhCurve: 'X25519MLKEM768' }, 'accepted'],
  [{ ecdhCurve: 'X25519' }, 'accepted'],
  [{ ecdhCurve: 'P-256' }, 'accepted'],
  // A client sends shares for its first group or for groups that are marked with an asterisk.
  [{ ecdhCurve: 'P-256:X25519:X25519MLKEM768' }, 'accepted'],
  [{ ecdhCurve: 'X25519:X25519MLKEM768:P-256' }, 'accepted'],
  [{ ecdhCurve: 'P-384:*P-256' }, 'accepted'],
  [{ ecdhCurve: '*P-384:*X25519:P-256' }, 'accepted'],
  [{ ecdhCurve: 'P-384:P-256', ...tls12 }, 'accepted'],
  [{ ecdhCurve: 'P-384:P-256' }, 'unsupported'],
  [{ ecdhCurve: 'X448:X25519MLKEM768:X25519' }, 'unsupported'],
])('OpenSSL asks for a second first message exactly if a client is refused: %j, %s', async (options, verdict) => {
  const { hello, answer } = await exchangeFirst(options);
  expect(checkHello(hello)).toBe(verdict);
  expect(answer.toString('hex').includes(retryRandom)).toBe(verdict === 'unsupported');
});

test.each([
  ['that has no group in common', { ecdhCurve: 'P-521' }],
  ['that offers no group at all', { ecdhCurve: 'ffdhe2048' }],
])('a client %s is refused', async (_, options) => {
  expect(checkHello(await recordHello(options))).toBe('unsupported');
});

test('the first message of other clients is accepted', async () => {
  const server = createTcp().listen(0, '127.0.0.1');
  await once(server, 'listening');
  onTestFinished(() => void server.close());
  const { port } = server.address() as AddressInfo;
  for (const [command, args] of [
    ['openssl', ['s_client', '-connect', `127.0.0.1:${port}`]],
    ['curl', ['--silent', '--insecure', `https://127.0.0.1:${port}/`]],
  ] as const) {
    const accepted = once(server, 'connection') as Promise<[Socket]>;
    const client = spawn(command, args, { stdio: 'ignore' });
    const [socket] = await accepted;
    const [hello] = (await once(socket, 'data')) as [Buffer];
    socket.destroy();
    await once(client, 'exit');
    expect(checkHello(hello)).toBe('accepted');
  }
  expect(execFileSync('openssl', ['version'], { encoding: 'utf8' })).toContain('OpenSSL');
});

test('a message may have 8,192 bytes', () => {
  expect(helloOf(maxHelloSize)).toHaveLength(5 + 8_192);
  expect(checkHello(helloOf(maxHelloSize))).toBe('accepted');
  expect(checkHello(helloOf(maxHelloSize + 1))).toBe('other');
  // It is refused before it has arrived.
  expect(checkHello(helloOf(maxHelloSize + 1).subarray(0, 5))).toBe('other');
});

test('a message is incomplete until its last byte has arrived', async () => {
  const hello = await recordHello();
  for (let length = 0; length < hello.length; length += 1)
    expect(checkHello(hello.subarray(0, length))).toBe('incomplete');
  expect(checkHello(hello)).toBe('accepted');
  expect(checkHello(Buffer.concat([hello, Buffer.alloc(60_000)]))).toBe('accepted');
});

const valid = helloWith(offersTls13, keyShares(29));
const message = valid.subarray(5);

/** The valid message with a length of two bytes that is too large. */
function altered(offset: number): Buffer {
  const bytes = Buffer.from(valid);
  bytes.writeUInt16BE(200, offset);
  return bytes;
}

test.each<[string, Buffer, string]>([
  ['plain HTTP', Buffer.from('GET / HTTP/1.1\r\n\r\n'), 'not_tls'],
  ['a record of another type', record(message, 23), 'not_tls'],
  ['a record of another major version', Buffer.from(valid).fill(2, 1, 2), 'not_tls'],
  ['a message of another type', record(Buffer.concat([Buffer.of(16), message.subarray(1)])), 'not_tls'],
  ['a record that is too short for a message', record(message.subarray(0, 3)), 'other'],
  ['a message that goes on in the next record', record(message.subarray(0, 60)), 'other'],
  ['a record with more than the message', record(Buffer.concat([message, Buffer.of(1)])), 'other'],
  ['a message without its lists', record(Buffer.concat([Buffer.of(1), vector(3, message.subarray(4, 38))])), 'other'],
  [
    'a message that ends within its lists',
    record(Buffer.concat([Buffer.of(1), vector(3, message.subarray(4, 60))])),
    'other',
  ],
  ['extensions that end too early', altered(5 + 77), 'other'],
  ['an extension that is longer than all of them', altered(5 + 79 + 2), 'other'],
  ['no extensions', record(Buffer.concat([Buffer.of(1), vector(3, message.subarray(4, 38 + 33 + 4 + 2))])), 'accepted'],
  ['TLS 1.2 without key shares', helloWith([43, vector(1, Buffer.of(3, 3))]), 'accepted'],
  ['TLS 1.3 without key shares', helloWith(offersTls13), 'unsupported'],
  [
    'TLS 1.3 in a list of several versions, without key shares',
    helloWith([43, vector(1, Buffer.of(3, 3, 3, 4))]),
    'unsupported',
  ],
  ['versions that end too early', helloWith([43, Buffer.of(9, 3, 4)]), 'unsupported'],
  ['an empty list of key shares', helloWith(offersTls13, keyShares()), 'unsupported'],
  [
    'a key share that ends too early',
    helloWith(offersTls13, [51, vector(2, Buffer.of(0, 24, 0, 9, 1))]),
    'unsupported',
  ],
  ['key shares in other groups only', helloWith(offersTls13, keyShares(24, 25, 30)), 'unsupported'],
  ['a key share in an accepted group behind others', helloWith(offersTls13, keyShares(24, 25, 30, 23)), 'accepted'],
])('%s: %s', (_, bytes, verdict) => {
  expect(checkHello(bytes)).toBe(verdict);
});

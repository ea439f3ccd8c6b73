import { execFileSync, spawn } from 'node:child_process';
import { once } from 'node:events';
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { connect as connectTcp, type Socket } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { Duplex } from 'node:stream';
import { setTimeout } from 'node:timers/promises';
import { connect, type TLSSocket } from 'node:tls';
import { Registry } from 'prom-client';
import { afterEach, describe, expect, onTestFinished, test, vi } from 'vitest';
import { HandshakeFailures } from '../../src/telemetry/handshakes.ts';
import { createLogger } from '../../src/telemetry/logger.ts';
import type { HandshakeFault } from '../../src/tls.ts';
import { createAuthority, type Certificate } from '../support/certificates.ts';
import { helloOf, helloWith, keyShares, offersTls13, record } from '../support/hello.ts';
import { maxHelloSize } from '../../src/http1/client-hello.ts';
import { startGateway } from '../support/gateway.ts';
import { admin, operatorsOf, type TestSidecar } from '../support/sidecar.ts';
import { untilSample } from '../telemetry/samples.ts';

const authority = createAuthority();
const stranger = createAuthority();
const own = authority.issue('IP:127.0.0.1');
const client = authority.issue('DNS:client');
const tls = { ...own, clientCa: authority.cert };
const token = admin('otto', 'o'.repeat(40));

type Detail = 'none' | 'truncated' | 'full';

/** A sidecar whose two listeners require client certificates. */
async function startWithTls(detail: Detail = 'truncated', header = 300): Promise<TestSidecar> {
  const { sidecar } = await startGateway({
    listen: { host: '127.0.0.1', port: 0, tls },
    operators: operatorsOf([token], { tls }),
    log: { level: 'info', client: detail },
    timeouts: { header },
  });
  return sidecar;
}

const listeners = ['merchants', 'operators'] as const;
type ListenerName = (typeof listeners)[number];

function portOf({ app }: TestSidecar, listener: ListenerName): number {
  return app.addresses[listener]?.port ?? 0;
}

/** Attempts a handshake, and resolves when the connection closes. */
async function shake(port: number, options: object): Promise<void> {
  const socket = connect({ port, host: '127.0.0.1', ca: authority.cert, ...options });
  onTestFinished(() => void socket.destroy());
  socket.on('error', () => {});
  // With TLS 1.3, the refusal of a certificate arrives only after the client's part of the handshake, so keep reading.
  socket.resume();
  await new Promise((resolve) => void socket.once('close', resolve));
}

async function openTcp(port: number): Promise<Socket> {
  const socket = connectTcp(port, '127.0.0.1');
  onTestFinished(() => void socket.destroy());
  socket.on('error', () => {});
  await once(socket, 'connect');
  return socket;
}

/** The first bytes of a record that carries a ClientHello. */
const incompleteHello = Buffer.from('160301', 'hex');

/** Sends the first message of a handshake, and nothing more. Resolves when the response arrives. */
async function stall(port: number): Promise<Socket> {
  const socket = await openTcp(port);
  const onlyFirst = new Duplex({
    read: () => {},
    write: (hello: Buffer, _encoding, callback) => {
      if (socket.bytesWritten === 0) socket.write(hello);
      callback();
    },
  });
  connect({ socket: onlyFirst, rejectUnauthorized: false }).on('error', () => {});
  await once(socket, 'data');
  return socket;
}

function folderWith(files: Readonly<Record<string, string>>): string {
  const folder = mkdtempSync(join(tmpdir(), 'handshakes-'));
  onTestFinished(() => rmSync(folder, { recursive: true }));
  for (const [name, text] of Object.entries(files)) writeFileSync(join(folder, name), text);
  return folder;
}

/** An expired certificate from the authority. */
function expiredCertificate(): Certificate {
  const folder = folderWith({ 'ca.pem': authority.cert, 'ca.key': authority.key });
  const openssl = (...args: string[]): string =>
    execFileSync('openssl', args, { cwd: folder, encoding: 'utf8', stdio: 'pipe' });
  openssl('req', '-newkey', 'rsa:2048', '-nodes', '-keyout', 'key.pem', '-out', 'request.pem', '-subj', '/CN=late');
  const signing = ['-CA', 'ca.pem', '-CAkey', 'ca.key', '-CAcreateserial', '-days', '-1'];
  return { cert: openssl('x509', '-req', '-in', 'request.pem', ...signing), key: openssl('pkey', '-in', 'key.pem') };
}

/** Faulty clients, each with a description, the fault that is counted, and a function that acts as this client. */
const failures: readonly (readonly [string, HandshakeFault, (port: number) => Promise<void>])[] = [
  ['shows no certificate', 'certificate_missing', (port) => shake(port, {})],
  ['shows none on TLS 1.2', 'certificate_missing', (port) => shake(port, { maxVersion: 'TLSv1.2' })],
  ['shows one of another CA', 'certificate_untrusted', (port) => shake(port, stranger.issue('DNS:client'))],
  [
    'shows one of another CA on TLS 1.2',
    'certificate_untrusted',
    (port) => shake(port, { ...stranger.issue('DNS:client'), maxVersion: 'TLSv1.2' }),
  ],
  ['shows one that has expired', 'certificate_expired', (port) => shake(port, expiredCertificate())],
  [
    'does not trust the certificate of the listener',
    'refused_by_client',
    async (port) => {
      const folder = folderWith({ 'ca.pem': stranger.cert });
      const args = ['s_client', '-connect', `127.0.0.1:${port}`, '-verify_return_error', '-CAfile', 'ca.pem'];
      await once(spawn('openssl', args, { cwd: folder, stdio: 'ignore' }), 'exit');
    },
  ],
  [
    'speaks only TLS 1.1',
    'unsupported',
    (port) => shake(port, { ...client, minVersion: 'TLSv1', maxVersion: 'TLSv1.1', ciphers: 'DEFAULT@SECLEVEL=0' }),
  ],
  [
    'sends plain HTTP',
    'not_tls',
    async (port) => void (await openTcp(port)).write('GET / HTTP/1.1\r\nHost: a\r\n\r\n'),
  ],
  ['stops within its first message', 'timeout', async (port) => void (await openTcp(port)).write(incompleteHello)],
  [
    'sends a first message that is too long',
    'other',
    async (port) => void (await openTcp(port)).write(helloOf(maxHelloSize + 1)),
  ],
  [
    'sends the rest of its first message in another record',
    'other',
    async (port) => {
      const message = helloWith(offersTls13, keyShares(29)).subarray(5);
      (await openTcp(port)).write(Buffer.concat([record(message.subarray(0, 60)), record(message.subarray(60))]));
    },
  ],
  [
    'has no key share in a group that the listener accepts',
    'unsupported',
    (port) => shake(port, { ...client, ecdhCurve: 'P-384:P-256' }),
  ],
  [
    'resets the connection within its first message',
    'client_left',
    async (port) => {
      const socket = await openTcp(port);
      socket.write(incompleteHello);
      await setTimeout(100);
      socket.resetAndDestroy();
    },
  ],
];

describe.each(listeners)('at the listener of %s', (listener) => {
  test.each(failures)('a client that %s is counted as %s, and logged', { timeout: 20_000 }, async (_, reason, fail) => {
    const sidecar = await startWithTls();
    await fail(portOf(sidecar, listener));
    await untilSample(
      sidecar,
      `envelope_sidecar_tls_handshake_failures_total{listener="${listener}",reason="${reason}"}`,
      1,
    );
    const address = listener === 'merchants' ? '127.0.0.0/24' : '127.0.0.1';
    expect(sidecar.log.filter(({ msg }) => msg === 'TLS handshakes failed')).toEqual([
      { level: 'warn', time: expect.any(String), msg: 'TLS handshakes failed', listener, reason, failures: 1, address },
    ]);
  });

  test('a good handshake, and a connection that sends nothing, are not counted', async () => {
    const sidecar = await startWithTls();
    const port = portOf(sidecar, listener);
    (await openTcp(port)).end();
    (await openTcp(port)).resetAndDestroy();
    const socket = connect({ port, host: '127.0.0.1', ca: authority.cert, ...client });
    onTestFinished(() => void socket.destroy());
    await once(socket, 'secureConnect');
    socket.write('GET / HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n');
    await once(socket, 'data');
    socket.destroy();
    // Wait longer than a handshake may take.
    await setTimeout(800);
    expect(sidecar.log.filter(({ msg }) => msg === 'TLS handshakes failed')).toEqual([]);
  });
});

test.each([
  ['none', undefined],
  ['full', '127.0.0.1'],
] as const)('a merchant’s failure is logged with the address that log.client: %s allows', async (detail, address) => {
  const sidecar = await startWithTls(detail);
  await shake(portOf(sidecar, 'merchants'), {});
  const lines = () => sidecar.log.filter(({ msg }) => msg === 'TLS handshakes failed');
  await vi.waitFor(() => expect(lines()).toHaveLength(1));
  expect(lines()[0]?.['address']).toBe(address);
});

describe('the log has', () => {
  afterEach(() => void vi.useRealTimers());

  test('a line for the first failure of a reason, then one a minute with the number of the others', () => {
    vi.useFakeTimers();
    const lines: object[] = [];
    const write = (line: string): void => void lines.push(JSON.parse(line) as object);
    const failed = new HandshakeFailures(new Registry(), createLogger('info', { write })).of('merchants');
    failed('not_tls', '10.0.0.1');
    expect(lines).toMatchObject([{ reason: 'not_tls', failures: 1, address: '10.0.0.1' }]);
    for (let i = 2; i <= 100; i += 1) failed('not_tls', `10.0.0.${i}`);
    failed('timeout', '10.0.0.7');
    expect(lines.slice(1)).toMatchObject([{ reason: 'timeout', failures: 1 }]);
    vi.advanceTimersByTime(60_000);
    expect(lines.slice(2)).toMatchObject([{ reason: 'not_tls', failures: 99, address: '10.0.0.100' }]);
    vi.advanceTimersByTime(600_000);
    expect(lines).toHaveLength(3);
    failed('not_tls', '10.0.0.9');
    expect(lines.slice(3)).toMatchObject([{ reason: 'not_tls', failures: 1, address: '10.0.0.9' }]);
  });
});

test.each(listeners)(
  'an unknown client of %s waits while another does not complete its handshake, but not for long; a known one does not wait',
  async (listener) => {
    const port = portOf(await startWithTls('none', 30_000), listener);
    const open = (localAddress: string): TLSSocket => {
      const socket = connectTcp({ port, host: '127.0.0.1', localAddress });
      const secured = connect({ socket, host: '127.0.0.1', ca: authority.cert, ...client });
      onTestFinished(() => void secured.destroy());
      return secured;
    };
    await once(open('127.0.0.2'), 'secureConnect');
    const stalled = await stall(port);
    const unknown = open('127.0.0.1');
    let isSecure = false;
    unknown.once('secureConnect', () => (isSecure = true));
    await once(open('127.0.0.2'), 'secureConnect');
    await setTimeout(300);
    expect(isSecure).toBe(false);
    expect(stalled.closed).toBe(false);
    await vi.waitFor(() => expect(isSecure).toBe(true), 10_000);
    expect(stalled.closed).toBe(true);
  },
);

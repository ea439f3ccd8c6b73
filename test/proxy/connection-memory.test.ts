import { readFileSync } from 'node:fs';
import { connect } from 'node:net';
import { duplexPair } from 'node:stream';
import { connect as connectTls, type TLSSocket } from 'node:tls';
import { expect, onTestFinished, test } from 'vitest';
import { residentMemory } from '../../bench/cpu-time.ts';
import { createAuthority } from '../support/certificates.ts';
import { startServe } from '../support/command.ts';
import { maxHelloSize } from '../../src/http1/client-hello.ts';
import { helloOf } from '../support/hello.ts';
import { eventually } from '../support/eventually.ts';
import { accountsFile, Folder, sidecarFile } from '../support/folder.ts';

const kib = 1_024;
const first = 200;
const count = 800;
const header = 16 * kib;

/** The beginning of a request to which the sidecar itself responds. The end of its head is sent separately. */
const head = 'GET / HTTP/1.1\r\nHost: localhost\r\nX-Long: ';

type Kinds = Readonly<Record<string, (port: number) => Promise<unknown>>>;

/** A TLS connection whose last byte can be withheld. */
interface Client {
  readonly tls: TLSSocket;
  /** From this call on, the last byte is held back until another one follows it. */
  withholdLastByte: () => void;
}

async function open(port: number): Promise<Client> {
  const socket = connect(port, '127.0.0.1').on('error', () => {});
  onTestFinished(() => void socket.destroy());
  const [own, other] = duplexPair();
  let withheld = 0;
  let last = Buffer.alloc(0);
  other.on('data', (bytes: Buffer) => {
    const all = Buffer.concat([last, bytes]);
    last = all.subarray(all.length - withheld);
    socket.write(all.subarray(0, all.length - withheld));
  });
  socket.on('data', (bytes: Buffer) => void other.write(bytes));
  const tls = connectTls({ socket: own, rejectUnauthorized: false }).on('error', () => {});
  await new Promise((resolve) => void tls.once('secureConnect', resolve));
  return { tls, withholdLastByte: () => (withheld = 1) };
}

async function used(port: number): Promise<Client> {
  const client = await open(port);
  const response = new Promise((resolve) => void client.tls.once('data', resolve));
  client.tls.write(`${head}x\r\n\r\n`);
  await response;
  return client;
}

/** Kinds of connections that a client of a TLS listener may leave open. */
const securedKinds: Kinds = {
  'no request': (port) => used(port),
  'incomplete head': async (port) => void (await used(port)).tls.write(head.padEnd(header - 4, 'x')),
  'incomplete record': async (port) => {
    const { tls, withholdLastByte } = await used(port);
    withholdLastByte();
    tls.write(head.padEnd(header - 4, 'x'));
  },
  'incomplete handshake': async (port) => {
    const socket = connect(port, '127.0.0.1').on('error', () => {});
    onTestFinished(() => void socket.destroy());
    await new Promise((resolve) => void socket.once('connect', resolve));
    // A first message of the maximum size, without its last byte.
    socket.write(helloOf(maxHelloSize).subarray(0, -1));
  },
};

const plain = 'GET / HTTP/1.1\r\nHost: localhost\r\n';
const cipherTest = 'POST /api/s2s/aes-encrypt HTTP/1.1\r\nHost: localhost\r\nContent-Length: 10\r\n';

/** A head of almost the maximum length: `beginning`, followed by as many fields as are allowed. */
function filled(beginning: string, field: (i: number) => string): string {
  let text = beginning;
  for (let i = 0; i < 90 && text.length + field(i).length < header - 4; i += 1) text += field(i);
  return `${text}\r\n`;
}

/** Opens a connection, gets the response to `refused`, and then sends `waiting`, whose body a test endpoint waits for. */
async function wait(port: number, refused: string, waiting: string): Promise<void> {
  const socket = connect(port, '127.0.0.1').on('error', () => {});
  onTestFinished(() => void socket.destroy());
  const response = new Promise((resolve) => void socket.once('data', resolve));
  socket.write(refused, 'latin1');
  await response;
  socket.write(`${waiting}{`, 'latin1');
}

const credentials = `key: ${'k'.repeat(32)}\r\niv: ${'i'.repeat(16)}`;

/** Kinds of plain connections that a client without a key may leave open. */
const plainKinds: Kinds = {
  'a long malformed key, and an IV that takes two bytes a character': (port) => {
    const long = 'c'.repeat(header - cipherTest.length - credentials.length - 20);
    return wait(
      port,
      `${plain}Authorization: Bearer ${'!'.repeat(header - plain.length - 40)}\r\n\r\n`,
      `${cipherTest}${credentials}\xe2\x82\xac${long}\r\n\r\n`,
    );
  },
  'a key behind spaces, and many fields': (port) =>
    wait(
      port,
      `${plain}Authorization: Bearer ${' '.repeat(header - plain.length - 80)}sk_test_${'x'.repeat(20)}\r\n\r\n`,
      filled(`${cipherTest}${credentials}\r\n`, (i) => `X-${i}: ${'b'.repeat(160)}\r\n`),
    ),
};

const guide = readFileSync('docs/operators/capacity.md', 'utf8');
const [, bound = '', securedBound = ''] =
  /connections × \((\d+) KiB \+ `header`\), or with TLS connections × \((\d+) KiB \+ `header`\)/.exec(guide) ?? [];

test.each([
  // The heads on plain connections are also charged to `buffered`, so `header` counts twice. The factor 1.5 leaves room for V8's garbage.
  ...Object.entries(plainKinds).map(
    ([kind, hold]) => [kind, hold, false, 1.5 * (Number(bound) + (2 * header) / kib)] as const,
  ),
  ...Object.entries(securedKinds).map(
    ([kind, hold]) => [kind, hold, true, Number(securedBound) + header / kib] as const,
  ),
])(
  'a connection with this takes no more than docs/operators/capacity.md says: %s',
  { timeout: 120_000 },
  async (_, hold, isSecured, kibibytes) => {
    const { cert, key } = createAuthority().issue('IP:127.0.0.1');
    const tls = isSecured ? { tls: { cert: { file: 'tls.crt' }, key: { file: 'tls.key' } } } : {};
    const folder = new Folder({
      'tls.crt': cert,
      'tls.key': key,
      'accounts.yaml': accountsFile(),
      'sidecar.yaml': sidecarFile('http://127.0.0.1:1', {
        listen: { host: '127.0.0.1', port: 0, ...tls },
        // Clients without a key get an eighth of `buffered`, which has room for the heads of all connections.
        limits: { failedKeys: '1000000/1m', header: '16KiB', buffered: '160MiB' },
        timeouts: { header: '10m', request: '10m', idle: '10m' },
      }),
    });
    // Keep the young generation small, and collect the whole heap with it, so that garbage is not counted.
    const serving = await startServe(folder.file('sidecar.yaml'), {
      nodeOptions: ['--max-semi-space-size=1', '--gc-global'],
    });
    const { pid = 0 } = serving.process;
    const openSome = async (some: number): Promise<void> => {
      for (let i = 0; i < some; i += 20) await Promise.all(Array.from({ length: 20 }, () => hold(serving.port)));
    };
    // The first connections load code and allocate memory that all connections share, so they are not counted.
    await openSome(first);
    const before = residentMemory(pid);
    await openSome(count);
    const metrics = async (): Promise<string> => (await fetch(`${serving.adminUrl}/metrics`)).text();
    const held = `envelope_sidecar_limit_used{limit="connections"} ${first + count}\n`;
    await eventually('all connections are held', async () => (await metrics()).includes(held));
    // Returns KiB per connection, the figure that a failure shows. The scrape makes garbage, so the remains of the requests are collected.
    const each = async (): Promise<number> => {
      await metrics();
      return (residentMemory(pid) - before) / count / kib;
    };
    await expect.poll(each, { timeout: 30_000, interval: 20 }).toBeLessThan(kibibytes);
  },
);

import { readFileSync } from 'node:fs';
import { connect } from 'node:net';
import { duplexPair } from 'node:stream';
import { connect as connectTls, type TLSSocket } from 'node:tls';
import { expect, onTestFinished, test } from 'vitest';
import { createAuthority } from '../support/certificates.ts';
import { startServe } from '../support/command.ts';
import { eventually } from '../support/eventually.ts';
import { accountsFile, Folder, sidecarFile } from '../support/folder.ts';

const kib = 1_024;
const first = 200;
const count = 400;
const header = 16 * kib;

/** A request to which the sidecar responds itself, and the end of its head. */
const head = 'GET / HTTP/1.1\r\nHost: localhost\r\nX-Long: ';

/** A TLS connection whose last byte can be withheld. */
interface Client {
  readonly tls: TLSSocket;
  /** From now on, the last byte is sent only when another one follows. */
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

/** What a client leaves open. */
const kinds: Readonly<Record<string, (port: number) => Promise<unknown>>> = {
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
    // A record of 16 KiB that is announced and not complete.
    socket.write(
      Buffer.concat([Buffer.from([0x16, 0x03, 0x01, 0x40, 0x00, 0x01, 0x00, 0x3f, 0xfc]), Buffer.alloc(16_000, 1)]),
    );
  },
};

function residentMemory(pid: number): number {
  return Number(/^VmRSS:\s+(\d+)/m.exec(readFileSync(`/proc/${pid}/status`, 'utf8'))?.[1]) * kib;
}

const guide = readFileSync('docs/operators/capacity.md', 'utf8');
const [, perConnection = ''] =
  /connections × \(10 KiB \+ `header`\), with TLS × \((\d+) KiB \+ `header`\)/.exec(guide) ?? [];

test.each(Object.keys(kinds))(
  'TLS: a connection with this takes no more than docs/operators/capacity.md says: %s',
  { timeout: 120_000 },
  async (kind) => {
    const { cert, key } = createAuthority().issue('IP:127.0.0.1');
    const folder = new Folder({
      'tls.crt': cert,
      'tls.key': key,
      'accounts.yaml': accountsFile(),
      'sidecar.yaml': sidecarFile('http://127.0.0.1:1', {
        listen: { host: '127.0.0.1', port: 0, tls: { cert: { file: 'tls.crt' }, key: { file: 'tls.key' } } },
        // An eighth is for clients without a key: it has room for the heads of all.
        limits: { failedKeys: '1000000/1m', header: '16KiB', buffered: '96MiB' },
        timeouts: { header: '10m', request: '10m', idle: '10m' },
      }),
    });
    // A small young generation, so that its garbage is not counted.
    const serving = await startServe(folder.file('sidecar.yaml'), { nodeOptions: ['--max-semi-space-size=1'] });
    const hold = kinds[kind];
    const { pid = 0 } = serving.process;
    const openSome = async (some: number): Promise<void> => {
      for (let i = 0; i < some; i += 20)
        await Promise.all(Array.from({ length: 20 }, async () => hold?.(serving.port)));
    };
    // What the first ones load and allocate for all is not theirs.
    await openSome(first);
    const before = residentMemory(pid);
    await openSome(count);
    const metrics = async (): Promise<string> => (await fetch(`${serving.adminUrl}/metrics`)).text();
    const held = `envelope_sidecar_limit_used{limit="connections"} ${first + count}\n`;
    await eventually('all connections are held', async () => (await metrics()).includes(held));
    const each = (residentMemory(pid) - before) / count / kib;
    // In KiB: a failure shows the figure.
    expect(each).toBeLessThan(Number(perConnection) + header / kib);
  },
);

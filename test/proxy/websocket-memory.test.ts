import { once } from 'node:events';
import { readFileSync } from 'node:fs';
import { createServer } from 'node:net';
import { connect, type TLSSocket } from 'node:tls';
import { setTimeout as delay } from 'node:timers/promises';
import { expect, onTestFinished, test } from 'vitest';
import { residentMemory } from '../../bench/cpu-time.ts';
import { createAuthority } from '../support/certificates.ts';
import { startServe } from '../support/command.ts';
import { accountsFile, Folder, globexEntry, sidecarFile } from '../support/folder.ts';
import { listen } from '../support/listen.ts';
import { keys } from '../support/sidecar.ts';

const guide = readFileSync('docs/operators/capacity.md', 'utf8');
const bound = '640 KiB';

/** Starts a core that echoes what it receives after its 101 response, for as long as the other side reads. Returns its port. */
function startEcho(): Promise<number> {
  const server = createServer((socket) => {
    socket
      .on('error', () => {})
      .once('data', () => {
        socket.write('HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\n');
        socket.pipe(socket);
      });
  });
  return listen(server);
}

/** Opens a WebSocket, reads nothing from it, and sends as much as it accepts, as pairs of a short and a long record. */
async function fill(port: number): Promise<void> {
  const tls: TLSSocket = connect({ port, host: '127.0.0.1', rejectUnauthorized: false }).on('error', () => {});
  onTestFinished(() => void tls.destroy());
  const head = ['GET /ws HTTP/1.1', 'Host: localhost', `Authorization: Bearer ${keys.globex}`];
  const upgrade = ['Connection: Upgrade', 'Upgrade: websocket', 'Sec-WebSocket-Version: 13', '', ''];
  tls.write([...head, ...upgrade].join('\r\n'));
  const [first] = (await once(tls, 'data')) as [Buffer];
  if (!String(first).startsWith('HTTP/1.1 101')) throw new Error(String(first));
  tls.pause();
  const goOn = (): void => {
    while (!tls.destroyed) if (!tls.write('x') || !tls.write(Buffer.alloc(16_384, 'y'))) return;
  };
  tls.on('drain', goOn);
  goOn();
}

test('a WebSocket whose two sides do not read takes no more than docs/operators/capacity.md says', async () => {
  const { cert, key } = createAuthority().issue('IP:127.0.0.1');
  const folder = new Folder({
    'tls.crt': cert,
    'tls.key': key,
    'accounts.yaml': accountsFile(globexEntry(keys.globex)),
    'sidecar.yaml': sidecarFile(`http://127.0.0.1:${await startEcho()}`, {
      listen: { host: '127.0.0.1', port: 0, tls: { cert: { file: 'tls.crt' }, key: { file: 'tls.key' } } },
      routes: [{ path: '/ws', upgrade: true }],
    }),
  });
  const serving = await startServe(folder.file('sidecar.yaml'), {
    nodeOptions: ['--max-semi-space-size=1', '--gc-global'],
  });
  const { pid = 0 } = serving.process;
  // The first WebSockets load code and allocate memory that all WebSockets share, so they are not counted.
  for (let i = 0; i < 10; i += 1) await fill(serving.port);
  await delay(1_000);
  const before = residentMemory(pid);
  const count = 60;
  for (let i = 0; i < count; i += 1) await fill(serving.port);
  let after = 0;
  await expect
    .poll(async () => {
      const last = after;
      await delay(500);
      after = residentMemory(pid);
      return Math.abs(after - last) < 500_000 ? (after - before) / count : Infinity;
    })
    // On a busy machine, nothing may have arrived yet, or memory that is no longer used may not have been given back.
    .toSatisfy((each: number) => each > 100_000 && each < Number.parseInt(bound) * 1_024);
  expect(guide).toContain(`A WebSocket that neither side reads takes ${bound} `);
}, 60_000);

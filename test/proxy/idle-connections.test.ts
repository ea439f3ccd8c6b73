import { readdirSync } from 'node:fs';
import { describe, expect, test, vi } from 'vitest';
import { startByteUpstream } from '../support/byte-upstream.ts';
import { envelopeOf, opened, send } from '../support/client.ts';
import { startServe, type Serving } from '../support/command.ts';
import { openConnection, parseResponses, type Connection } from '../support/connection.ts';
import { accountsFile, acmeEntry, Folder, globexEntry, sidecarFile } from '../support/folder.ts';
import { startGateway } from '../support/gateway.ts';
import { inFlight } from '../support/metrics.ts';
import { acmeTest, configOf, keys, startSidecar } from '../support/sidecar.ts';
import { startUpstream } from '../support/upstream.ts';

/** The number of connections of each kind. `IDLE_CONNECTIONS=3334` keeps ten thousand open, if the limit on open files permits. */
const ofEach = Number(process.env['IDLE_CONNECTIONS'] ?? 80);

const head = `GET /notes HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer ${keys.globex}\r\n`;

/** Kinds of idle connections, and the statuses of all responses on them until they are closed. */
const kinds: readonly {
  readonly begin: (client: Connection) => unknown;
  readonly statuses: string;
}[] = [
  // The client sends nothing.
  { begin: () => {}, statuses: '408' },
  // The client is in the middle of a head.
  { begin: (client) => client.send(head), statuses: '408' },
  // The client is between two requests.
  { begin: (client) => client.send(`${head}\r\n`).untilText('{"ok":true}'), statuses: '200 200' },
  // The client has ended its side, before a request or in a head.
  { begin: (client) => client.socket.end(), statuses: '' },
  { begin: (client) => client.send(head).socket.end(), statuses: '' },
];

/** The number of files and connections that a process has open. */
function openFiles({ process: { pid } }: Serving): number {
  return readdirSync(`/proc/${pid}/fd`).length;
}

describe('idle connections', () => {
  test('do not delay other requests, and are closed at their timeout', { timeout: 180_000 }, async () => {
    const upstream = await startUpstream();
    const config = (header: string, idle: string): Record<string, unknown> => ({
      'sidecar.yaml': sidecarFile(upstream.origin, {
        // There are fewer slots than connections, because idle connections take none.
        limits: { inFlight: 8 },
        timeouts: { header, idle },
      }),
    });
    // The timeouts are long at first, so that all connections are open at the same time.
    const folder = new Folder({
      ...config('10m', '10m'),
      'accounts.yaml': accountsFile(globexEntry(keys.globex), acmeEntry),
    });
    const sidecar = await startServe(folder.file('sidecar.yaml'));
    const filesBefore = openFiles(sidecar);

    const clients: Connection[] = [];
    for (const { begin } of kinds) {
      for (let i = 0; i < ofEach; i += 1) {
        const client = await openConnection(sidecar.port);
        await begin(client);
        clients.push(client);
      }
    }
    // The sidecar has already closed the half-closed connections.
    await vi.waitFor(() => expect(clients.filter(({ ending }) => ending === 'open')).toHaveLength(3 * ofEach), 30_000);
    expect(openFiles(sidecar)).toBeGreaterThan(3 * ofEach);
    expect(await inFlight(sidecar)).toBe(0);

    const sealed = await send(sidecar, 'POST /api/s2s/charge', {
      key: keys.acme,
      body: envelopeOf(acmeTest, '{"amount":1000}'),
    });
    expect(opened(acmeTest, sealed)).toBe('{"ok":true}');
    const betweenRequests = clients.slice(2 * ofEach, 3 * ofEach);
    for (const client of betweenRequests) await client.send(`${head}\r\n`).untilText('{"ok":true}', 2);

    folder.replace(config('200ms', '200ms'));
    await sidecar.untilEntries('configuration reloaded');
    await Promise.all(clients.map((client) => client.untilEnded()));
    expect(await inFlight(sidecar)).toBe(0);
    // A few connections stay open: those to the upstream, and those that read the metrics.
    await vi.waitFor(() => expect(openFiles(sidecar)).toBeLessThan(filesBefore + 16), 30_000);
    const statuses = clients.map(({ received }) => parseResponses(received).map(({ status }) => status));
    expect(statuses.map((each) => each.join(' '))).toEqual(
      kinds.flatMap((kind) => Array<string>(ofEach).fill(kind.statuses)),
    );
  });
});

const disconnect = {
  'closes its connection': (client: Connection) => void client.socket.destroy(),
  'resets its connection': (client: Connection) => void client.socket.resetAndDestroy(),
  'ends its side': (client: Connection) => void client.socket.end(),
};
const cases = Object.entries(disconnect);

describe('a client that', () => {
  test.each(cases)('%s within a head leaves no access line, and the upstream sees nothing', async (_how, go) => {
    const { sidecar, upstream } = await startGateway();
    const client = await openConnection(sidecar.port);
    client.send(head);
    // The response to another request shows that the bytes of the first one have arrived.
    await send(sidecar, 'GET /notes', { key: keys.globex });
    go(client);
    await client.untilEnded();
    await send(sidecar, 'GET /notes', { key: keys.globex });
    expect(await inFlight(sidecar)).toBe(0);
    expect(sidecar.accessLines().map(({ status }) => status)).toEqual([200, 200]);
    expect(upstream.heads()).toBe(2);
  });

  const keyOf = { plain: keys.globex, sealed: keys.acme } as const;
  const cut = cases.flatMap(([how, go]) => (['plain', 'sealed'] as const).map((way) => ({ how, go, way })));

  test.each(cut)('$how without having read its response closes the upstream connection ($way)', async ({ go, way }) => {
    const piece = `10000\r\n${'x'.repeat(65_536)}\r\n`;
    const upstream = await startByteUpstream(({ socket }) => {
      socket.write('HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n');
      const pump = (): void => {
        while (!socket.destroyed && socket.write(piece));
      };
      socket.on('drain', pump);
      pump();
    });
    const sidecar = await startSidecar(configOf(upstream.origin));
    const client = await openConnection(sidecar.port);
    client.socket.pause();
    client.send(`GET /api/s2s/list HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer ${keyOf[way]}\r\n\r\n`);
    // Wait until the upstream cannot write any more, because all buffers on the way to the client are full.
    const [connection] = await vi.waitFor(() => {
      expect(upstream.connections[0]?.socket.writableNeedDrain).toBe(true);
      return upstream.connections;
    });
    let written = -1;
    await vi.waitFor(
      () => {
        const before = written;
        written = connection?.socket.bytesWritten ?? 0;
        expect(written).toBe(before);
      },
      { interval: 200, timeout: 20_000 },
    );
    go(client);
    client.socket.resume();
    await vi.waitFor(() => expect(connection?.closed).toBe(true), 20_000);
    await vi.waitFor(async () => expect(await inFlight(sidecar)).toBe(0));
    expect(sidecar.accessLines()).toMatchObject([{ status: 499 }]);
  });
});

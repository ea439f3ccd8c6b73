import { spawn } from 'node:child_process';
import { expect, onTestFinished, test, vi } from 'vitest';
import { envelopeOf, opened, send } from '../support/client.ts';
import { startServe, type LogEntry, type Serving } from '../support/command.ts';
import { describeUnless } from '../support/describe-unless.ts';
import { accountsFile, acmeEntry, Folder, globexEntry, sidecarFile } from '../support/folder.ts';
import { inFlight } from '../support/metrics.ts';
import { acmeTest, keys } from '../support/sidecar.ts';
import { missingTools } from '../support/tools.ts';
import { startUpstream } from '../support/upstream.ts';

const connections = 60;

/** A body of more than the kernel buffers for a client that does not read. */
const large = Buffer.alloc(16 << 20, 'x');

/**
 * Adds a header with the key after a header's value. The tool has no option for a key, but sends values unchanged, even with line breaks.
 */
function withKey(value: string, key: string): string {
  return `${value}\r\nAuthorization: Bearer ${key}`;
}

/** Starts slowhttptest, which opens its connections within a second and would keep them longer than the test lasts. */
function attack(url: string, ...options: readonly string[]): void {
  const rate = ['-c', String(connections), '-r', String(connections), '-i', '1', '-l', '120'];
  const child = spawn('slowhttptest', [...options, ...rate, '-u', url], { stdio: 'ignore' });
  const ended = new Promise((resolve) => void child.once('close', resolve));
  onTestFinished(async () => {
    child.kill('SIGKILL');
    await ended;
  });
}

async function start(): Promise<Serving> {
  const upstream = await startUpstream((seen, res) => {
    if (seen.url === '/large') res.writeHead(200, { 'Content-Length': large.length }).end(large);
    else res.writeHead(200, { 'Content-Type': 'application/json', 'Content-Length': 11 }).end('{"ok":true}');
  });
  const timeouts = { header: '1s', request: '1s', idle: '1s' };
  const folder = new Folder({
    'sidecar.yaml': sidecarFile(upstream.origin, { timeouts }),
    'accounts.yaml': accountsFile(globexEntry(keys.globex), acmeEntry),
  });
  return startServe(folder.file('sidecar.yaml'));
}

/** Sends ordinary requests, sealed and plain, one after another, until `over` holds; each must get its usual response. */
async function serveOthersUntil(over: () => boolean, sidecar: Serving): Promise<void> {
  const body = envelopeOf(acmeTest, '{"amount":1000}');
  do {
    const plain = await send(sidecar, 'GET /notes', { key: keys.globex });
    expect([plain.status, plain.body]).toEqual([200, '{"ok":true}']);
    const sealed = await send(sidecar, 'POST /api/s2s/charge', { key: keys.acme, body });
    expect(sealed.status).toBe(200);
    expect(opened(acmeTest, sealed)).toBe('{"ok":true}');
  } while (!over());
}

describeUnless(missingTools('slowhttptest'), 'slowhttptest', () => {
  const attacks: readonly {
    readonly name: string;
    readonly path: string;
    readonly options: readonly string[];
    /** Whether a log line reports the end of one of the tool's connections. */
    readonly ends: (line: LogEntry) => boolean;
  }[] = [
    {
      name: 'slow heads',
      path: '/notes',
      options: ['-H'],
      ends: ({ route, status }) => route === 'none' && status === 408,
    },
    {
      name: 'slow bodies with no key',
      path: '/api/s2s/charge',
      options: ['-B'],
      ends: ({ method, status }) => method === 'POST' && status === 401,
    },
    {
      name: 'slow bodies with a key',
      path: '/api/s2s/charge',
      options: ['-B', '-f', withKey('application/json', keys.acme)],
      ends: ({ route, status }) => route === '/api/s2s/*' && status === 408,
    },
    {
      name: 'slow reading with a key',
      path: '/large',
      options: ['-X', '-j', withKey('a=b', keys.globex)],
      // The client received a part of the response. The tool's own probes disconnect, and are logged with 499.
      ends: ({ status, bytes_out: sent }) => status === 200 && Number(sent) > 1_000 && Number(sent) < large.length,
    },
  ];

  test.each(attacks)(
    'with $name is disconnected by the timeouts, and other requests are served as usual',
    { timeout: 120_000 },
    async ({ path, options, ends }) => {
      const sidecar = await start();
      attack(`http://127.0.0.1:${sidecar.port}${path}`, ...options);
      await serveOthersUntil(() => sidecar.entries('request').filter(ends).length >= connections, sidecar);
      await vi.waitFor(async () => expect(await inFlight(sidecar)).toBe(0), { timeout: 30_000 });
    },
  );
});

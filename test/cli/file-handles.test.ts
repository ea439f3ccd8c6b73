import { execFileSync } from 'node:child_process';
import { readdirSync } from 'node:fs';
import { expect, test } from 'vitest';
import { startServe, type ProcessSetup, type Serving } from '../support/command.ts';
import { openConnection, type Connection } from '../support/connection.ts';
import { describeUnless } from '../support/describe-unless.ts';
import { eventually } from '../support/eventually.ts';
import { accountsFile, Folder, globexEntry, type Contents, sidecarFile } from '../support/folder.ts';
import { keys } from '../support/sidecar.ts';
import { missingTools } from '../support/tools.ts';
import { startUpstream } from '../support/upstream.ts';

const addedKey = 'sk_test_globexaddedlaterglobex';

/** How many handles the sidecar may open beyond those that it has open when idle. */
const room = 50;

async function serve(
  setup?: ProcessSetup,
  limits: Contents = {},
): Promise<{ readonly sidecar: Serving; readonly folder: Folder }> {
  const { origin } = await startUpstream(({ url }, res) => {
    // If `/slow` took no time, two concurrent requests could share one connection to the upstream.
    setTimeout(() => res.end('{"ok":true}'), url === '/slow' ? 300 : 0);
  });
  const folder = new Folder({
    'sidecar.yaml': sidecarFile(origin, limits),
    'accounts.yaml': accountsFile(globexEntry(keys.globex)),
  });
  return { sidecar: await startServe(folder.file('sidecar.yaml'), setup), folder };
}

function limitHandles({ process: { pid } }: Serving, handles: number): void {
  execFileSync('prlimit', ['--pid', String(pid), `--nofile=${handles}:`]);
}

const handles = ({ process: { pid } }: Serving): number => readdirSync(`/proc/${pid}/fd`).length;

/** Sends a request on a connection, and returns the complete response. */
async function ask(connection: Connection, path = '/x', key: string = keys.globex): Promise<string> {
  connection.received = '';
  connection.send(`GET ${path} HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer ${key}\r\n\r\n`);
  return connection.until((received) => received.endsWith('}') || received.endsWith('0\r\n\r\n'));
}

/** Opens connections until the sidecar has no handle left and closes one. Returns all connections. */
async function exhaust({ port }: Serving): Promise<Connection[]> {
  const connections: Connection[] = [];
  await eventually('the sidecar closes a connection', async () => {
    for (let i = 0; i < 20; i += 1) connections.push(await openConnection(port));
    await new Promise((resolve) => void setTimeout(resolve, 50));
    return connections.some(({ ending }) => ending !== 'open');
  });
  return connections;
}

describeUnless(missingTools('prlimit'), 'a process without free file handles', () => {
  test('serves open connections, closes new ones, and recovers when some of them are closed', async () => {
    const { sidecar } = await serve();
    const early = await openConnection(sidecar.port);
    expect(await ask(early)).toMatch(/^HTTP\/1\.1 200 /);
    const atRest = handles(sidecar);
    limitHandles(sidecar, atRest + room);
    const crowd = await exhaust(sidecar);
    const taken = crowd.filter(({ ending }) => ending === 'open');
    expect(taken.length).toBeGreaterThan(20);
    expect(taken.length).toBeLessThan(room + 10);
    for (const connection of [early, ...taken.slice(-5)]) expect(await ask(connection)).toMatch(/^HTTP\/1\.1 200 /);

    for (const { socket } of taken) socket.destroy();
    await eventually('handles are free again', () => handles(sidecar) < atRest + room / 2);
    expect(await ask(await openConnection(sidecar.port))).toMatch(/^HTTP\/1\.1 200 /);
    expect(await ask(early)).toMatch(/^HTTP\/1\.1 200 /);
  });

  test('refuses a request if it cannot connect to the upstream, and serves the next one', async () => {
    const { sidecar } = await serve();
    const [one, other] = [await openConnection(sidecar.port), await openConnection(sidecar.port)];
    expect(await ask(one)).toMatch(/^HTTP\/1\.1 200 /);
    const atRest = handles(sidecar);
    limitHandles(sidecar, atRest + room);
    const crowd = await exhaust(sidecar);
    const responses = await Promise.all([ask(one, '/slow'), ask(other, '/slow')]);
    const refused = responses.filter((response) => response.startsWith('HTTP/1.1 502 '));
    expect(refused).toHaveLength(1);
    expect(refused[0]).toContain('"code":"upstream_unavailable"');
    await sidecar.until(() => sidecar.entries('request').some((entry) => entry['upstream_error'] === 'EMFILE'));

    for (const { socket } of crowd) socket.destroy();
    await eventually('handles are free again', () => handles(sidecar) < atRest + room / 2);
    for (const response of await Promise.all([ask(one, '/slow'), ask(other, '/slow')])) {
      expect(response).toMatch(/^HTTP\/1\.1 200 /);
    }
  });

  test('keeps the running configuration on a reload, until enough handles are free', async () => {
    const { sidecar, folder } = await serve();
    const connection = await openConnection(sidecar.port);
    expect(await ask(connection)).toMatch(/^HTTP\/1\.1 200 /);
    const atRest = handles(sidecar);
    limitHandles(sidecar, atRest);
    folder.write({ 'accounts.yaml': accountsFile(globexEntry(keys.globex, addedKey)) });
    const failures = 'configuration is invalid: the current one is kept';
    for (let free = 0; sidecar.entries('configuration reloaded').length === 0; free += 1) {
      expect(free).toBeLessThan(30);
      limitHandles(sidecar, atRest + free);
      const before = sidecar.entries(failures).length;
      sidecar.signal('SIGHUP');
      await sidecar.until(
        () => sidecar.entries(failures).length > before || sidecar.entries('configuration reloaded').length > 0,
      );
      expect(await ask(connection)).toMatch(/^HTTP\/1\.1 200 /);
      if (sidecar.entries('configuration reloaded').length === 0) {
        expect(await ask(connection, '/x', addedKey)).toMatch(/^HTTP\/1\.1 401 /);
      }
    }
    expect(sidecar.entries(failures).length).toBeGreaterThan(2);
    expect(await ask(connection, '/x', addedKey)).toMatch(/^HTTP\/1\.1 200 /);
  });

  test('reads a changed file again until there are enough handles, without another change', async () => {
    const { sidecar, folder } = await serve();
    const atRest = handles(sidecar);
    limitHandles(sidecar, atRest);
    folder.write({ 'accounts.yaml': accountsFile(globexEntry(addedKey)) });
    await sidecar.untilEntries('configuration is invalid: the current one is kept');
    limitHandles(sidecar, atRest + room);
    await sidecar.untilEntries('configuration reloaded');
    expect(await ask(await openConnection(sidecar.port))).toMatch(/^HTTP\/1\.1 401 /);
  });

  test('accepts fewer connections if it may open too few files for `limits.connections`, so that a revocation is in force', async () => {
    const { sidecar, folder } = await serve(
      { openFiles: 464 },
      {
        limits: { connections: 4096, inFlight: 64 },
      },
    );
    const [warning] = await sidecar.untilEntries('configuration');
    expect(warning?.['problem']).toMatch(
      /limits\.connections {2}the process may open only 464 files: at most 80 connections are accepted$/,
    );
    const connections = await Promise.all(Array.from({ length: 120 }, () => openConnection(sidecar.port)));
    await eventually(
      'all but 80 are closed',
      () => connections.filter(({ ending }) => ending === 'open').length === 80,
    );
    folder.write({ 'accounts.yaml': accountsFile(globexEntry(addedKey)) });
    await sidecar.untilEntries('configuration reloaded');
    expect(await ask(await openConnection(sidecar.port))).toMatch(/^HTTP\/1\.1 401 /);
  });
});

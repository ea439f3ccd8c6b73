import { execFile } from 'node:child_process';
import { existsSync, readFileSync } from 'node:fs';
import { promisify } from 'node:util';
import { describe, expect, test, vi } from 'vitest';
import { ask, token, type ApiResponse } from '../operators/api.ts';
import { runCommand } from '../support/cli.ts';
import { envelopeOf, opened, send } from '../support/client.ts';
import { startServe, type Serving } from '../support/command.ts';
import { eventually } from '../support/eventually.ts';
import { Folder, sidecarFile } from '../support/folder.ts';
import { jumpingClock } from '../support/jumping-clock.ts';
import { describeWithPostgres, usePostgres } from '../support/postgres.ts';
import { masterKey, newDatabase, newFile, type NewStore } from '../support/stores.ts';
import { startUpstream } from '../support/upstream.ts';

const run = promisify(execFile);
const patience = { timeout: 20_000, interval: 20 };
const wanted = { environment: 'test', kind: 'secret' };

interface Credentials {
  readonly key: string;
  readonly iv: string;
}

interface Setup {
  readonly folder: Folder;
  readonly sidecar: Serving;
  /** Sends a request to the sidecar's API. */
  readonly api: (line: string, body?: object) => Promise<ApiResponse>;
}

async function folderOf(accounts: object, content = 'accounts: []\n'): Promise<Folder> {
  const { origin } = await startUpstream();
  const operators = { port: 0, token };
  return new Folder({ 'accounts.yaml': content, 'sidecar.yaml': sidecarFile(origin, { accounts, operators }) });
}

async function start(folder: Folder, nodeOptions: readonly string[] = []): Promise<Setup> {
  const sidecar = await startServe(folder.file('sidecar.yaml'), { nodeOptions });
  const listening = await sidecar.untilEntries('listening', 3);
  const port = listening.find(({ listener }) => listener === 'operators')?.['port'];
  const api = (line: string, body?: object) => ask(`http://127.0.0.1:${String(port)}/api/v1`, line, { body });
  return { folder, sidecar, api };
}

/** Waits until merchants' requests with this key get this status. */
async function untilStatus({ sidecar }: Setup, key: unknown, status: number): Promise<void> {
  await vi.waitFor(async () => {
    const response = await send({ port: sidecar.port }, 'GET /x', { key: String(key) });
    expect(response.status).toBe(status);
  }, patience);
}

describe('an accounts file that is edited by hand while the API changes it', () => {
  /**
   * Node options that make a sidecar wait for a file `go` before it finishes syncing a change to the disk. At that point, it has read the
   * accounts file, but not replaced it. The sidecar creates a file `waits` when it starts to wait.
   */
  const waiting = (folder: string): readonly string[] => {
    const module = `
      import fs from 'node:fs';
      import { syncBuiltinESMExports } from 'node:module';
      const sync = fs.fsyncSync;
      fs.fsyncSync = (file) => {
        sync(file);
        fs.writeFileSync(${JSON.stringify(folder)} + '/waits', '');
        while (!fs.existsSync(${JSON.stringify(folder)} + '/go')) Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0, 10);
      };
      syncBuiltinESMExports();`;
    return ['--import', `data:text/javascript,${encodeURIComponent(module)}`];
  };
  const content = 'accounts:\n  - id: globex\n    name: Globex\n';

  test.each([
    ['replaces the file', `sed -i 's/Globex/By hand/' accounts.yaml`],
    ['writes into it', `sed 's/Globex/By hand/' accounts.yaml > copy && cat copy > accounts.yaml`],
  ])('keeps both changes if the editor %s', async (_, edit) => {
    const folder = await folderOf({ file: 'accounts.yaml' }, content);
    const setup = await start(folder, waiting(folder.path));
    const { api } = setup;
    const issuing = api('POST /accounts/globex/keys', wanted);
    await eventually('the sidecar waits before it replaces the file', () => existsSync(folder.file('waits')), patience);
    await run('sh', ['-c', edit], { cwd: folder.path });
    folder.write({ go: '' });
    const issued = await issuing;
    expect(issued.status).toBe(201);
    expect((await api('GET /accounts/globex')).body).toMatchObject({
      name: 'By hand',
      keys: [{ id: issued.body['id'] }],
    });
    await untilStatus(setup, issued.body['key'], 200);
    const events = readFileSync(folder.file('accounts.audit.jsonl'), 'utf8').split('\n').slice(0, -1);
    // If an attempt had lost the race, its event would be followed by `change_failed`.
    expect(events.at(-1)).toContain('"action":"key_issued"');
  });

  test('is left as the editor last saved it, and the log names the lost change', async () => {
    const folder = await folderOf({ file: 'accounts.yaml' }, content);
    const setup = await start(folder);
    const { sidecar, api } = setup;
    const opened = readFileSync(folder.file('accounts.yaml'), 'utf8');
    const { body } = await api('POST /accounts/globex/keys', wanted);
    await untilStatus(setup, body['key'], 200);
    folder.replace({ 'accounts.yaml': opened });
    await untilStatus(setup, body['key'], 401);
    // The sidecar writes its log a moment after the response.
    const changes = await sidecar.untilEntries('account changed', 2);
    expect(changes.map(({ change, key }) => [change, key])).toEqual([
      ['key_issued', body['id']],
      ['key_removed', body['id']],
    ]);
    expect((await api('GET /accounts/globex')).body).toMatchObject({ keys: [] });
  });
});

/** Replaces credentials with a grace period, and moves the sidecar's clock beyond the end of the grace period and back. */
function testMovedClock(newStore: NewStore): void {
  test('a grace period is in force again if the clock is set back to before its end, until an operator ends it', async () => {
    const setup = await start(await folderOf(await newStore()), jumpingClock(2, -2));
    const { folder, sidecar, api } = setup;
    await api('POST /accounts', { id: 'acme', name: 'Acme' });
    const { key } = (await api('POST /accounts/acme/keys', wanted)).body;
    const path = '/accounts/acme/encryption/test';
    const previous = (await api(`POST ${path}/enable`, {})).body as unknown as Credentials;
    const grace = { grace: '24h', replace: true };
    const current = (await api(`POST ${path}/enable`, grace)).body as unknown as Credentials;
    const charge = (by: Credentials) =>
      send(sidecar, 'POST /api/s2s/charge', { key: String(key), body: envelopeOf(by, '{}') });
    const untilAccepted = (isAccepted: boolean) =>
      vi.waitFor(async () => {
        expect(opened(current, await charge(current))).toBe('{"ok":true}');
        const response = await charge(previous);
        if (isAccepted) expect(opened(previous, response)).toBe('{"ok":true}');
        else expect(response.body).toContain('"decryption_failed"');
      }, patience);

    await untilAccepted(true);
    sidecar.signal('SIGUSR2');
    await untilAccepted(false);
    sidecar.signal('SIGUSR2');
    await untilAccepted(true);
    const end = ['encryption', 'grace', 'acme', '--environment', 'test', '--end'];
    expect((await runCommand([...end, '--config', folder.file('sidecar.yaml')])).code).toBe(0);
    await untilAccepted(false);
  });
}

testMovedClock(newFile);

describeWithPostgres('accounts in PostgreSQL', () => {
  const postgres = usePostgres();
  testMovedClock(newDatabase(postgres));

  test('keep both changes if one is made with SQL while the API makes another', async () => {
    const url = await postgres.createDatabase();
    const setup = await start(await folderOf({ postgres: { url, masterKey } }));
    const { api } = setup;
    await api('POST /accounts', { id: 'acme', name: 'Acme' });
    const byHand = postgres.psql(
      url,
      `BEGIN; UPDATE envelope_sidecar.accounts SET name = 'By hand'; SELECT pg_sleep(0.5); COMMIT`,
    );
    await vi.waitFor(async () => {
      const waiting = await postgres.psql(url, `SELECT count(*) FROM pg_stat_activity WHERE query LIKE '%pg_sleep%'`);
      expect(Number(waiting)).toBeGreaterThan(1);
    }, patience);
    const [issued, stopped] = await Promise.all([
      api('POST /accounts/acme/keys', wanted),
      api('POST /accounts/acme/deactivate'),
      byHand,
    ]);
    expect([issued.status, stopped.status]).toEqual([201, 200]);
    expect((await api('GET /accounts/acme')).body).toMatchObject({
      name: 'By hand',
      active: false,
      keys: [{ id: issued.body['id'] }],
    });
    await api('POST /accounts/acme/activate');
    await untilStatus(setup, issued.body['key'], 200);
  });
});

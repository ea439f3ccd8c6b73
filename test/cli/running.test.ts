import { spawnSync } from 'node:child_process';
import { existsSync } from 'node:fs';
import { fileURLToPath } from 'node:url';
import { describe, expect, test } from 'vitest';
import { runCommand } from '../support/cli.ts';
import { startCommand, startServe } from '../support/command.ts';
import { accountsFile, Folder, globexEntry, sidecarFile } from '../support/folder.ts';
import { freePort } from '../support/free-port.ts';
import { keys } from '../support/sidecar.ts';

async function running() {
  const folder = new Folder({
    'sidecar.yaml': sidecarFile('http://127.0.0.1:1', { admin: { host: '127.0.0.1', port: await freePort() } }),
    'accounts.yaml': accountsFile(globexEntry(keys.globex)),
  });
  const file = folder.file('sidecar.yaml');
  const sidecar = await startServe(file);
  const run = async (line: string) => {
    const command = startCommand([...line.split(' '), '--config', file]);
    const { code } = await command.ended();
    return { code, stdout: command.stdout, stderr: command.stderr };
  };
  return { folder, sidecar, run };
}

describe('status', () => {
  test('shows the state of the running sidecar and of its files', async () => {
    const { run, folder, sidecar } = await running();
    const { code, stdout } = await run('status');
    expect(code).toBe(0);
    expect(stdout).toMatch(
      /^version +\d+\.\d+\.\d+\nready +yes\nin flight +0\nconnections +0\nconfiguration +in force /,
    );
    expect(stdout).toMatch(/\naccounts +in force \d{4}-/);
    folder.write({ 'accounts.yaml': 'accounts: none\n' });
    await sidecar.untilEntries('configuration is invalid: the current one is kept');
    expect(JSON.parse((await run('status --json')).stdout)).toMatchObject({
      ready: true,
      in_flight: 0,
      configuration: { in_force: true, problems: [] },
      accounts_file: { in_force: false, problems: [expect.stringContaining('accounts.yaml:1:11  accounts')] },
      database: null,
      needs_restart: [],
    });
  });

  test('fails if no sidecar is running, or only one with another token', async () => {
    const { run, sidecar } = await running();
    await sidecar.signal('SIGTERM').ended();
    expect(await run('status')).toMatchObject({ code: 1, stderr: expect.stringContaining('ECONNREFUSED') as string });
  });
});

describe('reload', () => {
  test('returns when the files have been loaded again, and says that they are in force', async () => {
    const { run, sidecar } = await running();
    const { code, stdout } = await run('reload');
    expect(code).toBe(0);
    expect(stdout).toMatch(/^configuration +in force .*\naccounts +in force .*\n$/);
    await sidecar.untilEntries('configuration reloaded');
  });

  test('applies a change at once, and ends with 78 and the problems of a file that is not in force', async () => {
    const { run, folder } = await running();
    folder.write({ 'accounts.yaml': 'accounts: none\n' });
    const { code, stdout } = await run('reload');
    expect([code, stdout]).toEqual([78, expect.stringContaining('accounts.yaml:1:11  accounts  expected')]);
    expect(stdout).toMatch(/^accounts +not in force: the last valid version is that of \d{4}-\S+$/m);
    folder.write({ 'accounts.yaml': 'accounts: []\n' });
    expect((await run('reload')).code).toBe(0);
  });

  test('names the members that need a restart, as status does, and the address that commands use once it has changed', async () => {
    const { run, folder, sidecar } = await running();
    const contents = { admin: { host: '127.0.0.1', port: Number(new URL(sidecar.adminUrl).port) } };
    folder.write({ 'sidecar.yaml': sidecarFile('http://127.0.0.1:1', { ...contents, limits: { header: '8KiB' } }) });
    const restart = /\nneeds restart +limits\.header\n$/;
    expect((await run('reload')).stdout).toMatch(restart);
    expect((await run('status')).stdout).toMatch(restart);
    const port = await freePort();
    folder.write({ 'sidecar.yaml': sidecarFile('http://127.0.0.1:1', { admin: { host: '127.0.0.1', port } }) });
    const { code, stderr } = await run('reload');
    expect([code, stderr]).toEqual([
      1,
      expect.stringMatching(`no sidecar at 127.0.0.1:${port}: .* "admin" has changed`),
    ]);
  });
});

test('version prints the versions of the sidecar and of Node, and the commit', async () => {
  const env = { SIDECAR_REVISION: 'abc123' };
  for (const line of [['version'], ['version', '--config', 'none.yaml']]) {
    const { code, stdout } = await runCommand(line, { env });
    expect([code, stdout]).toEqual([
      0,
      expect.stringMatching(/^envelope-sidecar +\S+\nnode +v\d+.*\ncommit +abc123\n$/),
    ]);
  }
});

test('version prints the commit of a checkout, and omits it without git', async () => {
  const root = fileURLToPath(new URL('../..', import.meta.url));
  const { status, stdout: head } = spawnSync('git', ['rev-parse', 'HEAD'], { cwd: root, encoding: 'utf8' });
  const commit = existsSync(`${root}.git`) && status === 0 ? `commit            ${head}` : '';
  const versions = (await runCommand(['version'], { env: { PATH: '/nonexistent' } })).stdout;
  expect(versions).toMatch(/^envelope-sidecar +\S+\nnode +v\S+\n$/);
  expect((await runCommand(['version'])).stdout).toBe(`${versions}${commit}`);
});

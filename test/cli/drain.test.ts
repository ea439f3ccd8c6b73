import { execFileSync } from 'node:child_process';
import { lstatSync, readFileSync, symlinkSync, unlinkSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { dirname } from 'node:path';
import { describe, expect, test } from 'vitest';
import { drainTokenFile, readDrainToken, writeDrainToken } from '../../src/admin/drain-token.ts';
import { send, type Response } from '../support/client.ts';
import { startCommand, startServe, type Command, type Serving } from '../support/command.ts';
import { eventually } from '../support/eventually.ts';
import { accountsFile, Folder, globexEntry, sidecarFile, type Contents } from '../support/folder.ts';
import { freePort } from '../support/free-port.ts';
import { keys } from '../support/sidecar.ts';
import { startUpstream, type Respond, type TestUpstream } from '../support/upstream.ts';

const ended = { code: 0, signal: null };

interface Running {
  readonly sidecar: Serving;
  readonly upstream: TestUpstream;
  readonly folder: Folder;
  /** Starts `sidecar drain`. */
  readonly drain: () => Command;
}

async function running(
  respond?: Respond,
  more: Contents = {},
  host = '127.0.0.1',
  env: Readonly<Record<string, string>> = {},
): Promise<Running> {
  const upstream = await startUpstream(respond);
  const folder = new Folder({
    'sidecar.yaml': sidecarFile(upstream.origin, { admin: { host, port: await freePort() }, ...more }),
    'accounts.yaml': accountsFile(globexEntry(keys.globex)),
  });
  const file = folder.file('sidecar.yaml');
  return {
    sidecar: await startServe(file, { env }),
    upstream,
    folder,
    drain: () => startCommand(['drain', '--config', file], { env }),
  };
}

const request = (sidecar: Serving): Promise<Response> => send(sidecar, 'GET /x', { key: keys.globex });
const statusOf = async ({ adminUrl }: Serving, path: string): Promise<number> =>
  (await fetch(`${adminUrl}${path}`)).status;

describe('drain', () => {
  test.each(['127.0.0.1', '0.0.0.0', '::'])(
    'returns at once if no request is in flight, with the listener on %s',
    async (host) => {
      const { sidecar, drain } = await running(undefined, {}, host);
      expect(await statusOf(sidecar, '/readyz')).toBe(200);
      const command = drain();
      expect(await command.ended()).toEqual(ended);
      expect(command.stdout + command.stderr).toBe('The sidecar is draining and not ready; no request is in flight.\n');
      expect([await statusOf(sidecar, '/readyz'), await statusOf(sidecar, '/livez')]).toEqual([503, 200]);
    },
  );

  test('keeps the process serving, and closes each connection after its response, until SIGTERM ends the process with 0', async () => {
    const { sidecar, drain } = await running();
    const persistent = { key: keys.globex, headers: { connection: 'keep-alive' } };
    expect((await send(sidecar, 'GET /x', persistent)).headers.connection).toBeUndefined();
    await drain().ended();
    const response = await send(sidecar, 'GET /x', persistent);
    expect([response.status, response.headers.connection]).toEqual([200, 'close']);
    expect(await sidecar.signal('SIGTERM').ended()).toEqual(ended);
    const expected = new Set<unknown>(['starting', 'listening', 'request']);
    expect(sidecar.log.map(({ msg }) => msg).filter((msg) => !expected.has(msg))).toEqual([
      'draining',
      'stopping',
      'stopped',
    ]);
  });

  test('waits no longer than timeouts.drain, and aborts no request', async () => {
    const held: (() => void)[] = [];
    const respond: Respond = (_seen, res) => held.push(() => res.end('at last'));
    const { sidecar, drain } = await running(respond, { timeouts: { drain: '200ms' } });
    const response = request(sidecar);
    await eventually('the upstream has the request', () => held.length === 1);
    const command = drain();
    expect(await command.ended()).toEqual(ended);
    expect(command.stdout).toContain('; 1 of its requests is still in flight: timeouts.drain has expired.');
    held[0]?.();
    expect((await response).body).toBe('at last');
  });

  test('waits together with a drain that is already running', async () => {
    const held: (() => void)[] = [];
    const { sidecar, drain } = await running((_seen, res) => held.push(() => res.end()));
    const response = request(sidecar);
    await eventually('the upstream has the request', () => held.length === 1);
    const commands = [drain(), drain()];
    await sidecar.untilEntries('draining');
    held[0]?.();
    await response;
    expect(await Promise.all(commands.map((command) => command.ended()))).toEqual([ended, ended]);
    expect(sidecar.entries('draining')).toHaveLength(1);
  });

  test('succeeds on a sidecar whose files have become invalid', async () => {
    const { sidecar, folder, drain } = await running();
    folder.write({ 'accounts.yaml': 'accounts: none\n' });
    await sidecar.untilEntries('configuration is invalid: the current one is kept');
    expect(await drain().ended()).toEqual(ended);
    expect(await statusOf(sidecar, '/readyz')).toBe(503);
  });

  test('exits with 1 and one line on stderr if no sidecar is running', async () => {
    const port = await freePort();
    const folder = new Folder({ 'sidecar.yaml': sidecarFile('http://127.0.0.1:1', { admin: { port } }) });
    const command = startCommand(['drain', '--config', folder.file('sidecar.yaml')]);
    expect(await command.ended()).toEqual({ code: 1, signal: null });
    expect(command.stderr).toBe(
      `drain: no sidecar at 127.0.0.1:${port}: connect ECONNREFUSED 127.0.0.1:${port} (if "admin" has changed since the sidecar started, restart the sidecar, or restore the address)\n`,
    );
  });

  test.each([
    ['the file is missing', undefined, '1:1  .  cannot read the file: it does not exist'],
    ['the admin listener is wrong', { admin: { port: 'x' } }, '1:18  admin.port  expected a whole number'],
  ])('exits with 78 if %s', async (_, contents, problem) => {
    const folder = new Folder(contents === undefined ? {} : { 'sidecar.yaml': contents });
    const command = startCommand(['drain', '--config', folder.file('sidecar.yaml')]);
    expect(await command.ended()).toEqual({ code: 78, signal: null });
    expect(command.stderr).toContain(`sidecar.yaml:${problem}`);
  });
});

describe('the drain token', () => {
  const named = (folder: Folder, env: Readonly<Record<string, string>>): string =>
    drainTokenFile(folder.file('sidecar.yaml'), env);

  test('is readable by its owner only, replaces an old one, and does not follow a link', async () => {
    const folder = new Folder({ 'sidecar.yaml': '', victim: 'precious' });
    const env = { XDG_RUNTIME_DIR: dirname(folder.file('victim')) };
    const file = named(folder, env);
    symlinkSync(folder.file('victim'), file);
    await writeDrainToken(file, 'first');
    expect(readFileSync(folder.file('victim'), 'utf8')).toBe('precious');
    expect(lstatSync(file).isFile()).toBe(true);
    expect((lstatSync(file).mode & 0o777).toString(8)).toBe('600');
    await writeDrainToken(file, 'second');
    expect(await readDrainToken(file)).toBe('second');
  });

  test('is not read through a link, nor from anything but a regular file', async () => {
    const folder = new Folder({ 'sidecar.yaml': '', planted: 'token' });
    const file = named(folder, { XDG_RUNTIME_DIR: dirname(folder.file('planted')) });
    expect(await readDrainToken(file)).toBeUndefined();
    symlinkSync(folder.file('planted'), file);
    await expect(readDrainToken(file)).rejects.toThrow('ELOOP');
    unlinkSync(file);
    execFileSync('mkfifo', [file]);
    expect(await readDrainToken(file)).toBeUndefined();
  });

  test('is removed when its process ends, unless another process has replaced it', async () => {
    for (const isReplaced of [false, true]) {
      const folder = new Folder({});
      const env = { XDG_RUNTIME_DIR: folder.path };
      const { sidecar, folder: own } = await running(undefined, {}, '127.0.0.1', env);
      const file = named(own, env);
      await eventually('the token is written', () => readDrainToken(file));
      if (isReplaced) await writeDrainToken(file, 'other');
      expect(await sidecar.signal('SIGTERM').ended()).toEqual(ended);
      expect(await readDrainToken(file)).toBe(isReplaced ? 'other' : undefined);
    }
  });

  test('differs between configurations, and is in the temporary folder if there is no runtime folder', () => {
    expect(drainTokenFile('a.yaml', {})).not.toBe(drainTokenFile('b.yaml', {}));
    expect(drainTokenFile('a.yaml', {})).toBe(drainTokenFile(`${process.cwd()}/a.yaml`, { XDG_RUNTIME_DIR: '' }));
    expect(dirname(drainTokenFile('a.yaml', {}))).toBe(tmpdir());
    expect(dirname(drainTokenFile('a.yaml', { XDG_RUNTIME_DIR: '/run/user/1' }))).toBe('/run/user/1');
  });

  test('that cannot be written causes a warning, and drains are refused', async () => {
    const { sidecar, drain } = await running(undefined, {}, '127.0.0.1', { XDG_RUNTIME_DIR: '/nonexistent' });
    expect(await sidecar.untilEntries('drain is disabled: its token cannot be written')).toMatchObject([
      { level: 'warn', cause: 'ENOENT' },
    ]);
    const command = drain();
    expect(await command.ended()).toEqual({ code: 1, signal: null });
    expect(command.stderr).toBe(
      `drain: the sidecar at ${new URL(sidecar.adminUrl).host} refused: drain needs the token that this sidecar writes once it has started\n`,
    );
    expect(await statusOf(sidecar, '/readyz')).toBe(200);
  });
});

test('GET /drain is not found and does not drain', async () => {
  const { sidecar } = await running();
  expect(await statusOf(sidecar, '/drain')).toBe(404);
  expect(await statusOf(sidecar, '/readyz')).toBe(200);
});

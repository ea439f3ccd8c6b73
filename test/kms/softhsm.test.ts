import { execFileSync, spawn, spawnSync } from 'node:child_process';
import { existsSync, globSync, readFileSync, statSync } from 'node:fs';
import { fileURLToPath } from 'node:url';
import { expect, onTestFinished, test } from 'vitest';
import { parseMasterKeys } from '../../src/accounts/master-key.ts';
import { envelopeOf, opened, send } from '../support/client.ts';
import { startServe } from '../support/command.ts';
import { commandsOn } from '../support/command-line.ts';
import { describeUnless } from '../support/describe-unless.ts';
import { eventually } from '../support/eventually.ts';
import { Folder, sidecarFile } from '../support/folder.ts';
import { occurrences } from '../support/memory.ts';
import { postgresPrograms } from '../support/postgres.ts';
import { describeOnEachStore } from '../support/stores.ts';
import { startUpstream } from '../support/upstream.ts';

const plugin = fileURLToPath(new URL('softhsm-plugin.py', import.meta.url));
// Use Debian's own Python, because Debian's packages are installed for it.
const python = '/usr/bin/python3';
const isInstalled =
  existsSync('/usr/bin/softhsm2-util') && spawnSync(python, ['-c', 'import grpc, grpc_tools, PyKCS11']).status === 0;

/** Starts a KMS plug-in in front of a SoftHSM2 with one key. It runs until the test is over. */
async function startPlugin() {
  const folder = new Folder({});
  folder.write({ 'softhsm2.conf': `directories.tokendir = ${folder.path}\nobjectstore.backend = file\n` });
  const env = { ...process.env, SOFTHSM2_CONF: folder.file('softhsm2.conf') };
  const args = ['--init-token', '--free', '--label', 'kms', '--pin', '1234', '--so-pin', '5678'];
  expect(spawnSync('softhsm2-util', args, { env }).status).toBe(0);
  const socket = folder.file('kms.sock');
  const child = spawn(python, [plugin, socket, '1234'], { env, stdio: ['ignore', 'pipe', 'inherit'] });
  let output = '';
  child.stdout.on('data', (text: Buffer) => (output += text.toString()));
  const ended = new Promise((resolve) => void child.once('close', resolve));
  onTestFinished(async () => {
    child.kill('SIGKILL');
    await ended;
  });
  const rotate = async (): Promise<void> => {
    child.kill('SIGUSR1');
    await eventually('the plug-in has another key', () => output.includes('wrapping-2'));
  };
  await eventually('the plug-in is ready', () => output.includes('ready\n'), { timeout: 30_000 });
  return { socket, rotate };
}

const missing = isInstalled ? undefined : 'it needs what scripts/install-test-tools.sh installs';

describeUnless(missing, 'a master key that an HSM wraps, behind a plug-in in Python', () => {
  describeOnEachStore('in a whole life', (newStore) => {
    test('which is nowhere in the clear, and can be changed, wrapped again and retired', async () => {
      const { socket, rotate } = await startPlugin();
      // Anyone who may use the socket may use the key.
      expect(statSync(socket).mode & 0o777).toBe(0o660);
      const store = (await newStore()) as { readonly postgres?: { readonly url: string } };
      const upstream = await startUpstream();
      const masterKey = { file: 'keys' };
      const accounts =
        store.postgres === undefined ? { ...store, masterKey } : { postgres: { ...store.postgres, masterKey } };
      const folder = new Folder({
        'accounts.yaml': 'accounts: []\n',
        'sidecar.yaml': sidecarFile(upstream.origin, { accounts, kms: { socket } }),
      });
      const config = folder.file('sidecar.yaml');
      const { run, json } = commandsOn(config);
      const clear = Buffer.from(Array.from({ length: 32 }, (_, i) => 0xa0 + i * 3 - (i % 5)));
      const wrapping = commandsOn(config, { stdin: `${clear.toString('base64')}\n` });
      const line = (await wrapping.run('master-key wrap')).stdout.trim();
      folder.write({ keys: line });
      if (store.postgres !== undefined) await run('accounts migrate');
      await json('accounts add acme --name Acme');
      const credentials = await json<{ key: string; iv: string }>('encryption enable acme --environment test');
      const { key } = await json<{ key: string }>('keys issue acme --environment test --kind secret');
      const sidecar = await startServe(config);
      const serves = async (): Promise<void> => {
        const answer = await send(sidecar, 'POST /api/s2s/charges', { key, body: envelopeOf(credentials, '{"a":1}') });
        expect(opened(credentials, answer)).toBe('{"ok":true}');
      };
      await serves();

      // Change to another master key, and then to another wrapping key.
      const next = (await run('master-key new')).stdout.trim();
      folder.write({ keys: `${next}\n${line}`, next });
      await sidecar.untilEntries('configuration reloaded');
      expect((await run(`accounts rekey --new-master-key-file ${folder.file('next')}`)).stdout).toMatch(
        /^1 account was wrapped/,
      );
      await rotate();
      const rewrapped = (await run('master-key rewrap')).stdout.trim();
      expect(parseMasterKeys(rewrapped)?.map(({ wrapped }) => wrapped?.key_id)).toEqual(['wrapping-2', 'wrapping-2']);
      folder.write({ keys: rewrapped });
      await sidecar.untilEntries('configuration reloaded', 2);
      const usage = (await json<{ usage: number }[]>('master-key list --usage')).map((each) => each.usage);
      expect(usage).toEqual([2, 0]);
      folder.write({ keys: rewrapped.split('\n')[0] });
      await sidecar.untilEntries('configuration reloaded', 3);
      await serves();

      const folders = [folder.path];
      if (store.postgres !== undefined) {
        const { url } = store.postgres;
        execFileSync(`${postgresPrograms}/psql`, ['-q', '-d', url, '-c', 'CHECKPOINT']);
        folder.write({ 'dump.sql': execFileSync(`${postgresPrograms}/pg_dump`, ['-d', url], { encoding: 'utf8' }) });
        // The server's data is in a folder next to its socket.
        folders.push(`${new URL(url).searchParams.get('host')}/data`);
      }
      for (const each of folders) {
        const files = globSync(`${each}/**`, { withFileTypes: true }).filter((file) => file.isFile());
        const contents = files.map(({ parentPath, name }) => readFileSync(`${parentPath}/${name}`));
        expect(contents.some((bytes) => bytes.includes('sealed:v1:'))).toBe(true);
        const found = files.filter((_, i) => formsOf(clear).some((form) => contents[i]?.includes(form)));
        expect(found.map(({ name }) => name)).toEqual([]);
      }
      // The key's bytes must be in memory to be used, but there is no reason for the key to be there as text.
      const [, base64 = clear, hex = clear] = formsOf(clear);
      const found = occurrences(sidecar.process.pid ?? 0, { base64, hex, key: Buffer.from('sk_test_') });
      expect(found).toMatchObject({ base64: 0, hex: 0 });
      expect(found['key']).toBeGreaterThan(0);
    });
  });
});

/** The bytes of a master key, and its forms in base64 and in hex. */
function formsOf(clear: Buffer): Buffer[] {
  return [clear, Buffer.from(clear.toString('base64')), Buffer.from(clear.toString('hex'))];
}

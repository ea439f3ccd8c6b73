import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { readFileSync, writeFileSync, chmodSync } from 'node:fs';
import type { AddressInfo } from 'node:net';
import { text } from 'node:stream/consumers';
import { fileURLToPath } from 'node:url';
import { expect, onTestFinished, test } from 'vitest';
import { createPaymentCore } from '../../src/demo/payment-core.ts';
import { problems } from '../../src/operators/problems.ts';
import { runCommand } from '../support/cli.ts';
import { Folder, sidecarFile } from '../support/folder.ts';
import { freePorts } from '../support/free-port.ts';

const page = readFileSync('docs/accounts.md', 'utf8');

test('docs/accounts.md leads from an empty store to an encrypted charge', async () => {
  const seen: string[] = [];
  const core = createPaymentCore((line) => seen.push(line)).listen(0, '127.0.0.1');
  onTestFinished(() => void core.close());
  await once(core, 'listening');
  const [listen = 0, admin = 0] = await freePorts(2);
  const ports = { '3000': (core.address() as AddressInfo).port, '8080': listen, '9090': admin };

  const folder = new Folder({});
  const main = fileURLToPath(new URL('../../src/main.ts', import.meta.url));
  writeFileSync(folder.file('sidecar'), `#!/bin/sh\nexec "${process.execPath}" "${main}" "$@"\n`);
  chmodSync(folder.file('sidecar'), 0o755);

  let script = [...page.matchAll(/^```sh run\n([\s\S]*?)^```$/gm)].map(([, code = '']) => code).join('');
  expect(script).toContain('encryption enable');
  for (const [shown, free] of Object.entries(ports)) script = script.replaceAll(shown, String(free));
  // A process group of its own, so that processes in the background end with the test.
  const shell = spawn('sh', ['-eu'], {
    cwd: folder.path,
    env: {
      ...process.env,
      PATH: `${folder.path}:${process.env['PATH'] ?? ''}`,
      // A dozen short commands would compile the same sources again.
      NODE_COMPILE_CACHE: folder.file('cache'),
    },
    stdio: 'pipe',
    detached: true,
  });
  onTestFinished(() => void process.kill(-(shell.pid ?? 0), 'SIGKILL'));
  shell.stdin.end(`${script}kill $!\nwait $!\n`);
  const [stdout, stderr] = await Promise.all([text(shell.stdout), text(shell.stderr)]);
  const complaints = stderr.split('\n').filter((line) => line !== '' && !line.includes('"msg":"audit"'));
  expect(complaints).toEqual([]);

  expect(stdout).toMatch(/^OK\n/);
  const response = JSON.parse(stdout.slice(stdout.lastIndexOf('\n{') + 1)) as object;
  expect(response).toMatchObject({ object: 'transaction', status: 'succeeded', amount: 1250, currency: 'EUR' });
  expect(seen).toEqual(['201 POST /api/s2s/charge acme {"amount":1250,"currency":"EUR"}']);
  expect(readFileSync(folder.file('response.json'), 'utf8')).toMatch(/^\{"data":"[0-9a-f]+"\}$/);
  expect(readFileSync(folder.file('accounts.yaml'), 'utf8')).toContain('sealed:v1:');
});

test('the commands that measure a large file work, tested with a small one', async () => {
  const [, measure = ''] = /^```sh measure\n([\s\S]*?)^```$/m.exec(readFileSync('docs/stores.md', 'utf8')) ?? [];
  expect(measure).toContain('seq 10000');
  const folder = new Folder({
    'sidecar.yaml': sidecarFile('http://127.0.0.1:1'),
    'accounts.yaml': 'accounts: []\n',
    sidecar: '',
  });
  const main = fileURLToPath(new URL('../../src/main.ts', import.meta.url));
  writeFileSync(folder.file('sidecar'), `#!/bin/sh\nexec "${process.execPath}" "${main}" "$@"\n`);
  chmodSync(folder.file('sidecar'), 0o755);
  const shell = spawn('bash', ['-eu', '-c', measure.replace('seq 10000', 'seq 20')], {
    cwd: folder.path,
    env: { ...process.env, PATH: `${folder.path}:${process.env['PATH'] ?? ''}`, SIDECAR_CONFIG: 'sidecar.yaml' },
    stdio: ['ignore', 'pipe', 'pipe'],
  });
  const [stdout, stderr] = await Promise.all([text(shell.stdout), text(shell.stderr)]);
  expect(stdout).toMatch(/^20 added, 0 already present, 0 refused\.\nAdded one-more\./);
  expect(stderr.match(/^user\t/gm)).toHaveLength(2);
});

test('the page lists every command, and no others', async () => {
  const commands = await Promise.all(
    ['accounts', 'keys', 'encryption'].map(async (group) => {
      const { stdout } = await runCommand([group, '--help']);
      const [, list = ''] = stdout.split('Commands:\n');
      const names = [...list.matchAll(/^ {2}([a-z]+)/gm)].map(([, name]) => name);
      return names.filter((name) => name !== 'help').map((name) => `${group} ${name}`);
    }),
  );
  const rows = [...page.matchAll(/^- `(?:accounts|keys|encryption) .*?: /gm)].map(([row]) => row);
  const listed = rows.flatMap((row) =>
    [...row.matchAll(/`((?:accounts|keys|encryption) [a-z]+)/g)].map(([, name = '']) => name),
  );
  expect(listed.toSorted()).toEqual(commands.flat().toSorted());
});

test('the page lists every error of the API with its status, and no others', () => {
  const rows = [...page.matchAll(/^- <a id="(\w+)"><\/a>`(\w+)` \((\d+)\): /gm)];
  for (const [, anchor, code] of rows) expect(anchor).toBe(code);
  expect(Object.fromEntries(rows.map(([, , code, status]) => [code, Number(status)]))).toEqual(
    Object.fromEntries(Object.entries(problems).map(([code, { status }]) => [code, status])),
  );
});

test('the page lists every change that a sidecar logs, and no others', () => {
  const [, union = ''] = /readonly change:\n([^;]*);/.exec(readFileSync('src/accounts/differences.ts', 'utf8')) ?? [];
  const logged = [...union.matchAll(/'(\w+)'/g)].map(([, change = '']) => change);
  expect(logged.length).toBeGreaterThan(10);
  const [, list = ''] = /`change`\s+is\s(.*?)\.\s+A\s+reload/s.exec(page) ?? [];
  expect([...list.matchAll(/`(\w+)`/g)].map(([, change = '']) => change).toSorted()).toEqual(logged.toSorted());
});

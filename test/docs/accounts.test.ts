import { spawn } from 'node:child_process';
import { readFileSync, writeFileSync, chmodSync } from 'node:fs';
import { text } from 'node:stream/consumers';
import { fileURLToPath } from 'node:url';
import { expect, test } from 'vitest';
import { problems } from '../../src/operators/problems.ts';
import { Folder, sidecarFile } from '../support/folder.ts';

const page = readFileSync('docs/accounts.md', 'utf8');

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

import { execFileSync, spawn } from 'node:child_process';
import { once } from 'node:events';
import { symlinkSync } from 'node:fs';
import { resolve } from 'node:path';
import { text } from 'node:stream/consumers';
import { expect, onTestFinished, test } from 'vitest';
import manifest from '../../package.json' with { type: 'json' };
import { Folder, sidecarFile } from '../support/folder.ts';

const sidecar = resolve(manifest.bin.sidecar);
/** An environment whose PATH contains no Node. */
const env = { PATH: '/usr/bin:/bin' };

test("sidecar runs on the project's Node from any folder, through a link, and with any PATH", () => {
  const folder = new Folder({ node: '#!/bin/sh\nexit 9\n' });
  execFileSync('chmod', ['+x', folder.file('node')]);
  symlinkSync(sidecar, folder.file('sidecar'));
  const version = execFileSync(folder.file('sidecar'), ['--version'], {
    cwd: folder.path,
    env: { PATH: `${folder.path}:/usr/bin:/bin` },
    encoding: 'utf8',
  });
  expect(version).toBe(`${manifest.version}\n`);
});

test('sidecar passes on its arguments and its exit code', async () => {
  const child = spawn(sidecar, ['check', '--config', 'a file of two  words'], { env });
  const [stdout, [code]] = await Promise.all([text(child.stdout), once(child, 'exit')]);
  expect(code).toBe(78);
  expect(stdout).toContain('a file of two  words:1:1');
});

test('sidecar is one process, which a signal to its id stops cleanly', async () => {
  const folder = new Folder({ 'sidecar.yaml': sidecarFile('http://127.0.0.1:1'), 'accounts.yaml': 'accounts: []\n' });
  const child = spawn(sidecar, ['serve', '--config', folder.file('sidecar.yaml')], { env });
  let log = '';
  for await (const chunk of child.stdout.setEncoding('utf8')) {
    log += chunk;
    if (log.includes('"merchants"')) child.kill('SIGTERM');
  }
  expect(log).toContain('"stopping"');
  expect([child.exitCode ?? (await once(child, 'exit'))[0]]).toEqual([0]);
});

test('the shell that npm start runs becomes the demo, so that the signal that npm passes on ends the demo', async () => {
  const child = spawn('sh', ['-c', `${manifest.scripts.start} --free-ports`], { env, detached: true });
  const pid = child.pid ?? 0;
  // Kill the whole process group. If the demo were a separate process, it would outlive its shell.
  onTestFinished(() => void (child.exitCode === null && process.kill(-pid, 'SIGKILL')));
  let log = '';
  for await (const chunk of child.stdout.setEncoding('utf8')) {
    log += chunk;
    if (log.includes('"merchants"')) child.kill('SIGTERM');
  }
  expect(log).toContain('"stopped"');
  expect([child.exitCode ?? (await once(child, 'exit'))[0]]).toEqual([0]);
});

test('no signal opens a debugger in sidecar, which npm start runs too', async () => {
  expect(manifest.scripts.start).toMatch(new RegExp(`^exec ${manifest.bin.sidecar} `));
  const folder = new Folder({ 'sidecar.yaml': sidecarFile('http://127.0.0.1:1'), 'accounts.yaml': 'accounts: []\n' });
  const child = spawn(sidecar, ['serve', '--config', folder.file('sidecar.yaml')], { env });
  const stderr = text(child.stderr);
  let log = '';
  for await (const chunk of child.stdout.setEncoding('utf8')) {
    if (!log.includes('"merchants"') && (log + String(chunk)).includes('"merchants"')) {
      child.kill('SIGUSR1');
      // Give Node time to open the debugger, which it does in a separate thread.
      setTimeout(() => child.kill('SIGTERM'), 500);
    }
    log += chunk;
  }
  expect(log).toContain('"stopping"');
  expect(await stderr).toBe('');
});

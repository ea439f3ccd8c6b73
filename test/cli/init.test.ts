import { readFileSync, readdirSync, statSync } from 'node:fs';
import { expect, test } from 'vitest';
import { loadConfig } from '../../src/config/load.ts';
import { runCommand } from '../support/cli.ts';
import { Folder } from '../support/folder.ts';

test('init writes a valid pair of files, and the schemas that their first lines name', async () => {
  const folder = new Folder({});
  const { code, stdout } = await runCommand(['init', folder.file('new/one')]);
  expect(code).toBe(0);
  const next = folder.file('new/one/sidecar.yaml');
  expect(stdout).toMatch(new RegExp(`\nNext: sidecar check --config ${next}, then sidecar serve --config ${next}\n$`));
  const names = ['accounts.schema.json', 'accounts.yaml', 'master-key', 'sidecar.schema.json', 'sidecar.yaml'];
  expect(readdirSync(folder.file('new/one')).toSorted()).toEqual(names);
  const config = folder.file('new/one/sidecar.yaml');
  expect(await runCommand(['check', '--config', config])).toEqual({ code: 0, stdout: 'OK\n', stderr: '' });
  for (const name of ['sidecar', 'accounts']) {
    const text = readFileSync(folder.file(`new/one/${name}.yaml`), 'utf8');
    expect(text).toMatch(new RegExp(`^# yaml-language-server: \\$schema=${name}\\.schema\\.json\n`));
    const schema = readFileSync(folder.file(`new/one/${name}.schema.json`), 'utf8');
    expect(schema).toBe(readFileSync(`config/${name}.schema.json`, 'utf8'));
    expect(JSON.parse(schema)).toMatchObject({ $id: `urn:envelope-sidecar:${name}.schema.json` });
  }
  for (const secret of ['accounts.yaml', 'master-key']) {
    expect(statSync(folder.file(`new/one/${secret}`)).mode & 0o777).toBe(0o600);
  }
});

test('init makes a new master key each time, which seals credentials', async () => {
  const [one, other] = [new Folder({}), new Folder({})];
  for (const { path } of [one, other]) await runCommand(['init', path]);
  const config = ['--config', one.file('sidecar.yaml')];
  await runCommand(['accounts', 'add', 'acme', '--name', 'Acme', ...config]);
  const enabled = await runCommand(['encryption', 'enable', 'acme', '--environment', 'test', '--json', ...config]);
  expect(enabled.stderr).not.toContain('"warn"');
  const { key } = JSON.parse(enabled.stdout) as { key: string };
  const stored = readFileSync(one.file('accounts.yaml'), 'utf8');
  expect(stored).toContain('sealed:v1:');
  expect(stored).not.toContain(key);
  expect(readFileSync(one.file('master-key'), 'utf8')).toMatch(/^[A-Za-z0-9+/]{43}=\n$/);
  expect(readFileSync(one.file('master-key'))).not.toEqual(readFileSync(other.file('master-key')));
});

test('the files that init writes work: an account can be added, and its key can be used', async () => {
  const folder = new Folder({});
  await runCommand(['init', folder.path]);
  const config = ['--config', folder.file('sidecar.yaml')];
  expect((await runCommand(['accounts', 'add', 'acme', '--name', 'Acme', ...config])).code).toBe(0);
  const issue = ['keys', 'issue', 'acme', '--environment', 'test', '--kind', 'secret', ...config];
  expect((await runCommand(issue)).code).toBe(0);
  expect(readFileSync(folder.file('accounts.yaml'), 'utf8')).toContain('# The accounts. Do not write keys by hand');
});

test('every example in the comments that init writes is a valid member of the configuration', async () => {
  const folder = new Folder({});
  await runCommand(['init', folder.path]);
  const lines = readFileSync(folder.file('sidecar.yaml'), 'utf8').split('\n');
  const examples = lines.flatMap((line, i) => (/^ *# [a-zA-Z]+: [[{]/.test(line) ? [i] : []));
  expect(examples).toHaveLength(7);
  for (const example of examples) {
    const text = lines.map((line, i) => (i === example ? line.replace('# ', '') : line)).join('\n');
    folder.write({ 'sidecar.yaml': text });
    const loaded = loadConfig(folder.file('sidecar.yaml'), { DATABASE_URL: 'postgres://localhost/x' });
    // Two kinds of problems are expected: files that an example names are missing, and two environments need hosts.
    const problems = loaded.ok ? [] : loaded.problems.map(({ message }) => message);
    expect(problems.filter((message) => /unknown|expected/i.test(message) && !/hosts|file/.test(message))).toEqual([]);
  }
});

test('init refuses to overwrite files', async () => {
  const folder = new Folder({ 'sidecar.yaml': 'mine\n' });
  const { code, stderr } = await runCommand(['init', folder.path]);
  expect({ code, stderr }).toEqual({
    code: 1,
    stderr: `init: cannot write ${folder.file('sidecar.yaml')}: it already exists\n`,
  });
  expect(readFileSync(folder.file('sidecar.yaml'), 'utf8')).toBe('mine\n');
  expect(readdirSync(folder.path)).toEqual(['sidecar.yaml']);
});

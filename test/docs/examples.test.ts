import { execFile, spawnSync } from 'node:child_process';
import { promisify } from 'node:util';
import { describe, expect, test } from 'vitest';
import { parse } from 'yaml';
import { loadConfig } from '../../src/config/load.ts';
import { runCommand } from '../support/cli.ts';
import { accountsFile, Folder, sidecarFile, type Contents } from '../support/folder.ts';
import { blocks } from '../support/snippets.ts';
import { startApi, token } from '../operators/api.ts';

const upstream = 'http://127.0.0.1:1';

/** Loads a configuration with the members that a page shows. Creates a file for each secret that it reads from /run/secrets. */
function load(shown: string, env: Readonly<Record<string, string>> = {}): ReturnType<typeof loadConfig> {
  const folder = new Folder({ 'accounts.yaml': accountsFile() });
  const members = shown.replaceAll(/\/run\/secrets\/([\w-]+)/g, (_path, name: string) => {
    const masterKey = Buffer.alloc(32, 7).toString('base64');
    folder.write({ [name]: name === 'master-key' ? masterKey : `${name}-0123456789-0123456789-0123456789` });
    return folder.file(name);
  });
  folder.write({ 'sidecar.yaml': sidecarFile(upstream, parse(members) as Contents) });
  return loadConfig(folder.file('sidecar.yaml'), env);
}

const runFile = promisify(execFile);

describe('docs/operators-api.md', () => {
  const page = 'docs/operators-api.md';

  test.each(blocks(page, 'yaml'))('shows a valid configuration: %.60j', (shown) => {
    expect(load(shown)).toMatchObject({ ok: true });
  });

  test('shows a request that creates one API key, however often it is sent', async () => {
    const { ask, url, file } = await startApi();
    await ask('POST /accounts', { body: { id: 'acme', name: 'Acme' } });
    const [command = '', ...others] = blocks(page, 'sh');
    expect(others).toEqual([]);
    const script = command.replace('http://127.0.0.1:9091/api/v1', url);
    const cwd = new Folder({ 'operators-token': `dashboard: ${token}\n` }).path;
    const send = async (): Promise<unknown> => JSON.parse((await runFile('sh', ['-c', script], { cwd })).stdout);
    expect(await send()).toMatchObject({ key: expect.stringMatching(/^sk_test_/) as string });
    expect(await send()).toMatchObject({ secret_shown: false });
    expect(file().match(/sha256/g)).toHaveLength(1);
  });
});

describe('docs/stores.md', () => {
  test.each([
    ['ndjson', 'accounts.ndjson'],
    ['csv', 'accounts.csv'],
  ])('shows an account in %s that can be imported', async (language, name) => {
    const [shown = ''] = blocks('docs/stores.md', language);
    const secrets = ['a'.repeat(64), 'k'.repeat(32), 'i'.repeat(16)];
    const filled = shown.replaceAll('…', () => secrets.shift() ?? '');
    const folder = new Folder({
      'sidecar.yaml': sidecarFile(upstream),
      'accounts.yaml': 'accounts: []\n',
      [name]: filled,
    });
    const args = ['accounts', 'import', folder.file(name), '--config', folder.file('sidecar.yaml')];
    const { code, stdout } = await runCommand(args);
    expect({ code, stdout }).toEqual({ code: 0, stdout: '1 added, 0 already present, 0 refused.\n' });
  });
});

test('docs/postgresql.md shows a valid configuration', () => {
  const [shown = '', ...others] = blocks('docs/postgresql.md', 'yaml');
  expect(others).toEqual([]);
  const [, database = ''] = /# (postgres:\S+)/.exec(shown) ?? [];
  const DATABASE_URL = database.replace(/&sslrootcert=.*/, '');
  expect(DATABASE_URL).toContain('sslmode=verify-full');
  expect(load(shown, { DATABASE_URL })).toMatchObject({ ok: true });
});

test('docs/accounts.md shows a command that finds the last use of a grace period', () => {
  const command = blocks('docs/accounts.md', 'sh').find((each) => each.startsWith('grep ')) ?? '';
  const lines = [
    { time: '1', account: 'acme', credentials: 'previous' },
    { time: '2', account: 'acme', credentials: 'none' },
    { time: '3', account: 'globex', credentials: 'previous' },
    { time: '4', account: 'acme', credentials: 'current' },
    { time: '5', account: 'acme' },
  ];
  const folder = new Folder({ 'sidecar.log': lines.map((line) => JSON.stringify(line)).join('\n') });
  expect(spawnSync('sh', ['-c', command], { cwd: folder.path, encoding: 'utf8' })).toMatchObject({
    status: 0,
    stdout: `${JSON.stringify(lines[1])}\n`,
  });
});

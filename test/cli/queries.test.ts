import { expect, test } from 'vitest';
import type { DueView } from '../../src/accounts/due.ts';
import type { AccountView } from '../../src/accounts/views.ts';
import { runCommand, type CommandSetup, type Ended } from '../support/cli.ts';
import { Folder, sidecarFile } from '../support/folder.ts';
import { describeOnEachStore } from '../support/stores.ts';
import { sha256Hex } from '../../src/cryptography.ts';

const now = Date.parse('2026-11-21T10:00:00Z');
const leaked = 'sk_test_0123456789abcdef0123456789abcdef';

function key(id: string, sha256: string, more: object = {}): object {
  return { id, prefix: 'sk_test_', sha256, createdAt: '2026-11-01', ...more };
}

const accounts = [
  {
    id: 'acme',
    name: 'Acme Stores',
    keys: [key('a1', 'a'.repeat(64), { expiresAt: '2026-12-01' }), key('a2', sha256Hex(leaked))],
  },
  {
    id: 'due.co',
    name: 'Due',
    keys: [key('d1', 'd'.repeat(64), { createdAt: '2026-05-01', expiresAt: '2026-12-01' })],
  },
  { id: 'globex', name: 'Globex', active: false, keys: [key('g1', 'e'.repeat(64), { createdAt: '2026-05-01' })] },
  {
    id: 'initech',
    name: 'Initech 100%',
    keys: [],
    encryption: { test: { enabled: true, key: 'k'.repeat(32), iv: 'i'.repeat(16), createdAt: '2026-11-01' } },
  },
];

type Run = (args: readonly string[], setup?: CommandSetup) => Promise<Ended>;

/** Creates a store with these accounts. Returns a function that runs commands on it. */
async function filled(store: object): Promise<Run> {
  const folder = new Folder({
    'sidecar.yaml': sidecarFile('http://127.0.0.1:1', { accounts: store }),
    'accounts.yaml': 'accounts: []\n',
    'accounts.ndjson': accounts.map((account) => `${JSON.stringify(account)}\n`).join(''),
  });
  const run: Run = (args, setup) =>
    runCommand([...args, '--config', folder.file('sidecar.yaml')], { clock: () => now, ...setup });
  expect(await run(['accounts', 'import', folder.file('accounts.ndjson')])).toMatchObject({ code: 0 });
  return run;
}

describeOnEachStore('queries', (newStore) => {
  const open = async (): Promise<Run> => filled(await newStore());

  test('accounts are searched and filtered', async () => {
    const run = await open();
    const ids = async (...args: string[]): Promise<string[]> => {
      const { code, stdout, stderr } = await run(['accounts', 'list', ...args, '--json']);
      expect({ code, stderr }).toEqual({ code: 0, stderr: '' });
      return (JSON.parse(stdout) as AccountView[]).map(({ id }) => id);
    };
    expect(await ids('--search', 'STORES')).toEqual(['acme']);
    expect(await ids('--search', 'e.c')).toEqual(['due.co']);
    expect(await ids('--search', '%')).toEqual(['initech']);
    expect(await ids('--search', '_')).toEqual([]);
    expect(await ids('--filter', 'inactive')).toEqual(['globex']);
    expect(await ids('--filter', 'encrypting')).toEqual(['initech']);
    expect(await ids('--filter', 'due')).toEqual(['due.co', 'globex']);
    expect(await ids('--filter', 'expiring')).toEqual(['acme', 'due.co']);
    expect(await ids('--filter', 'due', '--search', 'glo')).toEqual(['globex']);
    expect((await run(['accounts', 'list', '--search', 'nothing'])).stdout).toBe('No accounts.\n');
    expect(await run(['accounts', 'list', '--filter', 'other'])).toMatchObject({ code: 2, stdout: '' });
  });

  test('a key is found by its text on standard input or by its hash', async () => {
    const run = await open();
    const found = 'account      acme\nid           a2\nenvironment  test\nkind         secret\nstate        valid\n';
    expect(await run(['keys', 'find'], { stdin: `${leaked}\n` })).toEqual({ code: 0, stdout: found, stderr: '' });
    expect((await run(['keys', 'find', '--sha256', sha256Hex(leaked)])).stdout).toBe(found);
    const json = await run(['keys', 'find', '--json'], { stdin: leaked });
    expect(JSON.parse(json.stdout)).toMatchObject({ account: 'acme', id: 'a2', warnings: [] });
    expect(json.stdout).not.toContain(leaked.slice(8));

    const unknown = await run(['keys', 'find'], { stdin: leaked.replace('0', '1') });
    expect(unknown).toMatchObject({ code: 1, stdout: '', stderr: expect.stringContaining('(key_unknown)') });
    const notAKey = await run(['keys', 'find'], { stdin: 'sk_test_short' });
    expect(notAKey).toMatchObject({ code: 2, stdout: '' });
    expect(notAKey.stderr).not.toContain('short');
    expect(await run(['keys', 'find', '--sha256', 'A'.repeat(64)])).toMatchObject({ code: 2 });
  });

  test('keys that are due or about to expire are listed across accounts, most urgent first', async () => {
    const run = await open();
    const { stdout } = await run(['keys', 'due']);
    expect(stdout.split('\n')[0]).toMatch(
      /^ACCOUNT +ENVIRONMENT +KIND +ID +KEY +NAME +CREATED +EXPIRES +LAST USED +WHY$/,
    );
    expect(stdout).toMatch(/^due\.co +test +secret +d1 +sk_test_… +- +2026-05-01 +2026-12-01 +- +due, expiring$/m);
    const listed = async (...filter: string[]): Promise<readonly string[]> => {
      const due = JSON.parse((await run(['keys', 'due', '--json', ...filter])).stdout) as DueView[];
      return due.map(({ account, id, warnings }) => [account, id, ...warnings].join(' '));
    };
    const keys = ['acme a1 expiring', 'due.co d1 due expiring', 'globex g1 due'];
    expect(await listed()).toEqual(keys);
    expect(await listed('--environment', 'test', '--kind', 'secret')).toEqual(keys);
    expect(await listed('--environment', 'live')).toEqual([]);
    expect(await listed('--kind', 'public')).toEqual([]);
    expect(await run(['keys', 'due', '--kind', 'other'])).toMatchObject({ code: 2 });
    for (const [account, id] of [
      ['acme', 'a1'],
      ['due.co', 'd1'],
      ['globex', 'g1'],
    ] as const) {
      await run(['keys', 'revoke', account, id]);
    }
    expect((await run(['keys', 'due'])).stdout).toBe('Nothing is due or expiring.\n');
  });

  test('an account is renamed and keeps its id', async () => {
    const run = await open();
    const renamed = await run(['accounts', 'rename', 'acme', '--name', 'Acme Ltd', '--actor', 'ana']);
    expect(renamed).toMatchObject({ code: 0, stdout: 'acme is now named Acme Ltd.\n' });
    expect(renamed.stderr).toContain('"action":"account_renamed","account":"acme"');
    expect((await run(['accounts', 'show', 'acme'])).stdout).toContain('name      Acme Ltd\n');
    const other = await run(['accounts', 'rename', 'nobody', '--name', 'X']);
    expect(other).toMatchObject({ code: 1, stderr: expect.stringContaining('(account_unknown)') });
    for (const args of [[], ['--name', ''], ['--name', 'a\nb']]) {
      expect(await run(['accounts', 'rename', 'acme', ...args])).toMatchObject({ code: 2, stdout: '' });
    }
  });

  test('the end of a grace period is moved, and a grace period is ended', async () => {
    const run = await open();
    const grace = (...args: string[]): Promise<Ended> =>
      run(['encryption', 'grace', 'acme', '--environment', 'test', ...args]);
    expect((await grace('--end')).stderr).toContain('(grace_not_running)');
    await run(['encryption', 'enable', 'acme', '--environment', 'test', '--grace', '24h']);
    expect(await grace('--until', '2026-12-01T00:00:00Z')).toMatchObject({
      code: 0,
      stdout: 'The grace period of acme in test lasts until 2026-12-01 00:00 UTC.\n',
    });
    const shown = await run(['encryption', 'show', 'acme', '--environment', 'test']);
    expect(shown.stdout).toContain('also accepts  plaintext, until 2026-12-01 00:00 UTC\n');
    // `--until` must be at least one second and at most 365 days from now.
    expect((await grace('--until', '2026-11-21T10:00:00Z')).stderr).toContain('(until_not_allowed)');
    expect((await grace('--until', '2027-11-21T10:00:01Z')).stderr).toContain('(until_not_allowed)');
    expect(await grace('--until', '2027-11-21T10:00:00Z')).toMatchObject({ code: 0 });
    expect(await grace('--end')).toMatchObject({ code: 0, stdout: 'The grace period of acme in test has ended.\n' });
    expect((await run(['encryption', 'show', 'acme', '--environment', 'test'])).stdout).not.toContain('also accepts');
    for (const args of [[], ['--until', 'tomorrow'], ['--end', '--until', '2026-12-01T00:00:00Z']]) {
      expect(await grace(...args)).toMatchObject({ code: 2, stdout: '' });
    }
  });
});

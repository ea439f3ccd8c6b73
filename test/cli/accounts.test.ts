import { hostname, userInfo } from 'node:os';
import { execFileSync, spawnSync } from 'node:child_process';
import { chmodSync, mkdirSync, rmSync } from 'node:fs';
import { describe, expect, test } from 'vitest';
import { makeApiKey } from '../../src/accounts/key-maker.ts';
import type { AccountView, IssuedKeyView, KeyView } from '../../src/accounts/views.ts';
import { runCommand } from '../support/cli.ts';
import { commandLine, lines, withAcme } from '../support/command-line.ts';
import { sidecarFile } from '../support/folder.ts';
import { masterKey } from '../support/stores.ts';
import { sha256Hex } from '../../src/cryptography.ts';

describe('accounts', () => {
  test('that do not exist yet are reported as none', async () => {
    const { run } = commandLine();
    expect(await run('accounts list')).toEqual({ code: 0, stdout: 'No accounts.\n', stderr: '' });
    expect(await run('accounts list --json')).toEqual({ code: 0, stdout: '[]\n', stderr: '' });
  });

  test('are added, listed and shown', async () => {
    const { run } = await withAcme();
    expect((await run('accounts add globex --name Globex')).stdout).toBe(
      'Added globex.\nNext: sidecar keys issue globex --environment test --kind secret\n',
    );
    expect((await run('accounts list')).stdout).toBe(`ID      NAME         ACTIVE  KEYS  ENCRYPTS
acme    Acme Stores  yes     0     -
globex  Globex       yes     0     -
`);
    expect((await run('accounts show acme')).stdout).toBe(`id        acme
name      Acme Stores
active    yes
encrypts  -

No keys.
`);
  });

  test('are listed as one JSON array, one account per line', async () => {
    const { run, json } = await withAcme();
    await run('accounts add globex --name Globex');
    const listed = await json<AccountView[]>('accounts list');
    expect(listed.map(({ id }) => id)).toEqual(['acme', 'globex']);
    expect(await json('accounts show globex')).toEqual(listed[1]);
    expect(lines((await run('accounts list --json')).stdout)).toHaveLength(4);
  });

  test('are deactivated and activated', async () => {
    const { run, file } = await withAcme();
    expect((await run('accounts deactivate acme')).stdout).toBe('acme is deactivated.\n');
    expect(file()).toContain('active: false');
    expect((await run('accounts list')).stdout).toContain('acme  Acme Stores  no ');
    expect((await run('accounts activate acme')).stdout).toBe('acme is active.\n');
    expect(file()).toContain('active: true');
  });

  test('are changed without losing the comments of the file', async () => {
    const { run, file } = commandLine('# Ours.\naccounts:\n  # The first.\n  - { id: a, name: A } # small\n');
    await run('accounts deactivate a');
    await run('accounts add b --name B');
    expect(file()).toBe(`# Ours.
accounts:
  # The first.
  - { id: a, name: A, active: false } # small
  - id: b
    name: B
    active: true
    keys: []
`);
  });
});

describe('keys', () => {
  test('are issued, shown once, and stored as a hash', async () => {
    const { run, file } = await withAcme();
    const { code, stdout, stderr } = await run('keys issue acme --environment test --kind secret --expires 180d');
    expect(code).toBe(0);
    const [, key = ''] = /^key +(\S+)$/m.exec(stdout) ?? [];
    const [, id = ''] = /^id +(\S+)$/m.exec(stdout) ?? [];
    expect(stdout).toBe(`key          ${key}
id           ${id}
account      acme
environment  test
kind         secret
expires      2027-05-20 10:00 UTC

The key is not shown again: only its hash is stored.
`);
    expect(file()).toContain(`sha256: ${sha256Hex(key)}`);
    expect(file() + stderr).not.toContain(key.slice(8));
    expect((await run('keys list acme')).stdout).toBe(`ID                    KEY            STATE  CREATED     EXPIRES
${id}  sk_test_…${key.slice(-4)}  valid  2026-11-21  2027-05-20
`);
  });

  test('have a name and a hint wherever they are listed, as do their successors', async () => {
    const { run, json, file } = await withAcme();
    const issue = 'keys issue acme --environment live --kind secret --expires 1d';
    const ended = await run(`${issue} --json --name`, 'Till 3');
    const { id, key = '', name, hint } = JSON.parse(ended.stdout) as IssuedKeyView;
    expect([name, hint]).toEqual(['Till 3', `sk_live_…${key.slice(-4)}`]);
    expect(ended.stderr).toContain('"name":"Till 3"');
    expect(file()).toContain(`name: Till 3\n        prefix: sk_live_\n`);
    expect(file()).toContain(
      `lastFour: ${/^\d+$/.test(key.slice(-4)) ? JSON.stringify(key.slice(-4)) : key.slice(-4)}`,
    );
    const shown = new RegExp(`${id} +sk_live_…${key.slice(-4)} +Till 3 `);
    for (const line of ['keys list acme', 'keys due', 'accounts show acme']) {
      expect((await run(line)).stdout).toMatch(shown);
    }
    expect((await run(`keys find --sha256 ${sha256Hex(key)}`)).stdout).toMatch(/\nname +Till 3\nkey +sk_live_…/);
    const next = await json<IssuedKeyView>(`keys rotate acme ${id}`);
    expect(next).toMatchObject({ name: 'Till 3', hint: `sk_live_…${next.key?.slice(-4)}` });
    expect(await run('keys issue acme --environment test --kind secret --name', 'a\nb')).toMatchObject({ code: 2 });
  });

  test('in a file that was written by hand or by the previous version have neither', async () => {
    const keys = [{ id: 'old', prefix: 'sk_test_', sha256: 'a'.repeat(64), createdAt: '2026-11-01' }];
    const { run, json, file } = commandLine({ accounts: [{ id: 'acme', name: 'Acme', keys }] });
    expect(await json('keys list acme')).toMatchObject([{ name: null, hint: null }]);
    await run('keys revoke acme old');
    expect(file()).not.toMatch(/lastFour|name: [^A]/);
  });

  test('live no longer than keys.maxAge allows', async () => {
    const { run, json, folder } = await withAcme();
    const issue = 'keys issue acme --environment test --kind secret';
    const { id } = await json<IssuedKeyView>(issue);
    const long = await json<IssuedKeyView>(`${issue} --expires 60d`);
    folder.write({ 'sidecar.yaml': sidecarFile('http://127.0.0.1:1', { keys: { maxAge: '30d' } }) });
    expect((await json<IssuedKeyView>(issue)).expires_at).toBe('2026-12-21T10:00:59Z');
    expect((await json<IssuedKeyView>(`${issue} --expires 30d`)).expires_at).toBe('2026-12-21T10:00:59Z');
    expect((await json<IssuedKeyView>(`${issue} --expires 1d`)).expires_at).toBe('2026-11-22T10:00:59Z');
    expect(await run(`${issue} --expires 31d`)).toMatchObject({
      code: 1,
      stderr: 'keys issue: keys.maxAge limits the lifetime of a key to 30d (lifetime_not_allowed)\n',
    });
    // The limit also applies to the successors of keys that were issued before it was set.
    for (const old of [id, long.id]) {
      expect((await json<IssuedKeyView>(`keys rotate acme ${old}`)).expires_at).toBe('2026-12-21T10:00:59Z');
    }
  });

  test('are issued as JSON', async () => {
    const { json } = await withAcme();
    const issued = await json<IssuedKeyView>('keys issue acme --environment live --kind public');
    expect(issued).toEqual({
      id: issued.id,
      name: null,
      hint: `pk_live_…${issued.key?.slice(-4)}`,
      account: 'acme',
      environment: 'live',
      kind: 'public',
      state: 'valid',
      created_at: '2026-11-21T10:00:59Z',
      expires_at: null,
      revoked_at: null,
      warnings: [],
      secret_shown: true,
      key: expect.stringMatching(/^pk_live_[0-9A-Za-z]{38}$/) as string,
    });
    const { key: _, secret_shown: __, ...listed } = issued;
    expect(await json('keys list acme')).toEqual([listed]);
  });

  test('are rotated with an overlap of one week, or of the given duration', async () => {
    const { run, json } = await withAcme();
    const { id } = await json<IssuedKeyView>('keys issue acme --environment test --kind secret');
    const { stdout } = await run(`keys rotate acme ${id}`);
    expect(stdout).toContain(`replaces     ${id}, until 2026-11-28 10:00 UTC\n`);
    const other = await json<IssuedKeyView>('keys issue acme --environment test --kind secret');
    const again = await json<IssuedKeyView>(`keys rotate acme ${other.id} --overlap 0s`);
    expect(again.replaces).toEqual({ id: other.id, expires_at: '2026-11-21T10:00:59Z' });
  });

  test('are revoked by id or by the key itself', async () => {
    const { run, json } = await withAcme();
    const one = await json<IssuedKeyView>('keys issue acme --environment test --kind secret');
    const two = await json<IssuedKeyView>('keys issue acme --environment test --kind secret');
    expect((await run(`keys revoke acme ${one.id}`)).stdout).toBe(`${one.id} is revoked.\n`);
    const revoked = await run(`keys revoke acme ${two.key ?? ''}`);
    expect(revoked.stdout).toBe(`${two.id} is revoked.\n`);
    expect(revoked.stderr).not.toContain(two.key);
    expect((await json<KeyView[]>('keys list acme')).map(({ state }) => state)).toEqual(['revoked', 'revoked']);
  });

  test('that are mistyped are distinguished from unknown ones', async () => {
    const { run } = await withAcme();
    const key = makeApiKey('test', 'secret');
    const stranger = 'keys revoke: account acme does not have this key';
    expect((await run(`keys revoke acme ${key}`)).stderr).toBe(`${stranger} (key_unknown)\n`);
    expect((await run(`keys revoke acme ${key.slice(0, -1)}-`)).stderr).toBe(
      `${stranger}: it is mistyped, or was not created by "keys issue" (key_unknown)\n`,
    );
  });
});

describe('encryption', () => {
  test('is enabled, shown, replaced and disabled', async () => {
    const { run, json, file } = await withAcme();
    const enabled = await run('encryption enable acme --environment test');
    const [, key = ''] = /^key +(\S+)$/m.exec(enabled.stdout) ?? [];
    const [, iv = ''] = /^iv +(\S+)$/m.exec(enabled.stdout) ?? [];
    const { stdout: digest } = spawnSync('openssl', ['sha256', '-r'], { input: key + iv, encoding: 'utf8' });
    const before = digest.slice(0, 16);
    expect(enabled.stdout).toBe(`key          ${key}
iv           ${iv}
fingerprint  ${before}
account      acme
environment  test
encryption   on
encoding     hex
created      2026-11-21 10:00 UTC

The key and the IV are not shown again. Give all three to the merchant unchanged.
`);
    expect(enabled.stderr).not.toContain(key);
    expect(file()).toContain(key);
    expect((await run('encryption enable acme --environment test')).stderr).toBe(
      'encryption enable: encryption is already enabled for account acme in test: new credentials need --replace (in the API "replace": true) (encryption_enabled)\n',
    );
    const replaced = await run('encryption enable acme --environment test --replace --grace 24h --encoding base64');
    expect(replaced.stdout).not.toContain(key);
    const [, fingerprint = ''] = /^fingerprint +([0-9a-f]{16})$/m.exec(replaced.stdout) ?? [];
    expect((await run('encryption show acme --environment test')).stdout).toBe(`fingerprint           ${fingerprint}
account               acme
environment           test
encryption            on
encoding              base64
created               2026-11-21 10:00 UTC
also accepts          the previous credentials, until 2026-11-22 10:00 UTC
last used             not recorded by the file store: see "credentials" in the log
previous fingerprint  ${before}
`);
    expect(await json('encryption show acme --environment test')).toMatchObject({
      fingerprint,
      previous: { fingerprint: before },
    });
    expect((await run('encryption disable acme --environment test')).stdout).toBe(
      'Encryption is off for acme in test.\n',
    );
    expect(file()).not.toContain(key);
    expect((await run('encryption show acme --environment test')).stdout).toBe(
      'account      acme\nenvironment  test\nencryption   off\nencoding     base64\n',
    );
    expect((await run('encryption disable acme --environment test')).code).toBe(1);
  });

  test('is disabled with a grace period', async () => {
    const { run } = await withAcme();
    const { stdout } = await run('encryption enable acme --environment test');
    const [, fingerprint = ''] = /^fingerprint +(\S+)$/m.exec(stdout) ?? [];
    expect((await run('encryption disable acme --environment test --grace 24h')).stdout).toBe(
      'Encryption is off for acme in test; envelopes are accepted until 2026-11-22 10:00 UTC.\n',
    );
    expect((await run('encryption show acme --environment test')).stdout).toBe(`account               acme
environment           test
encryption            off
encoding              hex
also accepts          the previous credentials, until 2026-11-22 10:00 UTC
last used             not recorded by the file store: see "credentials" in the log
previous fingerprint  ${fingerprint}
`);
  });

  test('is enabled with credentials that are wrapped by the master key', async () => {
    const { run, json, file, folder } = commandLine('accounts: [{ id: acme, name: Acme }]\n', {
      env: { SIDECAR_MASTER_KEY: masterKey },
    });
    const { key = '', iv = '' } = await json<{ key?: string; iv?: string }>(
      'encryption enable acme --environment live',
    );
    expect(file()).not.toContain(key);
    expect(file()).not.toContain(iv);
    expect(file().match(/sealed:v1:/g)).toHaveLength(2);
    expect((await run('accounts list')).stdout).toContain('live');
    const without = ['encryption', 'enable', 'acme', '--environment', 'test', '--config', folder.file('sidecar.yaml')];
    expect(await runCommand(without)).toMatchObject({
      code: 78,
      stdout: '',
      stderr: expect.stringMatching(
        /new ones would be stored unsealed: set accounts\.masterKey \(master_key_missing\)\n$/,
      ) as string,
    });
  });
});

describe('a command that fails', () => {
  test.each([
    ['accounts show other', 1, 'accounts show: account other does not exist (account_unknown)'],
    ['accounts add acme --name A', 1, 'accounts add: account acme already exists (account_exists)'],
    ['keys list other', 1, 'keys list: account other does not exist (account_unknown)'],
    ['keys revoke acme key_1', 1, 'keys revoke: account acme has no key with this id (key_unknown)'],
    ['keys rotate acme key_1', 1, 'keys rotate: account acme has no key with this id (key_unknown)'],
    [
      'encryption disable acme --environment live',
      1,
      'encryption disable: encryption is not enabled for account acme in live (encryption_disabled)',
    ],
    [
      'keys issue acme --environment prod --kind secret',
      2,
      "error: option '--environment <environment>' argument 'prod' is invalid. Allowed choices are test, live.",
    ],
    ['keys issue acme --kind secret', 2, "error: missing: '--environment <environment>'"],
    [
      'keys issue acme --environment test --kind secret --expires 1y',
      2,
      "error: option '--expires <duration>' argument '1y' is invalid. Expected a duration such as 250ms, 30s, 5m, 12h or 7d, from 1s to 3650d.",
    ],
    [
      'accounts add a/b --name A',
      2,
      'error: command-argument value \'a/b\' is invalid for argument \'id\'. Expected 1 to 64 letters, digits, ".", "_" or "-", but not an API key.',
    ],
    ['accounts add ok', 2, "error: missing: '--name <name>'"],
    ['keys issue', 2, "error: missing: '--environment <environment>', '--kind <kind>', '<account>'"],
    ['accounts nothing', 2, "error: unknown command 'nothing'"],
  ])('`%s` exits with %i and one line on stderr', async (command, code, message) => {
    const { run } = await withAcme();
    const ended = await run(command);
    expect(ended).toMatchObject({ code, stdout: '' });
    expect(lines(ended.stderr)[0]).toBe(message);
  });

  test('writes the audit log line to stderr, unless stderr is a terminal', async () => {
    const line = 'accounts add acme --name Acme';
    expect((await commandLine().run(line)).stderr).toContain('"action":"account_added"');
    const terminal = commandLine(undefined, { isTerminal: true });
    expect(await terminal.run(line)).toMatchObject({ code: 0, stderr: '' });
    expect((await terminal.run('audit list')).stdout).toContain('account_added');
    // Even in a terminal, errors are written to stderr.
    expect((await terminal.run(line)).stderr).toContain('account_exists');
  });

  test('exits with 78 and the problems if the configuration is invalid', async () => {
    const { run, folder } = commandLine();
    folder.write({ 'accounts.yaml': 'accounts: [{ id: a }]\n' });
    expect(await run('accounts list')).toEqual({
      code: 78,
      stdout: '',
      stderr: `accounts list: ${folder.file('accounts.yaml')}:1:12  accounts[0].name  missing: expected 1 to 200 characters without control characters (store_invalid)\n`,
    });
  });

  const notRead = 'cannot read the file: it is';
  test.each([
    ['is missing', () => {}, ' does not exist'],
    ['is a folder', (path: string) => mkdirSync(path), `: ${notRead} a directory`],
    ['is a FIFO', (path: string) => execFileSync('mkfifo', [path]), `: ${notRead} not a regular file`],
  ])('exits with 78, like `check`, if the accounts file %s', async (_, put, message) => {
    const { run, folder } = commandLine();
    const path = folder.file('accounts.yaml');
    rmSync(path);
    put(path);
    for (const command of ['accounts list', 'accounts add acme --name Acme', 'keys due']) {
      const [group, verb] = command.split(' ');
      const stderr = `${group} ${verb}: ${path}${message} (store_unavailable)\n`;
      expect(await run(command)).toEqual({ code: 78, stdout: '', stderr });
    }
    expect((await run('check')).code).toBe(78);
  });

  test.skipIf(process.getuid?.() !== 0).each([
    ['file', 0o000, 0o755],
    ['folder', 0o644, 0o700],
  ])('exits with 78 and the reason if the accounts %s may not be read', (_, fileMode, folderMode) => {
    const { folder } = commandLine();
    const inner = folder.file('inner');
    mkdirSync(inner);
    folder.write({
      'inner/accounts.yaml': 'accounts: []\n',
      'sidecar.yaml': sidecarFile('http://127.0.0.1:1', { accounts: { file: 'inner/accounts.yaml' } }),
    });
    chmodSync(folder.path, 0o755);
    chmodSync(folder.file('inner/accounts.yaml'), fileMode);
    chmodSync(inner, folderMode);
    const args = ['src/main.ts', 'accounts', 'list', '--config', folder.file('sidecar.yaml')];
    const { status, stderr } = spawnSync(process.execPath, args, { uid: 65_534, gid: 65_534, encoding: 'utf8' });
    expect({ status, stderr }).toEqual({
      status: 78,
      stderr: expect.stringMatching(
        /accounts\.yaml:? cannot read the file: permission denied for user \d+ \(store_unavailable\)\n$/,
      ),
    });
  });
});

test('each change writes an audit line to stderr with actor, action and time, without secrets', async () => {
  const { run, json } = commandLine();
  const audit: Record<string, unknown>[] = [];
  const secrets: string[] = [];
  const change = async (line: string): Promise<IssuedKeyView> => {
    const { stdout, stderr } = await run(line, '--json');
    const logged = lines(stderr).map((each) => JSON.parse(each) as Record<string, unknown>);
    audit.push(...logged.filter(({ msg }) => msg === 'audit'));
    const shown = JSON.parse(stdout) as IssuedKeyView & { iv?: string };
    secrets.push(...[shown.key, shown.iv].filter((secret) => secret !== undefined));
    return shown;
  };
  await change('accounts add acme --name Acme');
  const { id } = await change('keys issue acme --environment test --kind secret');
  const rotated = await change(`keys rotate acme ${id}`);
  await change(`keys revoke acme ${id}`);
  await change('encryption enable acme --environment test');
  await change('encryption disable acme --environment test');
  await change('accounts deactivate acme');
  await json('accounts list');
  expect(secrets).toHaveLength(4);
  for (const secret of secrets) expect(JSON.stringify(audit)).not.toContain(secret);
  const time = expect.stringMatching(/^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z$/) as string;
  const actor = expect.stringMatching(/^user:\w/) as string;
  const line = (action: string, more: object = {}): object => ({
    level: 'info',
    time,
    actor,
    action,
    account: 'acme',
    origin: `${userInfo().username}@${hostname()}`,
    position: expect.any(Number) as number,
    hash: expect.stringMatching(/^[0-9a-f]{64}$/) as string,
    ...more,
    msg: 'audit',
  });
  expect(audit.map(({ position }) => position)).toEqual([1, 2, 3, 4, 5, 6, 7]);
  expect(audit).toEqual([
    line('account_added', { name: 'Acme' }),
    line('key_issued', { key: id, environment: 'test', kind: 'secret' }),
    line('key_rotated', {
      key: rotated.id,
      replaces: id,
      environment: 'test',
      replaced_expires_at: '2026-11-28T10:00:59Z',
    }),
    line('key_revoked', { key: id, environment: 'test' }),
    line('encryption_enabled', { environment: 'test', replaced: false }),
    line('encryption_disabled', { environment: 'test' }),
    line('account_deactivated'),
  ]);
});

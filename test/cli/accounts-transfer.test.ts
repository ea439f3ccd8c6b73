import { readFileSync } from 'node:fs';
import { describe, expect, test } from 'vitest';
import { runCommand, type CommandSetup, type Ended } from '../support/cli.ts';
import { Folder, sidecarFile } from '../support/folder.ts';
import { masterKey, otherMasterKey } from '../support/stores.ts';
import { sha256Hex } from '../../src/cryptography.ts';

const createdAt = '2026-11-01';
const key = 'sk_test_0123456789abcdef';
const aes = 'k'.repeat(32);
const iv = 'i'.repeat(16);

/** A store without accounts, in a file with or without a master key. */
class TransferFolder {
  readonly folder: Folder;
  readonly #setup: CommandSetup;

  constructor(masterKey?: string, setup: CommandSetup = {}) {
    this.#setup = setup;
    this.folder = new Folder({
      'sidecar.yaml': sidecarFile('http://127.0.0.1:1'),
      'accounts.yaml': 'accounts: []\n',
      'master-key': `${masterKey ?? ''}\n`,
    });
    if (masterKey !== undefined) this.configureMasterKey();
  }

  configureMasterKey(): void {
    const accounts = { file: 'accounts.yaml', masterKey: { file: 'master-key' } };
    this.folder.write({ 'sidecar.yaml': sidecarFile('http://127.0.0.1:1', { accounts }) });
  }

  get config(): string {
    return this.folder.file('sidecar.yaml');
  }

  run(...args: readonly string[]): Promise<Ended> {
    return runCommand([...args, '--config', this.config], this.#setup);
  }

  /** Imports these lines; those that are not strings are written as JSON. */
  import(lines: readonly unknown[], file = 'lines.ndjson', ...more: readonly string[]): Promise<Ended> {
    const text = lines.map((line) => (typeof line === 'string' ? line : JSON.stringify(line))).join('\n');
    this.folder.write({ [file]: text });
    return this.run('accounts', 'import', this.folder.file(file), ...more);
  }

  async export(): Promise<string> {
    return (await this.run('accounts', 'export')).stdout;
  }

  get text(): string {
    return readFileSync(this.folder.file('accounts.yaml'), 'utf8');
  }
}

const acme = {
  id: 'acme',
  name: 'Acme',
  active: true,
  keys: [{ id: 'acme-1', prefix: 'sk_test_', sha256: sha256Hex(key), createdAt: '2026-11-01T00:00:00Z' }],
  encryption: { test: { enabled: true, key: aes, iv, encoding: 'hex' } },
};
const globex = { id: 'globex', name: 'Globex', active: true, keys: [] };

const globexKey = { id: 'globex-1', prefix: 'sk_test_', sha256: 'b'.repeat(64), createdAt: '2026-11-01T00:00:00Z' };

describe('accounts apply', () => {
  const apply = async (transfer: TransferFolder, lines: readonly unknown[], ...more: readonly string[]) => {
    transfer.folder.write({
      wanted: lines.map((line) => (typeof line === 'string' ? line : JSON.stringify(line))).join('\n'),
    });
    return transfer.run('accounts', 'apply', transfer.folder.file('wanted'), ...more);
  };

  test('adds, renames, activates and deactivates accounts, and leaves keys, encryption and other accounts alone', async () => {
    const transfer = new TransferFolder();
    await transfer.import([acme, globex, { ...globex, id: 'rest' }, { ...globex, id: 'off', active: false }]);
    const before = transfer.text;
    const wanted = [
      { id: 'acme', name: 'Acme Ltd', keys: [globexKey] },
      { id: 'globex', name: 'Globex', active: false },
      { id: 'off', name: 'Globex' },
      { id: 'new', name: 'New', active: false },
    ];
    const list = `account_renamed  acme  Acme Ltd
account_deactivated  globex
account_activated  off
account_added  new  New
account_deactivated  new
`;
    expect(await apply(transfer, wanted, '--dry-run')).toEqual({
      code: 0,
      stdout: `${list}Dry run: 5 changes, 4 accounts in the file.\n`,
      stderr: '',
    });
    expect(transfer.text).toBe(before);
    const { code, stdout, stderr } = await apply(transfer, wanted);
    expect([code, stdout]).toEqual([0, `${list}5 changes, 4 accounts in the file.\n`]);
    expect(stderr.match(/"msg":"audit"/g)).toHaveLength(5);
    const accounts = (await transfer.export()).trim().split('\n');
    expect(accounts.map((line) => JSON.parse(line) as unknown)).toEqual([
      { ...acme, name: 'Acme Ltd' },
      { ...globex, active: false },
      { ...globex, id: 'new', name: 'New', active: false },
      { ...globex, id: 'off', active: true },
      { ...globex, id: 'rest' },
    ]);
    expect((await apply(transfer, wanted)).stdout).toBe('0 changes, 4 accounts in the file.\n');
  });

  test('changes nothing if a line is wrong', async () => {
    const transfer = new TransferFolder();
    const { code, stdout, stderr } = await apply(transfer, [globex, '{']);
    expect([code, stdout]).toEqual([1, '']);
    expect(stderr).toMatch(/wanted:2 {2}\. {2}not JSON.*\naccounts apply: nothing was changed: correct the file\n$/);
    expect(transfer.text).toBe('accounts: []\n');
  });

  test('refuses an account that is in the file twice, because it is unclear which entry is meant', async () => {
    const transfer = new TransferFolder();
    const { code, stdout, stderr } = await apply(transfer, [globex, { ...globex, active: false }]);
    expect([code, stdout]).toEqual([1, '']);
    expect(stderr).toMatch(/wanted:2 {2}the account globex is in the file twice\n/);
    expect(transfer.text).toBe('accounts: []\n');
  });
});

describe('accounts import', () => {
  test('adds accounts from NDJSON', async () => {
    const transfer = new TransferFolder();
    const { code, stdout, stderr } = await transfer.import([acme, globex]);
    expect({ code, stdout }).toEqual({ code: 0, stdout: '2 added, 0 already present, 0 refused.\n' });
    expect(JSON.parse(stderr)).toMatchObject({ action: 'account_imported', accounts: 2, msg: 'audit' });
    expect(await transfer.export()).toBe(`${JSON.stringify(acme)}\n${JSON.stringify(globex)}\n`);
  });

  test('adds accounts from CSV', async () => {
    const transfer = new TransferFolder();
    const csv = [
      'id,name,keys.0.id,keys.0.key,keys.0.createdAt,encryption.test.enabled,encryption.test.key,encryption.test.iv',
      `acme,Acme,acme-1,${key},${createdAt},true,${aes},${iv}`,
      'globex,Globex,,,,,,',
    ];
    expect((await transfer.import(csv, 'lines.csv', '--json')).stdout).toBe('{"added":2,"unchanged":0,"refused":0}\n');
    expect(await transfer.export()).toBe(`${JSON.stringify(acme)}\n${JSON.stringify(globex)}\n`);
  });

  test('adds nothing if a line is refused', async () => {
    const transfer = new TransferFolder();
    await transfer.import([acme]);
    const before = transfer.text;
    const thief = { ...globex, id: 'thief', keys: [{ ...globexKey, id: 'thief-1' }] };
    for (const wrong of ['{', { id: 'x' }, { ...acme, name: 'Other' }, thief]) {
      const { code, stdout, stderr } = await transfer.import([{ ...globex, keys: [globexKey] }, wrong]);
      expect([code, stdout]).toEqual([1, '0 added, 0 already present, 1 refused.\n']);
      expect(stderr).toContain('lines.ndjson:2  ');
      expect(stderr).toMatch(/\naccounts import: nothing was added: correct the file, or use --partial\n$/);
      expect(transfer.text).toBe(before);
    }
  });

  test('with --dry-run lists what it would add, and adds nothing', async () => {
    const transfer = new TransferFolder(masterKey);
    await transfer.import([acme]);
    const before = transfer.text;
    const dry = await transfer.import([acme, globex, { ...acme, id: 'other', keys: [] }], undefined, '--dry-run');
    expect(dry).toEqual({
      code: 0,
      stdout: '+ globex  Globex  0 keys\n+ other  Acme  0 keys\nDry run: 2 added, 1 already present, 0 refused.\n',
      stderr: '',
    });
    const refused = await transfer.import([globex, '{'], undefined, '--dry-run');
    expect([refused.code, refused.stderr]).toEqual([1, expect.stringContaining('lines.ndjson:2  .  not JSON')]);
    expect(refused.stdout).toMatch(/\nDry run: 0 added, 0 already present, 1 refused\.\n$/);
    expect(refused.stderr).toMatch(/: nothing would be added: correct the file, or use --partial\n$/);
    const partial = await transfer.import([globex, '{'], undefined, '--dry-run', '--partial');
    expect(partial.stdout).toMatch(/\nDry run: 1 added, 0 already present, 1 refused\.\n$/);
    expect(JSON.parse((await transfer.import([globex], undefined, '--dry-run', '--json')).stdout)).toEqual({
      added: 1,
      unchanged: 0,
      refused: 0,
    });
    expect(transfer.text).toBe(before);
  });

  test('can be repeated: equal accounts are skipped, different ones refused and left unchanged', async () => {
    const transfer = new TransferFolder(masterKey);
    await transfer.import([acme]);
    const again = await transfer.import([acme, globex, { ...acme, name: 'Other' }], 'lines.ndjson', '--partial');
    expect(again).toMatchObject({ code: 1, stdout: '1 added, 1 already present, 1 refused.\n' });
    expect(again.stderr).toContain(
      `${transfer.folder.file('lines.ndjson')}:3  account acme already exists and differs\n`,
    );
    expect(again.stderr).toMatch(
      /\naccounts import: some accounts were refused: correct them, then run the command again\n$/,
    );
    expect(transfer.text).toContain('name: Acme\n');
    expect(await transfer.import([acme, globex])).toEqual({
      code: 0,
      stdout: '0 added, 2 already present, 0 refused.\n',
      stderr: '',
    });
  });

  test('with --partial names the lines with problems, and adds the others', async () => {
    const transfer = new TransferFolder();
    const thief = { ...globex, id: 'thief', keys: [{ ...acme.keys[0], id: 'thief-1' }] };
    const live = {
      ...acme,
      id: 'both',
      keys: [],
      encryption: { test: acme.encryption.test, live: acme.encryption.test },
    };
    const others = Array.from({ length: 5 }, (_, i) => ({ ...globex, id: `globex-${i}` }));
    const { code, stdout, stderr } = await transfer.import(
      [acme, '{', ...others, thief, live, { id: 'x' }],
      'lines.ndjson',
      '--partial',
    );
    expect({ code, stdout }).toEqual({ code: 1, stdout: '6 added, 0 already present, 4 refused.\n' });
    const file = transfer.folder.file('lines.ndjson');
    expect(stderr.split('\n').filter((line) => line.startsWith(file))).toEqual([
      `${file}:2  .  not JSON: expected one account per line`,
      `${file}:9  encryption.live.key  the same key as encryption.test.key: live needs its own`,
      `${file}:10  name  missing: expected 1 to 200 characters without control characters`,
      `${file}:8  a key of account thief is already in the store: thief-1`,
    ]);
    expect(stderr).not.toContain(aes);
  });

  test.each([
    ['encryption.live.key,encryption.live.key.x', '1  .  column 4: names the same member as column 3, or one inside'],
    ['keys.0.id,keys.length', '2  keys  expected a list'],
    ['keys.0.id,keys.x', '2  keys  expected a list'],
    ['keys.00.id,active', '2  keys  expected a list'],
    ['encryption.live.iv,encryption.live.iv', '1  .  column 4: names the same member as column 3, or one inside'],
  ])(
    'names the line on which the columns %s are wrong, without the contents of their cells',
    async (columns, problem) => {
      const transfer = new TransferFolder();
      const secret = '5ecret'.repeat(4);
      const result = await transfer.import([`id,name,${columns}`, `acme,Acme,${secret},${secret}`], 'lines.csv');
      expect(result).toMatchObject({ code: 1, stdout: '0 added, 0 already present, 1 refused.\n' });
      expect(result.stderr).toContain(`${transfer.folder.file('lines.csv')}:${problem}`);
      expect(result.stderr).not.toContain('5ecret');
      expect(transfer.text).toBe('accounts: []\n');
    },
  );

  test('wraps the credentials of added accounts', async () => {
    const transfer = new TransferFolder(masterKey);
    await transfer.import([acme]);
    expect(transfer.text).not.toContain(aes);
    expect(transfer.text.match(/sealed:v1:/g)).toHaveLength(2);
  });

  test.each([
    ['that is not there', 'none', /^accounts import: cannot read .*none: ENOENT\n$/],
    ['that is a folder', '.', /^accounts import: cannot read .*: it is a directory\n$/],
    ['that is not UTF-8', 'latin1', /^accounts import: cannot read .*latin1: it is not UTF-8\n$/],
  ])('changes nothing if given a file %s', async (_, name, message) => {
    const transfer = new TransferFolder();
    transfer.folder.writeBytes('latin1', Buffer.from('{"id": "a", "name": "\xe9"}', 'latin1'));
    const { code, stdout, stderr } = await transfer.run('accounts', 'import', transfer.folder.file(name));
    expect({ code, stdout }).toEqual({ code: 1, stdout: '' });
    expect(stderr).toMatch(message);
    expect(transfer.text).toBe('accounts: []\n');
  });
});

describe('accounts export', () => {
  test('leaves credentials wrapped, so that only a store with the same master key can import them', async () => {
    const transfer = new TransferFolder(masterKey);
    await transfer.import([acme, globex]);
    const exported = await transfer.export();
    expect(exported).not.toContain(aes);
    const same = new TransferFolder(masterKey);
    expect((await same.import([exported])).stdout).toBe('2 added, 0 already present, 0 refused.\n');
    expect((await transfer.import([await same.export()])).stdout).toBe('0 added, 2 already present, 0 refused.\n');
    const other = new TransferFolder(otherMasterKey);
    const refused = await other.import([exported], 'lines.ndjson', '--partial');
    expect(refused).toMatchObject({ code: 1, stdout: '1 added, 0 already present, 1 refused.\n' });
    expect(refused.stderr).toContain('encryption.test.key  does not open, nor does any other sealed value');
  });
});

test('accounts import and apply accept every name that a store can contain, so that an export can be restored', async () => {
  const name = 'Zoë\u200d👩\u200d🍳 می\u200cخواهم Ti\u00adll\u200f\ue000';
  const named = { ...acme, name, keys: acme.keys.map((key) => ({ ...key, name })) };
  const transfer = new TransferFolder();
  transfer.folder.write({ 'accounts.yaml': { accounts: [named] } });
  const exported = await transfer.export();
  const other = new TransferFolder();
  expect((await other.import([exported])).stdout).toBe('1 added, 0 already present, 0 refused.\n');
  expect(await other.export()).toBe(exported);
  other.folder.write({ 'wanted.ndjson': `${JSON.stringify({ id: acme.id, name })}\n` });
  expect(await other.run('accounts', 'apply', other.folder.file('wanted.ndjson'))).toMatchObject({
    code: 0,
    stdout: '0 changes, 1 account in the file.\n',
  });
});

describe('accounts export of an account with many keys', () => {
  const withKeys = (count: number) => ({
    id: 'many',
    name: 'Many',
    active: true,
    keys: Array.from({ length: count }, (_, i) => ({
      id: `k${i}`.padEnd(64, 'x'),
      prefix: 'sk_test_',
      sha256: String(i).padStart(64, '0'),
      name: '"'.repeat(200),
      lastFour: 'abcd',
      createdAt: '2026-11-01T00:00:00.001Z',
      expiresAt: '2027-11-01T00:00:00.001Z',
      revokedAt: '2026-11-02T00:00:00.001Z',
    })),
  });

  test('writes a line that an import accepts, even for five thousand keys with the longest names', async () => {
    const transfer = new TransferFolder();
    transfer.folder.write({ 'accounts.yaml': { accounts: [withKeys(5_000)] } });
    const line = await transfer.export();
    expect(line.length).toBeGreaterThan(3_000_000);
    expect((await new TransferFolder().import([line])).stdout).toBe('1 added, 0 already present, 0 refused.\n');
  });

  test('omits the account, and says so, if its line would be too long to import', async () => {
    const transfer = new TransferFolder();
    transfer.folder.write({ 'accounts.yaml': { accounts: [acme, withKeys(8_000)] } });
    const { code, stdout, stderr } = await transfer.run('accounts', 'export');
    expect({ code, stdout }).toEqual({ code: 78, stdout: `${JSON.stringify(acme)}\n` });
    expect(stderr).toContain('account many has too many keys: its line is longer than 4 MiB');
  });
});

describe('accounts copy', () => {
  test('adds all accounts to another store, wrapped with the master key of that store', async () => {
    const [from, to] = [new TransferFolder(masterKey), new TransferFolder(otherMasterKey)];
    await from.import([acme, globex]);
    const copied = await from.run('accounts', 'copy', '--to', to.config);
    expect(copied).toMatchObject({ code: 0, stdout: '2 added, 0 already present, 0 refused.\n' });
    expect(to.text).not.toContain(aes);
    const plain = new TransferFolder();
    await to.run('accounts', 'copy', '--to', plain.config);
    expect(await plain.export()).toBe(`${JSON.stringify(acme)}\n${JSON.stringify(globex)}\n`);
    expect((await from.run('accounts', 'copy', '--to', to.config)).stdout).toBe(
      '0 added, 2 already present, 0 refused.\n',
    );
  });

  test('names an account that differs in the other store', async () => {
    const [from, to] = [new TransferFolder(), new TransferFolder()];
    await from.import([acme, globex]);
    await to.import([{ ...acme, name: 'Other' }]);
    const copied = await from.run('accounts', 'copy', '--to', to.config);
    expect(copied).toMatchObject({ code: 1, stdout: '1 added, 0 already present, 1 refused.\n' });
    expect(copied.stderr).toContain('acme  account acme already exists and differs\n');
  });

  test('needs a valid configuration to copy to', async () => {
    const from = new TransferFolder();
    const { code, stderr } = await from.run('accounts', 'copy', '--to', '/nowhere');
    expect(code).toBe(78);
    expect(stderr).toBe('/nowhere:1:1  .  cannot read the file: it does not exist\n');
  });
});

describe('accounts rekey', () => {
  async function rekeyed(transfer: TransferFolder, masterKey: string): Promise<Ended> {
    transfer.folder.write({ 'new-key': masterKey });
    return transfer.run('accounts', 'rekey', '--new-master-key-file', transfer.folder.file('new-key'));
  }

  test('wraps all credentials with another master key, after which the old one can be removed', async () => {
    const transfer = new TransferFolder(masterKey);
    await transfer.import([acme, globex]);
    transfer.folder.write({ 'master-key': `${masterKey}\n${otherMasterKey}\n` });
    const { stdout, stderr } = await rekeyed(transfer, otherMasterKey);
    expect(stdout).toMatch(
      /^1 account was wrapped with the new master key, KCV [0-9a-f]{10}\.\nPut the new key on the first line, .* run this command again/,
    );
    expect(JSON.parse(stderr)).toMatchObject({ action: 'master_key_changed', accounts: 1, msg: 'audit' });
    expect((await transfer.run('accounts', 'list')).code).toBe(0);
    transfer.folder.write({ 'master-key': `${otherMasterKey}\n${masterKey}\n` });
    expect((await rekeyed(transfer, otherMasterKey)).stdout).toMatch(
      /^0 accounts were .*\n.* you can remove the old key\.\n$/,
    );
    transfer.folder.write({ 'master-key': otherMasterKey });
    expect((await transfer.run('accounts', 'list')).code).toBe(0);
  });

  test('refuses a master key that is not configured, and explains the order of the steps', async () => {
    const transfer = new TransferFolder(masterKey);
    await transfer.import([acme]);
    const before = transfer.text;
    const { code, stdout, stderr } = await rekeyed(transfer, otherMasterKey);
    expect({ code, stdout }).toEqual({ code: 78, stdout: '' });
    expect(stderr).toMatch(/second line .* first line, .* remove the old key \(master_key_not_configured\)\n$/);
    expect(transfer.text).toBe(before);
  });

  test('wraps credentials that were not wrapped', async () => {
    const transfer = new TransferFolder();
    await transfer.import([acme]);
    transfer.folder.write({ 'master-key': masterKey });
    transfer.configureMasterKey();
    await rekeyed(transfer, masterKey);
    expect(transfer.text).not.toContain(aes);
    expect(transfer.text.match(/sealed:v1:/g)).toHaveLength(2);
  });

  test('refuses a file without a valid master key', async () => {
    const transfer = new TransferFolder(masterKey);
    const before = transfer.text;
    expect(await rekeyed(transfer, 'too short')).toMatchObject({
      code: 1,
      stderr: `accounts rekey: ${transfer.folder.file('new-key')}: expected 32 bytes in base64 or hex\n`,
    });
    const missing = await transfer.run('accounts', 'rekey', '--new-master-key-file', '/nowhere');
    expect(missing.stderr).toBe('accounts rekey: cannot read /nowhere: ENOENT\n');
    expect(transfer.text).toBe(before);
  });
});

test('an import refuses a line that is too long or has too many cells, and names its number', async () => {
  const transfer = new TransferFolder();
  const long = { id: 'long', name: 'x'.repeat(8_000_000) };
  const ndjson = await transfer.import(
    [{ id: 'a', name: 'A' }, long, { id: 'b', name: 'B' }],
    'lines.ndjson',
    '--partial',
  );
  expect(ndjson.stdout).toBe('2 added, 0 already present, 1 refused.\n');
  expect(ndjson.stderr).toContain('lines.ndjson:2  .  longer than 4 MiB\n');
  const before = transfer.text;
  const columns = Array.from({ length: 20_000 }, (_, i) => `c${i}`).join(',');
  expect((await transfer.import([columns, 'x'], 'wide.csv')).stderr).toContain('wide.csv:1  .  more than 1000 cells\n');
  const quoted = await transfer.import(['id,name', `c,"${'x'.repeat(8_000_000)}"`, 'd,D'], 'quoted.csv');
  expect(quoted.stderr).toContain('quoted.csv:2  .  longer than 4 MiB\n');
  expect(transfer.text).toBe(before);
});

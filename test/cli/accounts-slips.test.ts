import { expect, test } from 'vitest';
import { parseMasterKeys } from '../../src/accounts/master-key.ts';
import { Vault } from '../../src/accounts/vault.ts';
import type { EnabledView, IssuedKeyView } from '../../src/accounts/views.ts';
import type { Ended } from '../support/cli.ts';
import { startCommand, type Command } from '../support/command.ts';
import { commandsOn } from '../support/command-line.ts';
import { Folder, sidecarFile } from '../support/folder.ts';
import { describeOnEachStore, masterKey } from '../support/stores.ts';
import { sha256Hex } from '../../src/cryptography.ts';

const vault = new Vault(parseMasterKeys(masterKey) ?? []);

/** An account as `accounts export` writes it. */
interface Exported {
  readonly id: string;
  readonly keys: readonly { readonly id: string; readonly sha256: string; readonly expiresAt?: string }[];
  readonly encryption?: { readonly test?: { readonly enabled: boolean; readonly key?: string } };
}

// Each command runs in its own process, and all of them run at the same time.
describeOnEachStore('two operators', (newStore) => {
  async function storeWithAcme() {
    const folder = new Folder({
      'accounts.yaml': 'accounts: []\n',
      'sidecar.yaml': sidecarFile('http://127.0.0.1:1', { accounts: await newStore() }),
    });
    const config = folder.file('sidecar.yaml');
    const { run, json } = commandsOn(config);
    const ended = async (command: Command): Promise<Ended> => {
      const { code } = await command.ended();
      return { code: code ?? -1, stdout: command.stdout, stderr: command.stderr };
    };
    const start = (line: string): Command => startCommand([...line.split(' '), '--config', config]);
    const atOnce = (one: string, other: string) => Promise.all([start(one), start(other)].map(ended));
    const exported = async (id: string): Promise<Exported | undefined> => {
      const lines = (await run('accounts export')).stdout.split('\n').slice(0, -1);
      return lines.map((line) => JSON.parse(line) as Exported).find((account) => account.id === id);
    };
    await run('accounts add acme --name Acme');
    return { folder, run, json, atOnce, exported };
  }

  test('who rotate the same key create one new key, which works and does not expire', async () => {
    const { json, atOnce, exported, run } = await storeWithAcme();
    const { id } = await json<IssuedKeyView>('keys issue acme --environment test --kind secret');
    const [one, other] = await atOnce(`keys rotate acme ${id} --json`, `keys rotate acme ${id} --overlap 1d --json`);
    expect(new Set([one?.code, other?.code])).toEqual(new Set([0, 1]));
    const [rotated, refused] = one?.code === 0 ? [one, other] : [other, one];
    expect(refused?.stdout).toBe('');
    expect(refused?.stderr).toMatch(/was already rotated: its successor is key_\w+ \(key_rotated\)\n$/);
    const { key = '', id: successor } = JSON.parse(rotated?.stdout ?? '') as IssuedKeyView;
    const stored = await exported('acme');
    expect(stored?.keys).toMatchObject([{ id }, { id: successor, sha256: sha256Hex(key) }]);
    expect(stored?.keys[1]).not.toHaveProperty('expiresAt');
    expect((await run(`keys rotate acme ${successor}`)).code).toBe(0);
  });

  test('one of whom enables and one of whom disables encryption, leave the state of the later change', async () => {
    const { json, atOnce, exported } = await storeWithAcme();
    await json('encryption enable acme --environment test');
    const [enabling, disabling] = await atOnce(
      'encryption enable acme --environment test --replace --json',
      'encryption disable acme --environment test',
    );
    expect([enabling?.code, disabling?.code]).toEqual([0, 0]);
    const { key } = JSON.parse(enabling?.stdout ?? '') as EnabledView;
    const changes = await json<{ readonly action: string }[]>('audit list');
    const { enabled, key: wrapped = '' } = (await exported('acme'))?.encryption?.test ?? {};
    expect(changes[0]?.action).toBe(enabled === true ? 'encryption_enabled' : 'encryption_disabled');
    const place = { account: 'acme', environment: 'test', member: 'key' } as const;
    if (enabled === true) expect(vault.unwrap(wrapped, place)).toBe(key);
    else expect(wrapped).toBe('');
  });

  test('one of whom imports accounts and one of whom issues a key, lose neither change', async () => {
    const { folder, atOnce, exported } = await storeWithAcme();
    const lines = ['acme', ...Array.from({ length: 300 }, (_, i) => `a${i}`)].map((id) =>
      JSON.stringify({ id, name: id === 'acme' ? 'Acme' : 'A' }),
    );
    folder.write({ 'lines.ndjson': lines.join('\n') });
    const [imported, issued] = await atOnce(
      `accounts import ${folder.file('lines.ndjson')} --partial`,
      'keys issue acme --environment test --kind secret --json',
    );
    // The account already exists, either as in the file or with one more key, depending on which command was first.
    expect(imported?.stdout).toMatch(/^300 added, (?:1 already present, 0|0 already present, 1) refused\.\n$/);
    const { key = '' } = JSON.parse(issued?.stdout ?? '') as IssuedKeyView;
    expect((await exported('acme'))?.keys).toMatchObject([{ sha256: sha256Hex(key) }]);
    expect(await exported('a299')).toMatchObject({ id: 'a299' });
  });
});

import { expect, test } from 'vitest';
import { enableEncryption, newAccount } from '../../../src/accounts/changes.ts';
import { FileStore } from '../../../src/accounts/file/store.ts';
import { Importer } from '../../../src/accounts/transfer/importer.ts';
import { parseMasterKeys } from '../../../src/accounts/master-key.ts';
import { Vault } from '../../../src/accounts/vault.ts';
import { Folder } from '../../support/folder.ts';

const vaultOf = (byte: string): Vault => new Vault(parseMasterKeys(byte.repeat(32)) ?? []);
const now = Date.parse('2026-11-01');

test.each(['test', 'live'] as const)(
  'an import refuses an account whose %s credentials cannot be unwrapped, and adds the others',
  async (environment) => {
    const folder = new Folder({ 'accounts.yaml': 'accounts: []\n' });
    const store = new FileStore({ file: folder.file('accounts.yaml'), env: {} });
    const encrypting = newAccount(undefined, 'sealed-otherwise', 'Sealed otherwise');
    const enableOptions = { encoding: 'hex', grace: undefined, replace: false } as const;
    const { account } = enableEncryption(encrypting, environment, enableOptions, now, vaultOf('11'));
    const options = { store, vault: new Vault([]), clock: () => now, audit: () => {} };

    const imported = await new Importer(options, vaultOf('22'), 'somebody').add([
      newAccount(undefined, 'plain', 'Plain'),
      account,
    ]);
    expect(imported).toEqual(['added', expect.objectContaining({ code: 'master_key_wrong' })]);
    expect(await store.read('plain')).toMatchObject({ name: 'Plain' });
    expect(await store.read('sealed-otherwise')).toBeUndefined();
  },
);

test('an import refuses an account with one AES key in both environments', async () => {
  const folder = new Folder({ 'accounts.yaml': 'accounts: []\n' });
  const store = new FileStore({ file: folder.file('accounts.yaml'), env: {} });
  const options = { store, vault: new Vault([]), clock: () => now, audit: () => {} };
  const enableOptions = { encoding: 'hex', grace: undefined, replace: false } as const;
  const { account } = enableEncryption(
    newAccount(undefined, 'acme', 'Acme'),
    'test',
    enableOptions,
    now,
    new Vault([]),
  );
  const { test: encryption } = account.encryption;
  if (encryption === undefined) throw new Error('encryption was enabled');
  const shared = { ...account, encryption: { test: encryption, live: encryption } };
  expect(await new Importer(options, new Vault([]), 'somebody').add([shared])).toEqual([
    expect.objectContaining({ code: 'credentials_equal' }),
  ]);
  expect(await store.read('acme')).toBeUndefined();
});

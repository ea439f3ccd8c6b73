import { chmodSync, readdirSync, readFileSync, statSync } from 'node:fs';
import { describe, expect, test } from 'vitest';
import { newAccount } from '../../../src/accounts/changes.ts';
import { FileStore } from '../../../src/accounts/file/store.ts';
import { Folder } from '../../support/folder.ts';
import { mayMount, Mount } from '../../support/mount.ts';

function storeOn(folder: Folder): FileStore {
  return new FileStore({ file: folder.file('accounts.yaml'), env: {} });
}

function text(folder: Folder): string {
  return readFileSync(folder.file('accounts.yaml'), 'utf8');
}

const one = 'accounts:\n  - { id: a, name: A }\n';

describe('receipts of idempotency keys on a file', () => {
  const beside = '.accounts.yaml.receipts';
  const ask = (folder: Folder, i: number | string): Promise<unknown> =>
    storeOn(folder).change([], () => ({ accounts: [], events: [], result: i, receipt: String(i) }), {
      key: String(i),
      request: '',
    });

  test('are kept in a file next to the accounts file with the same mode, and nothing else changes', async () => {
    const folder = new Folder({ 'accounts.yaml': one });
    chmodSync(folder.file('accounts.yaml'), 0o640);
    expect(await ask(folder, 0)).toMatchObject({ outcome: 'changed', result: 0 });
    expect(await ask(folder, 0)).toEqual({ outcome: 'repeated', receipt: '0' });
    expect(statSync(folder.file(beside)).mode & 0o777).toBe(0o640);
    expect(text(folder)).toBe(one);
    expect(readdirSync(folder.path).toSorted()).toEqual(['.accounts.yaml.lock', beside, 'accounts.yaml']);
  });

  test('are limited to the last thousand', async () => {
    const stored = Array.from({ length: 1_000 }, (_, i) => [String(i), { request: '', receipt: String(i) }]);
    const folder = new Folder({ 'accounts.yaml': one, [beside]: stored });
    expect(await ask(folder, 0)).toEqual({ outcome: 'repeated', receipt: '0' });
    await ask(folder, 1_000);
    expect(await ask(folder, 1)).toEqual({ outcome: 'repeated', receipt: '1' });
    expect(await ask(folder, 0)).toMatchObject({ outcome: 'changed', result: 0 });
  });

  test('are limited per account: tokens of an account with many receipts displace only their own', async () => {
    const stored = ['first', 'acme 0', ...Array.from({ length: 998 }, (_, i) => `globex ${i}`)];
    const folder = new Folder({
      'accounts.yaml': one,
      [beside]: stored.map((key) => [key, { request: '', receipt: key }]),
    });
    await ask(folder, 'globex 998');
    await ask(folder, 'acme 1');
    for (const key of ['first', 'acme 0', 'acme 1', 'globex 2', 'globex 998']) {
      expect(await ask(folder, key)).toEqual({ outcome: 'repeated', receipt: key });
    }
    expect(await ask(folder, 'globex 1')).toMatchObject({ outcome: 'changed', result: 'globex 1' });
    expect(await ask(folder, 'globex 0')).toMatchObject({ outcome: 'changed', result: 'globex 0' });
  });

  test.each(['{', '7'])('that another process replaced with %j are refused, and nothing changes', async (written) => {
    const folder = new Folder({ 'accounts.yaml': one, [beside]: written });
    await expect(ask(folder, 0)).rejects.toMatchObject({
      code: 'store_invalid',
      message: `${folder.file(beside)} cannot be read as receipts: remove it`,
    });
    expect(text(folder)).toBe(one);
  });

  test.skipIf(!mayMount)('that do not fit on the disk prevent the change', async () => {
    const folder = new Mount({ 'accounts.yaml': one }, 'size=64k');
    const add = (receipt: string): Promise<unknown> =>
      storeOn(folder).change(
        ['b'],
        (found) => ({ accounts: [newAccount(found.get('b'), 'b', 'b')], events: [], result: undefined, receipt }),
        { key: 'k', request: '' },
      );
    folder.fill(16_384);
    await expect(add('x'.repeat(16_384))).rejects.toMatchObject({ code: 'disk_full' });
    expect(text(folder)).toBe(one);
    expect(readdirSync(folder.path).toSorted()).toEqual(['.accounts.yaml.lock', 'accounts.yaml', 'filler']);
    await add('short');
    expect(text(folder)).toContain('id: b');
  });
});

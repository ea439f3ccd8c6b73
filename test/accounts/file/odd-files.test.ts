import { execFileSync } from 'node:child_process';
import { mkdirSync, readFileSync, rmSync, symlinkSync, writeFileSync } from 'node:fs';
import { expect, test } from 'vitest';
import { newAccount } from '../../../src/accounts/changes.ts';
import { revokeKey } from '../../../src/accounts/key-changes.ts';
import { FileStore } from '../../../src/accounts/file/store.ts';
import type { AuditEvent } from '../../../src/accounts/store.ts';
import { Folder } from '../../support/folder.ts';

/** Things that may be in the place of a file. */
const kinds = {
  fifo: (path: string) => execFileSync('mkfifo', [path]),
  folder: (path: string) => mkdirSync(path),
  garbage: (path: string) => writeFileSync(path, 'garbage\n'.repeat(1_000)),
  link: (path: string) => symlinkSync('/dev/full', path),
} as const;

const eventOf = (account: string): AuditEvent => {
  return { at: 0, actor: 'user:test', action: 'account_added', account, details: {} };
};

const once = { key: 'k', request: 'r' };

function add(store: FileStore, id: string): Promise<unknown> {
  const decide = (): object => ({
    accounts: [newAccount(undefined, id, id)],
    events: [eventOf(id)],
    result: 'x',
    receipt: '{}',
  });
  return store.change([id], decide as never, once);
}

test.each([
  ['accounts.yaml', 'fifo', 'store_unavailable'],
  ['accounts.yaml', 'folder', 'store_unavailable'],
  ['accounts.yaml', 'garbage', 'store_invalid'],
  ['accounts.yaml', 'link', 'store_unavailable'],
  ['.accounts.yaml.lock', 'fifo', 'store_invalid'],
  ['.accounts.yaml.lock', 'folder', 'store_invalid'],
  ['.accounts.yaml.lock', 'garbage', 'store_invalid'],
  ['.accounts.yaml.lock', 'link', 'store_invalid'],
  ['.accounts.yaml.new', 'folder', 'store_unavailable'],
  ['.accounts.yaml.receipts', 'fifo', 'store_invalid'],
  ['.accounts.yaml.receipts', 'folder', 'store_invalid'],
  ['.accounts.yaml.receipts', 'garbage', 'store_invalid'],
  ['.accounts.yaml.receipts', 'link', 'store_invalid'],
  ['..accounts.yaml.receipts.new', 'folder', 'store_unavailable'],
  ['accounts.audit.jsonl', 'fifo', 'store_invalid'],
  ['accounts.audit.jsonl', 'folder', 'store_invalid'],
  ['accounts.audit.jsonl', 'link', 'store_invalid'],
] as const)(
  '%s replaced by a %s is named in the error, does not block, and is left unchanged',
  async (name, kind, code) => {
    const folder = new Folder({ 'accounts.yaml': 'accounts: []\n' });
    const store = new FileStore({ file: folder.file('accounts.yaml'), env: {} });
    rmSync(folder.file(name), { force: true });
    kinds[kind](folder.file(name));
    const refused = { code, message: expect.stringContaining(name) as unknown };
    await expect(add(store, 'a')).rejects.toMatchObject(refused);
    if (name === 'accounts.yaml') await expect(store.read('a')).rejects.toMatchObject(refused);
    else expect(await store.read('a')).toBeUndefined();
    if (name === 'accounts.audit.jsonl')
      await expect(store.events({})[Symbol.asyncIterator]().next()).rejects.toMatchObject(refused);
    rmSync(folder.file(name), { recursive: true });
    if (name === 'accounts.yaml') folder.write({ 'accounts.yaml': 'accounts: []\n' });
    await add(store, 'a');
    expect((await store.read('a'))?.id).toBe('a');
  },
);

test.each(['fifo', 'garbage', 'link'] as const)('a %s in the place of the temporary file is removed', async (kind) => {
  const folder = new Folder({ 'accounts.yaml': 'accounts: []\n' });
  kinds[kind](folder.file('.accounts.yaml.new'));
  const store = new FileStore({ file: folder.file('accounts.yaml'), env: {} });
  await add(store, 'a');
  expect((await store.read('a'))?.id).toBe('a');
});

test.each([
  ['an anchor', '&base'],
  ['a tag', '!!map'],
  ['an anchor with dashes, and a comment', '&the-base # of all'],
])('an account with %s can be changed, and keeps it', async (_, properties) => {
  const folder = new Folder({});
  writeFileSync(
    folder.file('accounts.yaml'),
    `accounts:
  - ${properties}
    id: a
    name: A
    keys:
      - { id: k1, key: sk_test_aaaaaaaaaaaaaaaaaaaa, createdAt: 2026-11-01 } # leaked?
  # The other one.
  - id: b
    name: B
`,
  );
  const store = new FileStore({ file: folder.file('accounts.yaml'), env: {} });
  await store.change(['a'], (existing) => {
    const account = existing.get('a');
    if (account === undefined) throw new Error('there is no account');
    return { accounts: [revokeKey(account, 'k1', 1_000)], events: [eventOf('a')], result: undefined };
  });
  expect((await store.read('a'))?.keys[0]?.revokedAt).toBe(1_000);
  expect((await store.read('b'))?.name).toBe('B');
  const text = readFileSync(folder.file('accounts.yaml'), 'utf8');
  for (const kept of [properties.split(' ')[0] ?? '', '# leaked?', '# The other one.']) expect(text).toContain(kept);
});

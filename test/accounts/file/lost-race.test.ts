import { expect, test, vi } from 'vitest';
import { newAccount } from '../../../src/accounts/changes.ts';
import { FileStore } from '../../../src/accounts/file/store.ts';
import { Folder } from '../../support/folder.ts';

const { lost } = vi.hoisted(() => ({ lost: { times: 1 } }));

// Another program may change the file just before it is replaced. No test can hit that moment, so `replaceFile` reports such a change once.
vi.mock('../../../src/accounts/file/replace.ts', async (load) => {
  const original = await load<typeof import('../../../src/accounts/file/replace.ts')>();
  const replaceFile: typeof original.replaceFile = (...given) => lost.times-- <= 0 && original.replaceFile(...given);
  return { ...original, replaceFile };
});

test('a change that lost the race for the file is made once, and the trail shows which of its events failed', async () => {
  const folder = new Folder({ 'accounts.yaml': 'accounts: []\n' });
  const store = new FileStore({ file: folder.file('accounts.yaml'), env: {} });
  await store.change(['a'], (found) => ({
    accounts: [newAccount(found.get('a'), 'a', 'A')],
    events: [{ at: 0, actor: 'user:ana', action: 'account_added', account: 'a', details: {} }],
    result: undefined,
  }));
  const events = await Array.fromAsync(store.events({ after: 0 }));
  expect(events.map(({ action, details }) => [action, details])).toEqual([
    ['account_added', {}],
    ['change_failed', { first: 1, events: 1 }],
    ['account_added', {}],
  ]);
  expect((await Array.fromAsync(store.list())).map(({ id }) => id)).toEqual(['a']);
});

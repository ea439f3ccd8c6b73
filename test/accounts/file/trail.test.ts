import { appendFileSync, chmodSync, readFileSync, statSync } from 'node:fs';
import { expect, test } from 'vitest';
import { Trail } from '../../../src/accounts/file/trail.ts';
import type { AuditEvent } from '../../../src/accounts/store.ts';
import { Folder } from '../../support/folder.ts';

const event = (account: string): AuditEvent => {
  return { at: 1, actor: 'user:ana', action: 'account_added', account, details: { name: 'A' } };
};

function trail() {
  const folder = new Folder({ 'accounts.yaml': 'accounts: []\n' });
  chmodSync(folder.file('accounts.yaml'), 0o640);
  const path = folder.file('accounts.audit.jsonl');
  const of = new Trail(folder.file('accounts.yaml'));
  const read = async (unreadable?: (error: Error) => void): Promise<(string | undefined)[]> => {
    const found: (string | undefined)[] = [];
    for await (const { account } of of.read({}, unreadable)) found.push(account);
    return found;
  };
  return { of, path, read, text: () => readFileSync(path, 'utf8') };
}

test('an event is one line of JSON, in a file with the mode of the accounts file', () => {
  const { of, path, text } = trail();
  of.append([event('a')]);
  expect(text()).toBe(
    '{"at":"1970-01-01T00:00:00.001Z","actor":"user:ana","action":"account_added","account":"a","details":{"name":"A"}}\n',
  );
  expect(statSync(path).mode & 0o7777).toBe(0o640);
});

test('appended lines can be removed again without touching others', async () => {
  const { of, read } = trail();
  of.append([event('a')]);
  of.append([event('b'), event('c')])();
  of.append([event('d')]);
  expect(await read()).toEqual(['a', 'd']);
});

test('a truncated or hand-written line is skipped and reported; all others are read', async () => {
  const { of, path, read } = trail();
  of.append([event('a')]);
  appendFileSync(path, '{"at":"1970');
  of.append([event('b')]);
  appendFileSync(path, '{"at":"yesterday","actor":"x","action":"account_added","details":{}}\n\n');
  of.append([event('c')]);
  await expect(read()).rejects.toMatchObject({ code: 'store_invalid' });
  const messages: string[] = [];
  expect(await read(({ message }) => messages.push(message))).toEqual(['a', 'b', 'c']);
  expect(messages).toEqual([`${path}:2 is not an audit event`, `${path}:4 is not an audit event`]);
});

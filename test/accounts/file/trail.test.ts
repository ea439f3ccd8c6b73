import { appendFileSync, chmodSync, readFileSync, statSync, writeFileSync } from 'node:fs';
import { expect, test } from 'vitest';
import { selectEvents } from '../../../src/accounts/event-filter.ts';
import { Trail } from '../../../src/accounts/file/trail.ts';
import type { AuditEvent, EventFilter } from '../../../src/accounts/store.ts';
import { Folder } from '../../support/folder.ts';
import { mayMount, Mount } from '../../support/mount.ts';

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
    for await (const { account } of selectEvents(of.lines({ after: 0 }), {}, unreadable)) found.push(account);
    return found;
  };
  return { of, path, read, text: () => readFileSync(path, 'utf8') };
}

test('an event is one line of JSON, in a file with the mode of the accounts file', () => {
  const { of, path, text } = trail();
  of.append([event('a')]);
  expect(text()).toBe(
    '{"position":1,"at":"1970-01-01T00:00:00.001Z","actor":"user:ana","action":"account_added","account":"a",' +
      `"details":{"name":"A"},"prev":"${'0'.repeat(64)}"}\n`,
  );
  expect(statSync(path).mode & 0o7777).toBe(0o640);
});

test('an event whose change failed stays, and is followed by one that says so', async () => {
  const { of, read, text } = trail();
  of.appendFailure(of.append([event('a'), event('b')]));
  expect(await read()).toEqual(['a', 'b', undefined]);
  expect(text()).toContain('"action":"change_failed","details":{"first":1,"events":2}');
});

test('a torn last line is set aside; all others are read', async () => {
  const { of, path, read } = trail();
  of.append([event('a')]);
  appendFileSync(path, '{"at":"1970');
  of.append([event('b')]);
  appendFileSync(path, `${'x'.repeat(100_000)}é`);
  of.append([event('c')]);
  expect(readFileSync(`${path}.torn`, 'utf8')).toBe(`{"at":"1970\n${'x'.repeat(100_000)}é\n`);
  expect(statSync(`${path}.torn`).mode & 0o7777).toBe(0o640);
  expect(await read()).toEqual(['a', 'b', 'c']);
});

test.each(['yesterday', '2026-13-45T99:99:99Z'])('a hand-written line of %s is skipped and reported', async (at) => {
  const { of, path, read } = trail();
  of.append([event('a')]);
  appendFileSync(path, `{"at":"${at}","actor":"x","action":"account_added","details":{}}\n`);
  of.append([event('c')]);
  await expect(read()).rejects.toMatchObject({ code: 'store_invalid' });
  const messages: string[] = [];
  expect(await read(({ message }) => messages.push(message))).toEqual(['a', 'c']);
  expect(messages).toEqual(['line 2 of the audit trail is not an event']);
});

test('the newest event is read first, with the same positions as in the other order, however the file is cut into pieces', async () => {
  const { of, path } = trail();
  const inOrder = async (filter: EventFilter): Promise<[number, string | undefined][]> => {
    const found: [number, string | undefined][] = [];
    for await (const { position, account } of selectEvents(of.lines(filter), filter, () => {}))
      found.push([position, account]);
    return found;
  };
  expect(await inOrder({})).toEqual([]);
  writeFileSync(path, '{"at":"1970');
  expect(await inOrder({})).toEqual([]);
  for (const length of [1, 65_000, 200, 65_536, 140_000, 900_000, 3]) {
    of.append([event(`${length}`), { ...event('long'), details: { name: 'x'.repeat(length) } }]);
    appendFileSync(path, `${'é'.repeat(length)}\n`);
    // A crash leaves an incomplete line, which is read in neither order.
    if (length === 200) appendFileSync(path, '{"at":"1970');
    expect(await inOrder({})).toEqual((await inOrder({ after: 0 })).toReversed());
  }
  expect(await inOrder({ before: 5 })).toEqual([
    [4, '65000'],
    [2, 'long'],
    [1, '1'],
  ]);
});

test.skipIf(!mayMount)('an event of which only a part fits on a full disk is removed, and the call fails', () => {
  const folder = new Mount({ 'accounts.yaml': 'accounts: []\n' }, 'size=64k');
  const path = folder.file('accounts.audit.jsonl');
  const of = new Trail(folder.file('accounts.yaml'));
  // Fill the file to ten bytes before the end of a page, and then the disk, so that only part of the event fits.
  const full = `${'x'.repeat(4_085)}\n`;
  folder.write({ 'accounts.audit.jsonl': full });
  folder.fill();
  expect(() => of.append([event('a')])).toThrow('ENOSPC');
  expect(readFileSync(path, 'utf8')).toBe(full);
});

import { readdirSync, readFileSync } from 'node:fs';
import { setImmediate as nextTurn } from 'node:timers/promises';
import { expect, onTestFinished, test, vi } from 'vitest';
import { OperationsThreads } from '../../../src/accounts/file/thread.ts';
import type { RemoteOperations } from '../../../src/accounts/operations-rpc.ts';
import type { AuditEvent } from '../../../src/accounts/store.ts';
import { Folder } from '../../support/folder.ts';
import { mayMount, Mount } from '../../support/mount.ts';

const one = 'accounts:\n  - { id: a, name: A }\n';
const now = Date.parse('2026-11-21T10:00:00Z');
const request = { actor: 'token:dashboard' };

/** Options of `enableEncryption` that replace credentials. */
const replacing = { encoding: undefined, grace: undefined, replace: true };

/** A key as in the file. Its number makes it unique. */
const keyOf = (number: number) => {
  return { id: `k${number}`, prefix: 'sk_test_', sha256: String(number).repeat(64), createdAt: '2026-11-01' };
};

/** A file with an account `a` that has these keys. */
const withKeys = (...keys: readonly object[]): Folder =>
  new Folder({ 'accounts.yaml': `accounts:\n  - { id: a, name: A, keys: ${JSON.stringify(keys)} }\n` });

/** Threads that are closed after the test. */
function threadsOn(folder: Folder, audit: (event: AuditEvent) => void = () => {}): OperationsThreads {
  const threads = new OperationsThreads({
    file: folder.file('accounts.yaml'),
    env: {},
    masterKeys: [],
    clock: () => now,
    monotonic: () => performance.now(),
    audit,
  });
  onTestFinished(() => threads.close());
  return threads;
}

function operationsOn(folder: Folder, audit?: (event: AuditEvent) => void): RemoteOperations {
  return threadsOn(folder, audit).operations;
}

test.skipIf(!mayMount)('the thread reports refusals of the file with the same code and message', async () => {
  const folder = new Mount({ 'accounts.yaml': one }, 'size=64k');
  const audit = vi.fn<(event: AuditEvent) => void>();
  const operations = operationsOn(folder, audit);
  folder.fill();
  await expect(operations.add('b', 'B', request)).rejects.toMatchObject({
    code: 'disk_full',
    message: expect.stringMatching(/accounts\.yaml was not changed: no space is left on the device$/) as string,
  });
  folder.protect();
  await expect(operations.add('b', 'B', request)).rejects.toMatchObject({ code: 'store_read_only' });
  expect(audit).not.toHaveBeenCalled();
});

test('operations run one at a time, in the order of the calls', async () => {
  const folder = new Folder({ 'accounts.yaml': one });
  const trail: (string | undefined)[] = [];
  const operations = operationsOn(folder, ({ account }) => trail.push(account));
  const ids = Array.from({ length: 8 }, (_, i) => `b${i}`);
  const [refused] = await Promise.allSettled(['a', ...ids].map((id) => operations.add(id, id, request)));
  expect(refused).toMatchObject({ reason: { code: 'account_exists' } });
  expect(trail).toEqual(ids);
  expect(readFileSync(folder.file('accounts.yaml'), 'utf8').match(/(?<=id: )\w+/g)).toEqual(['a', ...ids]);
});

test('however many operations of one operator wait, other operators wait for only one of them', async () => {
  const order: string[] = [];
  const operations = operationsOn(new Folder({ 'accounts.yaml': one }), ({ actor, account }) =>
    order.push(`${actor} ${account}`),
  );
  const add = (actor: string, ...ids: readonly string[]) => ids.map((id) => operations.add(id, id, { actor }));
  await Promise.all([...add('eve', 'e1', 'e2', 'e3', 'e4'), ...add('ana', 'a1', 'a2'), ...add('bob', 'b1')]);
  expect(order).toEqual(['eve e1', 'ana a1', 'bob b1', 'eve e2', 'ana a2', 'eve e3', 'eve e4']);
});

test('revocations, however many, and other urgent operations take turns', async () => {
  const keys = Array.from({ length: 6 }, (_, i) => keyOf(i));
  const order: string[] = [];
  const operations = operationsOn(withKeys(...keys), ({ action }) => order.push(action));
  const revoked = keys.map(({ id }) => operations.revokeKey('a', id, { actor: `token:${id}` }));
  await Promise.all([...revoked, operations.enableEncryption('a', 'test', replacing, request)]);
  expect(order.indexOf('encryption_enabled')).toBeLessThanOrEqual(2);
});

test('changes by tokens of accounts, however many, and changes of other operators take turns', async () => {
  const keys = Array.from({ length: 8 }, (_, i) => keyOf(i));
  const order: string[] = [];
  const operations = operationsOn(withKeys(...keys), ({ actor }) => order.push(actor));
  const revoke = (id: string, actor: string, ofAccount: boolean) => operations.revokeKey('a', id, { actor, ofAccount });
  const [last, ...others] = keys.toReversed();
  const revoked = others.map(({ id }) => revoke(id, `token:${id}`, true));
  await Promise.all([...revoked, revoke(last?.id ?? '', 'token:otto', false)]);
  expect(order.indexOf('token:otto')).toBeLessThanOrEqual(1);
});

test('a change that is not urgent is completed although keys are revoked all the time', async () => {
  const keys = Array.from({ length: 30 }, (_, i) => ({
    ...keyOf(0),
    id: `k${i}`,
    sha256: String(i).padStart(64, '0'),
  }));
  // Add so many accounts that changes take long enough to overlap.
  const others = Array.from({ length: 800 }, (_, i) => `  - { id: b${i}, name: B }\n`).join('');
  const accounts = `accounts:\n  - { id: a, name: A, keys: ${JSON.stringify(keys)} }\n${others}`;
  const order: string[] = [];
  const operations = operationsOn(new Folder({ 'accounts.yaml': accounts }), ({ action }) => order.push(action));
  await operations.show('a');
  const revoked = keys.map(({ id }, i) => operations.revokeKey('a', id, { actor: `token:${i}` }));
  await Promise.all([operations.rename('a', 'B', request), ...revoked]);
  // The renaming thread takes turns with the other one, and starts over if the other one changed the file first.
  expect(order.indexOf('account_renamed')).toBeLessThan(12);
});

test('a revocation goes before other urgent operations', async () => {
  const key = keyOf(0);
  const order: string[] = [];
  const operations = operationsOn(withKeys(key), ({ action, actor }) => order.push(`${actor} ${action}`));
  const enable = (actor: string) => operations.enableEncryption('a', 'test', replacing, { actor });
  await Promise.all([enable('eve'), enable('bob'), operations.revokeKey('a', key.id, { actor: 'eve' })]);
  expect(order).toEqual(['eve encryption_enabled', 'eve key_revoked', 'bob encryption_enabled']);
});

test('an operation that is requested while the threads are being closed is carried out', async () => {
  const threads = threadsOn(new Folder({ 'accounts.yaml': one }));
  const { operations } = threads;
  const first = operations.add('b', 'B', request);
  const closed = threads.close();
  await Promise.all([first, operations.add('c', 'C', request), closed]);
  expect((await operations.show('c')).id).toBe('c');
});

test('the pause of an account after a change keeps no thread from being closed', async () => {
  const keys = [keyOf(0), keyOf(1)];
  const folder = withKeys(...keys);
  const threads = threadsOn(folder);
  const ofAccount = { actor: 'token:eve', ofAccount: true };
  const changes = [threads.operations.rename('a', 'A1', ofAccount), threads.operations.rename('a', 'A2', ofAccount)];
  await changes[0];
  await threads.close();
  await Promise.all(changes);
  expect(readFileSync(folder.file('accounts.yaml'), 'utf8')).toContain('A2');
});

test('an operation that ends the thread rejects, and the next one starts a new thread', async () => {
  const operations = operationsOn(new Folder({ 'accounts.yaml': one }));
  const broken = operations.eventsPage(1, null as never);
  const next = operations.show('a');
  await expect(broken).rejects.toThrow(TypeError);
  expect((await next).id).toBe('a');
});

test('an operation that arrives while the idle thread is being ended starts a new one', async () => {
  const operations = operationsOn(new Folder({ 'accounts.yaml': one }));
  vi.useFakeTimers({ toFake: ['setTimeout', 'clearTimeout'] });
  onTestFinished(() => void vi.useRealTimers());
  await operations.show('a');
  vi.advanceTimersByTime(10_000);
  expect((await operations.show('a')).id).toBe('a');
});

test('operations add no listeners to the idle thread', async () => {
  const operations = operationsOn(new Folder({ 'accounts.yaml': one }));
  const warned = vi.fn<(warning: Error) => void>();
  process.on('warning', warned);
  onTestFinished(() => void process.off('warning', warned));
  for (let i = 0; i < 12; i++) expect((await operations.show('a')).id).toBe('a');
  await nextTurn();
  expect(warned).not.toHaveBeenCalled();
});

test.each([
  ['the trail', (operations: RemoteOperations) => operations.eventsPage(1, { account: 'none' })],
  ['who has revoked a key', (operations: RemoteOperations) => operations.showKey('a', 'k')],
])('a change does not wait for operators who read %s', async (_, read) => {
  const line = JSON.stringify({ at: '2026-11-21T10:00:00Z', actor: 'user:ana', action: 'account_added', details: {} });
  const key = { id: 'k', prefix: 'sk_test_', sha256: '0'.repeat(64), createdAt: '2026-11-01', revokedAt: '2026-11-01' };
  const folder = new Folder({
    'accounts.yaml': { accounts: [{ id: 'a', name: 'A', keys: [key] }] },
    'accounts.audit.jsonl': `${line}\n`.repeat(300_000),
  });
  const operations = operationsOn(folder);
  const isRead = vi.fn<() => void>();
  const reading = read(operations).then(isRead);
  await operations.rename('a', 'B', request);
  expect(isRead).not.toHaveBeenCalled();
  await reading;
});

test('a revocation, a deactivation and the end of encryption do not wait for the reads and changes before them', async () => {
  const key = { id: 'k', prefix: 'sk_test_', sha256: '0'.repeat(64), createdAt: '2026-11-01' };
  const encryption = { test: { enabled: true, key: 'k'.repeat(32), iv: 'i'.repeat(16) } };
  const event = {
    at: new Date(now).toISOString(),
    actor: 'user:ana',
    action: 'account_added',
    account: 'b',
    details: {},
  };
  const folder = new Folder({
    'accounts.yaml': { accounts: [{ id: 'a', name: 'A', keys: [key], encryption }] },
    'accounts.audit.jsonl': `${JSON.stringify(event)}\n`.repeat(20_000),
  });
  const operations = operationsOn(folder);
  const urgent = [
    () => operations.revokeKey('a', 'k', request),
    () => operations.setActive('a', false, request),
    () => operations.enableEncryption('a', 'test', { replace: true, grace: 60_000, encoding: undefined }, request),
    () => operations.changeGrace('a', 'test', undefined, request),
    () => operations.disableEncryption('a', 'test', undefined, request),
  ];
  let finished = 0;
  const before: Promise<unknown>[] = Array.from({ length: 30 }, () => operations.eventsPage(1, { account: 'none' }));
  before.push(operations.rename('a', 'B', request));
  for (const each of before) void each.then(() => (finished += 1));
  for (const work of urgent) await work();
  expect(finished).toBeLessThan(before.length);
  await Promise.all(before);
  expect(await operations.stored('a')).toMatchObject({
    name: 'B',
    active: false,
    keys: [{ revokedAt: now }],
    encryption: { test: { enabled: false } },
  });
});

/** The number of threads of this process that have lowered their priority. */
function lowThreads(): number {
  const stats = readdirSync('/proc/self/task').map((id) => readFileSync(`/proc/self/task/${id}/stat`, 'utf8'));
  // The name in parentheses may contain spaces. The priority is the 17th value after the name.
  return stats.filter((stat) => Number(stat.slice(stat.lastIndexOf(')') + 2).split(' ')[16]) > 0).length;
}

test('searches and long changes give way to requests and revocations, which keep their priority', async () => {
  const operations = operationsOn(new Folder({ 'accounts.yaml': one }));
  const before = lowThreads();
  await operations.setActive('a', false, request);
  expect(lowThreads()).toBe(before);
  await operations.show('a');
  expect(lowThreads()).toBe(before + 1);
});

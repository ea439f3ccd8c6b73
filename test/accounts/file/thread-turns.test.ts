import { setImmediate as nextTurn } from 'node:timers/promises';
import { beforeEach, expect, onTestFinished, test, vi } from 'vitest';
import { OperationsThreads } from '../../../src/accounts/file/thread.ts';
import type { OperationCall, RemoteOperations } from '../../../src/accounts/operations-rpc.ts';
import { eventually } from '../../support/eventually.ts';

/** The operations that the threads have begun. Each runs until the test ends it. */
const { running } = vi.hoisted(() => ({
  running: [] as { readonly call: OperationCall; readonly end: () => void; readonly fail: () => void }[],
}));

// The tests check the order of operations, which real threads show only by chance.
vi.mock('../../../src/thread.ts', () => ({
  IdleThread: class {
    wake() {
      return this;
    }

    rest(): void {}

    ask(call: OperationCall): Promise<unknown> {
      return new Promise((resolve) => {
        const fail = (): void => resolve({ code: 'store_locked', message: 'locked' });
        running.push({ call, end: () => resolve({ result: undefined, events: [] }), fail });
      });
    }

    async end(): Promise<void> {}
  },
}));

let now = 0;

beforeEach(() => {
  running.length = 0;
  now = 0;
});

function start() {
  const options = { file: 'accounts.yaml', env: {}, masterKeys: [], clock: () => 0, monotonic: () => now };
  // The threads are never closed, because they are not real.
  const { operations } = new OperationsThreads({ ...options, audit: () => {} });
  /** Begins an operation whose result does not matter. */
  const begin = (work: Promise<unknown>): void => void work.catch(() => {});
  return {
    operations,
    begin,
    rename: (ofAccount = false) => begin(operations.rename('a', 'A', { actor: 'token:eve', ofAccount })),
    /** @param account the account whose token revokes the key; by default, an operator's token does */
    revoke: (key: string, account?: string) =>
      begin(operations.revokeKey(account ?? 'a', key, { actor: `token:${key}`, ofAccount: account !== undefined })),
    look: (account: string) => begin(operations.stored(account, { urgent: true })),
  };
}

const names = (): string[] =>
  running.map(({ call }) => `${call.name} ${String(call.arguments.at(call.name === 'stored' ? 0 : 1))}`);

/** Begins a change and two revocations, and ends the first revocation after this many milliseconds. */
async function revokeBesideChange(took: number, ofAccount = false): Promise<void> {
  const { rename, revoke } = start();
  rename(ofAccount);
  revoke('k1');
  revoke('k2');
  await nextTurn();
  await endLatest(took);
}

/** Ends the latest operation after this many milliseconds. */
async function endLatest(took: number): Promise<void> {
  now += took;
  running.at(-1)?.end();
  await nextTurn();
}

test('the next revocation begins when the change of another operator in progress has ended', async () => {
  await revokeBesideChange(60_000);
  expect(names()).toEqual(['rename A', 'revokeKey k1']);
  running[0]?.end();
  await nextTurn();
  expect(names()).toEqual(['rename A', 'revokeKey k1', 'revokeKey k2']);
});

test('the next revocation begins after three times the duration of the previous one, whatever is in progress', async () => {
  await revokeBesideChange(20);
  expect(names()).toEqual(['rename A', 'revokeKey k1']);
  await eventually('the next revocation begins', () => running.length === 3);
});

test('the next revocation begins at once although a change by the token of an account is in progress', async () => {
  await revokeBesideChange(60_000, true);
  expect(names()).toEqual(['rename A', 'revokeKey k1', 'revokeKey k2']);
});

test('the next revocation by the token of an account waits for a change by such a token, for a tenth of a second at most', async () => {
  const { rename, revoke } = start();
  rename(true);
  revoke('k1', 'b');
  revoke('k2', 'c');
  await nextTurn();
  await endLatest(60_000);
  expect(names()).toEqual(['rename A', 'revokeKey k1']);
  await eventually('the next revocation begins', () => running.length === 3, { timeout: 5_000 });
  revoke('k3', 'd');
  await endLatest(60_000);
  running[0]?.end();
  await nextTurn();
  expect(names()).toEqual(['rename A', 'revokeKey k1', 'revokeKey k2', 'revokeKey k3']);
});

test.each([
  ['three times as long as it took', 50, 149, 150],
  ['a second at most', 60_000, 999, 1_000],
])(
  'after a revocation by the token of an account, the account pauses for %s, and others continue',
  async (_, took, before, after) => {
    vi.useFakeTimers({ toFake: ['setTimeout', 'clearTimeout'] });
    onTestFinished(() => void vi.useRealTimers());
    const { revoke } = start();
    for (const key of ['k1', 'k2', 'k3']) revoke(key, 'a');
    revoke('k4', 'b');
    await nextTurn();
    await endLatest(took);
    await endLatest(1);
    expect(names()).toEqual(['revokeKey k1', 'revokeKey k4']);
    await vi.advanceTimersByTimeAsync(before);
    revoke('k5');
    await nextTurn();
    await endLatest(1);
    expect(names()).toEqual(['revokeKey k1', 'revokeKey k4', 'revokeKey k5']);
    await vi.advanceTimersByTimeAsync(after - before);
    expect(names()).toEqual(['revokeKey k1', 'revokeKey k4', 'revokeKey k5', 'revokeKey k2']);
    // The account pauses again after this revocation, although another token requested it.
    await endLatest(took);
    await vi.advanceTimersByTimeAsync(before);
    expect(names()).toHaveLength(4);
  },
);

test('after any other change by the token of an account, the account pauses for five seconds at most', async () => {
  vi.useFakeTimers({ toFake: ['setTimeout', 'clearTimeout'] });
  onTestFinished(() => void vi.useRealTimers());
  const { rename } = start();
  for (let i = 0; i < 2; i += 1) rename(true);
  await nextTurn();
  await endLatest(60_000);
  await vi.advanceTimersByTimeAsync(4_999);
  expect(running).toHaveLength(1);
  await vi.advanceTimersByTimeAsync(1);
  expect(running).toHaveLength(2);
});

test('the read that shows whether a revocation is in force waits only for the revocation in progress', async () => {
  const { revoke, look } = start();
  for (const key of ['k1', 'k2', 'k3']) revoke(key);
  for (const account of ['a', 'b']) look(account);
  await nextTurn();
  for (let i = 0; i < 4; i += 1) await endLatest(1);
  expect(names()).toEqual(['revokeKey k1', 'stored a', 'stored b', 'revokeKey k2', 'revokeKey k3']);
});

test('the next revocation begins even if the change in progress fails', async () => {
  await revokeBesideChange(60_000);
  running[0]?.fail();
  await nextTurn();
  expect(names()).toEqual(['rename A', 'revokeKey k1', 'revokeKey k2']);
});

test('activations wait like any other change, and so do changes of other operators', async () => {
  const { begin, operations } = start();
  begin(operations.rename('a', 'A', { actor: 'token:ann' }));
  begin(operations.rename('b', 'B', { actor: 'token:ben' }));
  begin(operations.setActive('c', true, { actor: 'token:cy' }));
  await nextTurn();
  for (let i = 0; i < 2; i += 1) await endLatest(1);
  expect(names()).toEqual(['rename A', 'rename B', 'setActive true']);
});

test('searches of the trail by actor take turns like other reads of their account', async () => {
  const { begin, operations } = start();
  for (const actor of ['x', 'y', 'z']) begin(operations.eventsPage(10, { account: 'a', actor }));
  for (const account of ['b', 'c']) begin(operations.eventsPage(10, { account }));
  await nextTurn();
  for (let i = 0; i < 4; i += 1) await endLatest(1);
  const accounts = running.map(({ call }) => (call.arguments[1] as { account: string }).account);
  expect(accounts).toEqual(['a', 'b', 'c', 'a', 'a']);
});

const by = { actor: 'token:ana' };
const encoding = undefined;

test.each<[string, boolean, (operations: RemoteOperations) => Promise<unknown>]>([
  ['the revocation of a key', true, (operations) => operations.revokeKey('a', 'k', by)],
  ['a deactivation', true, (operations) => operations.setActive('a', false, by)],
  ['an activation', false, (operations) => operations.setActive('a', true, by)],
  ['the end of encryption', true, (operations) => operations.disableEncryption('a', 'test', undefined, by)],
  [
    'new credentials',
    true,
    (operations) => operations.enableEncryption('a', 'test', { encoding, grace: undefined, replace: true }, by),
  ],
  [
    'new credentials, by the token of an account',
    false,
    (operations) =>
      operations.enableEncryption(
        'a',
        'test',
        { encoding, grace: undefined, replace: true },
        { ...by, ofAccount: true },
      ),
  ],
  [
    'first credentials',
    false,
    (operations) => operations.enableEncryption('a', 'test', { encoding, grace: undefined, replace: false }, by),
  ],
  ['the end of a grace', true, (operations) => operations.changeGrace('a', 'test', undefined, by)],
  ['a longer grace', false, (operations) => operations.changeGrace('a', 'test', 1, by)],
  ['another key', false, (operations) => operations.rotateKey('a', 'k', 0, by)],
  [
    'a read of the stored account, for an urgent change',
    true,
    (operations) => operations.stored('a', { urgent: true }),
  ],
  ['any other read of the stored account', false, (operations) => operations.stored('a')],
])('%s waits for no change of others: %s', async (_, isUrgent, ask) => {
  const { operations, begin, rename } = start();
  rename();
  begin(ask(operations));
  await nextTurn();
  expect(running).toHaveLength(isUrgent ? 2 : 1);
});

test.each<readonly [string, (operations: RemoteOperations, account?: string) => Promise<unknown>]>([
  ['the trail', (operations, account) => operations.eventsPage(50, { account })],
  ['accounts', (operations, only) => operations.listPage(50, { only })],
  ['what is due', (operations, only) => operations.duePage(50, { only })],
  ['graces', (operations, only) => operations.gracesPage(50, { only })],
  ['a key', (operations, only) => operations.findKey('0'.repeat(64), only)],
])(
  'reads of %s for one account, by any number of tokens, wait for each other, so that other reads wait for only one of them',
  async (_, read) => {
    const { operations, begin } = start();
    for (let i = 0; i < 4; i += 1) begin(read(operations, 'acme'));
    begin(read(operations, 'globex'));
    begin(read(operations));
    await nextTurn();
    for (let i = 0; i < 5; i += 1) await endLatest(1);
    const isOfAcme = running.map(({ call }) => JSON.stringify(call.arguments).includes('acme'));
    expect(isOfAcme).toEqual([true, false, false, true, true, true]);
  },
);

test('a change that had to wait is checked when it begins, and is not made if its token was removed in the meantime', async () => {
  const { operations, begin, rename } = start();
  let isAccepted = true;
  const check = (): void => {
    if (!isAccepted) throw new Error('removed');
  };
  rename();
  const refused = operations.rename('b', 'B', { ...by, check });
  begin(refused);
  begin(operations.rename('c', 'C', { actor: 'token:bob', check: () => {} }));
  await nextTurn();
  isAccepted = false;
  await endLatest(1);
  await expect(refused).rejects.toThrow('removed');
  expect(names()).toEqual(['rename A', 'rename C']);
  // A thread gets only plain data, so `check` is left out.
  expect(running[1]?.call.arguments.at(-1)).toEqual({ actor: 'token:bob' });
});

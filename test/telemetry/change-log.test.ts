import { expect, test } from 'vitest';
import type { Account } from '../../src/accounts/account.ts';
import { logChanges } from '../../src/telemetry/change-log.ts';
import { createLogger } from '../../src/telemetry/logger.ts';
import { acme, acmeLive, acmeTest, apiKey, codecOf, encryptionOf, globex } from '../support/sidecar.ts';

/** Logs the changes and returns the lines, without their level and time. */
async function linesOf(before: readonly Account[], after: readonly Account[], at: 'info' | 'error' = 'info') {
  const lines: string[] = [];
  await logChanges(createLogger(at, { write: (line) => void lines.push(line) }), before, after);
  return lines.map((line): unknown => {
    const { level, time: _, ...rest } = JSON.parse(line) as Record<string, unknown>;
    expect(level).toBe('info');
    return rest;
  });
}

const msg = 'account changed';

test('each change of an account is logged as a line without secrets', async () => {
  const [first, second] = acme.keys;
  if (first === undefined || second === undefined) throw new Error('acme has keys');
  const added = apiKey('sk_test_newnewnewnewnewnew');
  const after: Account = {
    ...acme,
    name: 'Other',
    active: false,
    keys: [{ ...first, revokedAt: 5 }, { ...second, expiresAt: 5 }, added],
    encryption: { test: encryptionOf(acmeLive) },
  };
  const account = 'acme';
  expect(await linesOf([acme, globex], [after, { ...globex, id: 'new' }])).toEqual([
    { account, change: 'account_renamed', msg },
    { account, change: 'account_deactivated', msg },
    { account, change: 'credentials_replaced', environment: 'test', msg },
    { account, change: 'encryption_disabled', environment: 'live', msg },
    { account, change: 'key_revoked', key: first.id, msg },
    { account, change: 'key_changed', key: second.id, msg },
    { account, change: 'key_issued', key: added.id, msg },
    { account, change: 'key_removed', key: acme.keys[2]?.id, msg },
    { account: 'new', change: 'account_added', msg },
    { account: 'globex', change: 'account_removed', msg },
  ]);
});

test('a change of encryption is named by its effect on merchants', async () => {
  const on = encryptionOf(acmeTest);
  const grace = { previous: undefined, until: 1_000 };
  const ending = { type: 'ending', previous: codecOf(acmeTest), until: 1_000 } as const;
  const account = (test: Account['encryption']['test']): Account => ({
    ...globex,
    encryption: test === undefined ? {} : { test },
  });
  for (const [before, after, change] of [
    [undefined, on, 'encryption_enabled'],
    [ending, on, 'encryption_enabled'],
    [on, ending, 'encryption_disabled'],
    [ending, undefined, 'grace_changed'],
    [on, { ...on, grace }, 'grace_changed'],
    [on, { ...on, current: codecOf(acmeTest, 'base64') }, 'encryption_changed'],
  ] as const) {
    expect(await linesOf([account(before)], [account(after)])).toEqual([
      { account: 'globex', change, environment: 'test', msg },
    ]);
  }
});

test('accounts that were read again without a change are not logged', async () => {
  const again = { ...acme, encryption: { test: encryptionOf(acmeTest), live: encryptionOf(acmeLive) } };
  expect(await linesOf([acme, globex], [again, { ...globex }])).toEqual([]);
});

test.each([
  [100, 0],
  [101, 1],
])('of %i simultaneous changes, %i are only counted', async (changed, counted) => {
  const accounts = Array.from({ length: changed }, (_, i) => ({ ...globex, id: `a${i}` }));
  const lines = await linesOf([], accounts);
  expect(lines.slice(0, 100)).toEqual(
    accounts.slice(0, 100).map(({ id }) => ({ account: id, change: 'account_added', msg })),
  );
  expect(lines.slice(100)).toEqual(counted === 0 ? [] : [{ accounts: counted, msg: 'more accounts changed' }]);
});

test('revoked keys are all logged, however many changes there are, and whatever the level of the log', async () => {
  const revoked = (id: string): Account => ({
    ...globex,
    id,
    keys: globex.keys.map((key) => ({ ...key, revokedAt: 5 })),
  });
  const ids = Array.from({ length: 150 }, (_, i) => `a${i}`);
  const before = ids.map((id) => ({ ...globex, id }));
  const after = ids.map((id) => ({ ...revoked(id), name: 'Other' }));
  const lines = await linesOf(before, after, 'error');
  const logged = ids.flatMap((account) =>
    globex.keys.map(({ id: key }) => ({ account, change: 'key_revoked', key, msg })),
  );
  expect(lines).toEqual(logged);
  const all = await linesOf(before, after);
  expect(all.filter((line) => (line as { change?: string }).change === 'key_revoked')).toEqual(logged);
  expect(all.at(-1)).toEqual({ accounts: 50, msg: 'more accounts changed' });
});

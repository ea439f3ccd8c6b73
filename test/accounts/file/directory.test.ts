import { expect, test } from 'vitest';
import type { Account } from '../../../src/accounts/account.ts';
import type { ApiKey } from '../../../src/accounts/api-key.ts';
import { memoryDirectory } from '../../../src/accounts/file/directory.ts';
import { sha256Hex } from '../../../src/cryptography.ts';

function key(id: string): ApiKey {
  return { id, prefix: 'sk_test_', hash: sha256Hex(id), createdAt: 0, expiresAt: undefined, revokedAt: undefined };
}

function account(id: string, keys: readonly ApiKey[]): Account {
  return { id, name: id, active: true, keys, encryption: {} };
}

const one = account('one', [key('a'), key('b')]);
const two = account('two', [key('c')]);
const directory = memoryDirectory([one, account('none', []), two]);

test.each([
  ['a', one, 0],
  ['b', one, 1],
  ['c', two, 0],
])('the hash of key %s finds the key and its account, without its other keys', (id, { keys, ...account }, index) => {
  expect(directory.find(sha256Hex(id))).toEqual({ account, key: keys[index] });
});

test.each([[sha256Hex('d')], [''], ['__proto__'], ['a']])('the hash %j finds nothing', (hash) => {
  expect(directory.find(hash)).toBeUndefined();
});

test('an account whose credentials cannot be unwrapped is unavailable; other accounts are found', () => {
  const shut: Account = { ...account('shut', [key('d')]), unwrapError: 'the sealed key does not open' };
  const others = memoryDirectory([one, shut]);
  expect(others.find(sha256Hex('d'))).toBe('unavailable');
  expect(others.find(sha256Hex('a'))).toMatchObject({ account: { id: 'one' } });
});

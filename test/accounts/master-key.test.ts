import { execFileSync } from 'node:child_process';
import { createSecretKey, randomBytes } from 'node:crypto';
import { expect, test } from 'vitest';
import { createMasterKey, openedKey } from '../../src/accounts/master-key.ts';

/** The full CMAC of 16 zero bytes, as OpenSSL computes it. */
function cmacOfZeros(key: Buffer): string {
  const args = ['mac', '-cipher', 'AES-256-CBC', '-macopt', `hexkey:${key.toString('hex')}`, 'CMAC'];
  return execFileSync('openssl', args, { input: Buffer.alloc(16) })
    .toString()
    .trim()
    .toLowerCase();
}

test('the key check values of 100 keys are the beginnings of the CMACs that openssl computes', () => {
  const keys = Array.from({ length: 100 }, () => randomBytes(32));
  const found = keys.map((key) => createMasterKey(createSecretKey(key)).kcv);
  expect(found).toEqual(keys.map((key) => cmacOfZeros(key).slice(0, 10)));
});

test('a key that no keyring has unwrapped cannot be used', () => {
  expect(() => openedKey({ key: undefined, kcv: '' })).toThrow('no keyring has unwrapped');
});

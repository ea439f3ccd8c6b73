import { crc32 } from 'node:zlib';
import { describe, expect, test } from 'vitest';
import {
  environmentNames,
  getEnvironment,
  isWellFormed,
  keyKinds,
  getKind,
  readPrefix,
} from '../../src/accounts/api-key.ts';
import { hasChecksum, makeApiKey, makeKeyId } from '../../src/accounts/key-maker.ts';

const combinations = environmentNames.flatMap((environment) => keyKinds.map((kind) => [environment, kind] as const));

test.each(combinations)('a key for %s and %s is well formed and has its prefix', (environment, kind) => {
  const key = makeApiKey(environment, kind);
  expect(isWellFormed(key)).toBe(true);
  expect(getEnvironment(readPrefix(key))).toBe(environment);
  expect(getKind(readPrefix(key))).toBe(kind);
});

test('a key has 32 random base62 characters and a checksum of 6 after its prefix', () => {
  expect(makeApiKey('test', 'secret')).toMatch(/^sk_test_[0-9A-Za-z]{38}$/);
});

test('the checksum is the CRC-32 of everything before it, in base62 with leading zeros', () => {
  const digits = '0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz';
  for (let i = 0; i < 100; i++) {
    const key = makeApiKey('live', 'secret');
    const number = key
      .slice(-6)
      .split('')
      .reduce((sum, digit) => sum * 62 + digits.indexOf(digit), 0);
    expect(number).toBe(crc32(key.slice(0, -6)));
  }
});

test('keys and ids are unique, and use every character', () => {
  const keys = Array.from({ length: 2_000 }, () => makeApiKey('test', 'secret').slice(8, -6));
  expect(new Set(keys).size).toBe(keys.length);
  expect(new Set(keys.join('')).size).toBe(62);
  expect(new Set(Array.from({ length: 2_000 }, makeKeyId)).size).toBe(2_000);
  expect(makeKeyId()).toMatch(/^key_[0-9A-Za-z]{16}$/);
});

describe('the checksum', () => {
  const key = makeApiKey('test', 'secret');

  test('of an unchanged key is valid', () => {
    expect(hasChecksum(key)).toBe(true);
  });

  test('fails if any one character is replaced', () => {
    for (let i = 0; i < key.length; i++) {
      const other = key[i] === 'x' ? 'y' : 'x';
      expect(hasChecksum(key.slice(0, i) + other + key.slice(i + 1))).toBe(false);
    }
  });

  test('fails if two neighbouring characters are swapped or one is missing', () => {
    for (let i = 0; i + 1 < key.length; i++) {
      const swapped = key.slice(0, i) + key.charAt(i + 1) + key.charAt(i) + key.slice(i + 2);
      if (swapped !== key) expect(hasChecksum(swapped)).toBe(false);
      expect(hasChecksum(key.slice(0, i) + key.slice(i + 1))).toBe(false);
    }
  });
});

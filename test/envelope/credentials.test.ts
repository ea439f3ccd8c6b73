import { inspect } from 'node:util';
import { describe, expect, test } from 'vitest';
import { Credentials, generateCredentials, sameCredentials, type KeyText } from '../../src/envelope/credentials.ts';
import { parseCredentials } from '../../src/envelope/formats.ts';
import { credentialsOf } from './fixtures.ts';

const key = 'k'.repeat(32);
const iv = 'i'.repeat(16);

function bytesOf(key: string, iv: string, format: KeyText): { key: string; iv: string } {
  const parsed = parseCredentials(key, iv, format);
  if (!(parsed instanceof Credentials)) throw new Error(JSON.stringify(parsed));
  return { key: parsed.key.export().toString('hex'), iv: parsed.iv.toString('hex') };
}

function problemsOf(key: string, iv: string, format: KeyText): readonly string[] {
  const parsed = parseCredentials(key, iv, format);
  if (parsed instanceof Credentials) return [];
  return parsed.map(({ member, message }) => `${member} ${message}`);
}

const wrongText = {
  key: 'key must be 32 bytes of UTF-8',
  iv: 'iv must be 16 bytes of UTF-8 in its first 16 characters',
};
const wrongBase64 = { key: 'key must be 32 bytes in base64', iv: 'iv must be 16 bytes in base64' };

describe('parseCredentials, format text', () => {
  test('uses the bytes of the strings', () => {
    expect(bytesOf(key, iv, 'text')).toEqual({ key: '6b'.repeat(32), iv: '69'.repeat(16) });
  });

  test('counts the bytes of the key, not its characters', () => {
    expect(bytesOf('é'.repeat(16), iv, 'text').key).toBe('c3a9'.repeat(16));
    expect(problemsOf('é'.repeat(32), iv, 'text')).toEqual([wrongText.key]);
  });

  test('cuts off a longer IV after 16 characters', () => {
    expect(bytesOf(key, 'AAECAwQFBgcICQoLDA0ODw==', 'text').iv).toBe(Buffer.from('AAECAwQFBgcICQoL').toString('hex'));
    expect(bytesOf(key, `${iv}é`, 'text').iv).toBe('69'.repeat(16));
  });

  test.each([
    [31, [wrongText.key]],
    [32, []],
    [33, [wrongText.key]],
  ])('accepts only a key of 32 bytes: %i', (length, problems) => {
    expect(problemsOf('k'.repeat(length), iv, 'text')).toEqual(problems);
  });

  test.each([
    ['no character', '', [wrongText.iv]],
    ['15 characters', 'i'.repeat(15), [wrongText.iv]],
    ['16 characters', 'i'.repeat(16), []],
    ['17 characters', 'i'.repeat(17), []],
    ['15 characters that are 16 bytes', `${'i'.repeat(14)}é`, []],
    ['16 characters that are 17 bytes', `${'i'.repeat(15)}é`, [wrongText.iv]],
  ])('accepts an IV whose first 16 characters are 16 bytes: %s', (_, iv, problems) => {
    expect(problemsOf(key, iv, 'text')).toEqual(problems);
  });
});

describe('parseCredentials, format base64', () => {
  const base64 = (length: number): string => Buffer.alloc(length, 0xfb).toString('base64');

  test('uses the decoded bytes', () => {
    expect(bytesOf(base64(32), base64(16), 'base64')).toEqual({ key: 'fb'.repeat(32), iv: 'fb'.repeat(16) });
  });

  test.each([
    [31, 16, [wrongBase64.key]],
    [33, 16, [wrongBase64.key]],
    [32, 15, [wrongBase64.iv]],
    [32, 17, [wrongBase64.iv]],
    [0, 0, [wrongBase64.key, wrongBase64.iv]],
  ])('refuses a key of %i bytes with an IV of %i', (keyLength, ivLength, problems) => {
    expect(problemsOf(base64(keyLength), base64(ivLength), 'base64')).toEqual(problems);
  });

  test('refuses base64 that is not strict', () => {
    expect(problemsOf(base64(32).replace('=', ''), `${base64(16)}\n`, 'base64')).toEqual(Object.values(wrongBase64));
    expect(problemsOf(base64(32).replaceAll('+', '-'), base64(16), 'base64')).toEqual([wrongBase64.key]);
  });
});

describe('Credentials', () => {
  test('are refused with both problems at once, neither of which repeats the value', () => {
    const problems = problemsOf('secret key', 'secret iv', 'text');
    expect(problems).toEqual([wrongText.key, wrongText.iv]);
    expect(problems.join(' ')).not.toContain('secret');
  });

  test('show nothing when inspected, serialised or copied', () => {
    const credentials = credentialsOf(Buffer.from(key), Buffer.from(iv));
    const shown = inspect({ credentials }, { showHidden: true, depth: 9 }) + JSON.stringify({ credentials });
    expect(shown).not.toMatch(/kkk|iii|6b ?6b|69 ?69|107, ?107|105, ?105/);
    expect(Object.keys(credentials)).toEqual(['algorithm']);
  });

  test('are the same if their keys are the same, whatever the IVs', () => {
    const [a, b] = [Buffer.alloc(32, 1), Buffer.alloc(32, 1).fill(2, 31)];
    expect(sameCredentials(credentialsOf(a, Buffer.alloc(16)), credentialsOf(a, Buffer.alloc(16, 1)))).toBe(true);
    expect(sameCredentials(credentialsOf(a, Buffer.alloc(16)), credentialsOf(b, Buffer.alloc(16)))).toBe(false);
  });
});

describe('generateCredentials', () => {
  test('makes a key of 32 characters and an IV of 16 that are valid as text and are canonical base64', () => {
    for (let run = 0; run < 100; run += 1) {
      const { key, iv } = generateCredentials();
      expect(key).toMatch(/^[A-Za-z0-9+/]{32}$/);
      expect(iv).toMatch(/^[A-Za-z0-9+/]{16}$/);
      expect(parseCredentials(key, iv, 'text')).toBeInstanceOf(Credentials);
    }
  });

  test('never makes the same pair twice', () => {
    const made = Array.from({ length: 100 }, generateCredentials);
    expect(new Set(made.map(({ key }) => key)).size).toBe(100);
    expect(new Set(made.map(({ iv }) => iv)).size).toBe(100);
  });
});

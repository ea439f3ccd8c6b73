import { expect, test } from 'vitest';
import { unescaped, unescapedName } from '../../src/envelope/json/unescape.ts';
import { now } from './fixtures.ts';

const textOf = (content: string): string | undefined => now(unescaped(Buffer.from(content)))?.toString();

test('every escape of an ASCII character is resolved, in either case', () => {
  for (let code = 0; code < 0x80; code += 1) {
    const digits = code.toString(16).padStart(4, '0');
    for (const written of [digits, digits.toUpperCase()]) {
      expect(textOf(`a\\u${written}b`)).toBe(`a${String.fromCharCode(code)}b`);
    }
  }
  expect(textOf('\\"\\\\\\/\\b\\f\\n\\r\\té')).toBe('"\\/\b\f\n\r\té');
});

test('the escape of any other character becomes a NUL, so that it cannot be part of a ciphertext', () => {
  for (const digits of ['0080', '00e9', '0130', '4130', 'ffff', 'D800']) expect(textOf(`\\u${digits}`)).toBe('\0');
});

test.each(['\\x', '\\u123', '\\u123g', '\\u12:4', '\\u 123', '\\u@123', '\\uG000', '\\', '\\U0041', '\\0', 'a\\'])(
  'a string with an invalid escape is refused: %j',
  (content) => {
    expect(textOf(content)).toBeUndefined();
  },
);

test('a name is read up to the length that the longest relevant name has if it is written in escapes', () => {
  const escapesOf = (name: string): string =>
    name.replaceAll(/./g, (letter) => `\\u00${letter.charCodeAt(0).toString(16)}`);
  expect(unescapedName(Buffer.from(escapesOf('encrypted_data')))).toBe('encrypted_data');
  expect(unescapedName(Buffer.from('a'.repeat(84)))).toBe('a'.repeat(84));
  expect(unescapedName(Buffer.from('a'.repeat(85)))).toBeUndefined();
  expect(unescapedName(Buffer.from('d\\x'))).toBeUndefined();
});

import { continueWith } from '../../promises.ts';
import { backslash } from './json.ts';
import { inSlices } from '../../slices.ts';

/** The byte that each letter after a backslash stands for, by the letter's code. */
const escapes = new Map(
  Object.entries({ '"': '"', '\\': '\\', '/': '/', b: '\b', f: '\f', n: '\n', r: '\r', t: '\t' }).map(
    ([letter, value]) => [letter.charCodeAt(0), value.charCodeAt(0)],
  ),
);

/**
 * The content of a JSON string without its escapes; undefined if an escape is wrong. A character above U+007F that is written as an escape
 * becomes a NUL. This is harmless, because a ciphertext contains neither such a character nor a NUL.
 */
export function unescaped(content: Buffer): Buffer | undefined | Promise<Buffer | undefined> {
  const bytes = Buffer.allocUnsafe(content.length);
  let length = 0;
  let at = 0;
  const work = inSlices(content.length, (_from, to) => {
    while (at < to) {
      let byte: number | undefined = content[at];
      if (byte === backslash) {
        const isUnicode = content[at + 1] === unicode;
        byte = isUnicode ? unicodeEscape(content, at) : escapes.get(content[at + 1] ?? 0);
        at += isUnicode ? 6 : 2;
      } else {
        at += 1;
      }
      if (byte === undefined) return false;
      bytes[length] = byte;
      length += 1;
    }
    return true;
  });
  return continueWith(work, (isRight) => (isRight ? bytes.subarray(0, length) : undefined));
}

const unicode = 0x75;

function unicodeEscape(content: Buffer, at: number): number | undefined {
  let code = 0;
  for (let digit = at + 2; digit < at + 6; digit += 1) {
    const value = hexValue(content[digit] ?? 0);
    if (value === undefined) return undefined;
    code = code * 16 + value;
  }
  return code < 0x80 ? code : 0;
}

function hexValue(byte: number): number | undefined {
  if (byte >= 0x30 && byte <= 0x39) return byte - 0x30;
  // Converts a letter to lower case.
  const letter = byte | 0x20;
  return letter >= 0x61 && letter <= 0x66 ? letter - 0x61 + 10 : undefined;
}

/** The length of the longest name of interest, `encrypted_data`, if it is written entirely in escapes. */
const longestName = 84;

/** A member's name without its escapes. Undefined if it is longer than any name of interest, or if an escape is wrong. */
export function unescapedName(content: Buffer): string | undefined {
  if (content.length > longestName) return undefined;
  const text = content.toString('latin1');
  if (!text.includes('\\')) return text;
  const name = unescaped(content);
  return name instanceof Buffer ? name.toString('latin1') : undefined;
}

import { isUtf8 } from 'node:buffer';
import { blockLength, isWholeBlocks, paddingLength } from '../aes-cbc.ts';
import { decodeCiphertext } from '../encoding.ts';
import { hexDigits } from '../ciphertext-hints.ts';
import { isJson, jsonFaultAt } from '../json/json.ts';
import { findPadding } from './paddings.ts';

/** How many characters of a plaintext a hint quotes. */
const quoted = 24;

/** A common mistake whose correction turns the decrypted blocks into JSON; undefined if there is none. */
export function findPlaintextMistake(padded: Buffer): string | undefined {
  const padding = findPadding(padded, isJson);
  if (padding !== undefined) return padding.name;
  const length = paddingLength(padded);
  if (length === 0) return undefined;
  const plaintext = padded.subarray(0, padded.length - length);
  if (plaintext.length === 0) return 'the plaintext is empty: send a JSON value, or no body at all';
  if (plaintext.toString('latin1', 0, 3) === '\xef\xbb\xbf' && isJson(plaintext.subarray(3)))
    return 'the plaintext begins with a byte order mark: encode UTF-8 without one';
  if (isUtf16(plaintext)) return 'the plaintext is UTF-16: encode it as UTF-8';
  if (!isUtf8(plaintext) && isJson(Buffer.from(plaintext.toString('latin1')))) {
    return 'the plaintext is not UTF-8 but Latin-1, or another single-byte character set: encode it as UTF-8';
  }
  const again = findPadding(plaintext, isJson);
  if (again?.name === '')
    return 'the plaintext is padded twice: remove your padding, because your library adds its own';
  if (again !== undefined && again.content.length < plaintext.length) {
    return 'other padding comes between the JSON and the padding that your library adds: remove it';
  }
  const before = jsonStartsAt(plaintext);
  if (before !== undefined) return `${before} bytes precede the JSON: encrypt only the JSON`;
  return undefined;
}

/** Maximum number of beginnings tried. Trying one means checking the whole plaintext, and a client may send nothing but brackets. */
const maxBeginnings = 4;

/** Where JSON begins after a prefix, such as a length, a nonce or the name of a type. */
function jsonStartsAt(plaintext: Buffer): number | undefined {
  let tried = 0;
  for (let from = 1; from <= 2 * blockLength && tried < maxBeginnings; from += 1) {
    // A prefix of one whole block is more likely an IV (see `layouts` in misuse.ts).
    if (from === blockLength) continue;
    const byte = plaintext[from];
    if (byte !== 0x7b && byte !== 0x5b) continue;
    tried += 1;
    if (isJson(plaintext.subarray(from)) && !isJson(plaintext.subarray(0, from))) return from;
  }
  return undefined;
}

function isUtf16(plaintext: Buffer): boolean {
  if (plaintext.length % 2 !== 0) return false;
  return [plaintext, Buffer.from(plaintext).swap16()].some((bytes) =>
    isJson(Buffer.from(bytes.toString('utf16le').replace(/^\ufeff/, ''))),
  );
}

/** Whether decrypted blocks are text with PKCS#7 padding. */
export function isPaddedText(padded: Buffer): boolean {
  const plaintext = padded.subarray(0, padded.length - paddingLength(padded));
  return plaintext.length < padded.length && textEndsAt(plaintext) === plaintext.length;
}

/** The generic answer. It claims nothing about the key, the IV or the plaintext, because there is no evidence for a claim. */
const noJson =
  'neither this key and IV nor the usual mistakes with them produce JSON: are they the pair for this environment? ' +
  'Encrypt JSON with AES-256-CBC and PKCS#7';

/**
 * Describes decrypted blocks if no common mistake accounts for them. The hint asks about the IV only if the first block alone is not text,
 * because the IV changes only that block (NIST SP 800-38A §6.2). Other bytes before the text would look the same.
 *
 * @param padded neither JSON nor corrected to JSON by `findPlaintextMistake`
 */
export function whatComesOut(padded: Buffer): string {
  const padding = paddingLength(padded);
  const plaintext = padded.subarray(0, padded.length - padding);
  const end = textEndsAt(plaintext);
  if (end === plaintext.length) {
    if (padding > 0) return notJson(plaintext);
    return `the decrypted text, ${quote(plaintext)}, has no PKCS#7 padding: was it not padded, or was the ciphertext cut off?`;
  }
  if (end > 3 && plaintext.length - end > 1 && plaintext.subarray(end).every((byte) => byte === 0)) {
    return `the decrypted text, ${quote(plaintext.subarray(0, end))}, is followed by NULs, which are neither JSON nor PKCS#7 padding`;
  }
  if (end >= blockLength) {
    return `the decrypted bytes, ${quote(plaintext)}, are not UTF-8 text from byte ${end} on${padding === 0 ? ', and have no PKCS#7 padding' : ''}`;
  }
  const rest = plaintext.subarray(blockLength);
  if (isEndOfText(rest, padding)) {
    const first = plaintext.subarray(0, blockLength);
    if (readableIn(first) <= readableByChance || first.some(isControl))
      return `only the first 16 bytes are not text; the rest is ${quote(rest)}: was a different IV used, or do 16 bytes precede the text?`;
  }
  if (padding === blockLength && plaintext.length === blockLength) {
    return `the decrypted bytes before the padding, ${quote(plaintext)}, are not text: was a different IV used, or was something other than text encrypted?`;
  }
  if (padding > 2 || isMostlyReadable(plaintext)) {
    return `the decrypted bytes are not UTF-8 text from byte ${end} on: ${quote(plaintext)}; did you encrypt JSON in UTF-8?`;
  }
  return noJson;
}

/** With a wrong IV, the first 16 bytes hardly ever contain more printable ASCII characters than this. */
const readableByChance = 10;

/** Whether the blocks after the first block are text, whatever their padding. */
function isEndOfText(rest: Buffer, padding: number): boolean {
  // The first character may have begun in the previous block.
  const skipped = /^[\x80-\xbf]{0,3}/.exec(rest.toString('latin1', 0, 3))?.[0].length ?? 0;
  const text = rest.subarray(skipped);
  const end = textEndsAt(text);
  if (padding > 0)
    return end === text.length && text.length > 0 && /["\]}\d]\s*$/.test(text.toString('latin1', Math.max(0, end - 8)));
  return end >= blockLength && text.length - end <= 2 * blockLength;
}

/** Whether most of the bytes are readable. Of random bytes, only about a third are readable. */
function isMostlyReadable(bytes: Buffer): boolean {
  return bytes.length >= 2 * blockLength && readableIn(bytes) > bytes.length * 0.75;
}

/** How many bytes are printable ASCII, or NUL (as in UTF-16). */
function readableIn(bytes: Buffer): number {
  return bytes.filter((byte) => byte === 0 || (byte >= 0x20 && byte < 0x7f)).length;
}

/** The offset of the first byte that does not belong to UTF-8 text; the length if all bytes do. */
function textEndsAt(bytes: Buffer): number {
  let end = 0;
  for (const character of bytes.toString()) {
    const code = character.codePointAt(0) ?? 0;
    if (isControl(code) || (code === 0xfffd && bytes.toString('latin1', end, end + 3) !== '\xef\xbf\xbd')) return end;
    end += Buffer.byteLength(character);
  }
  return end;
}

function isControl(code: number): boolean {
  return (code < 0x20 && code !== 9 && code !== 10 && code !== 13) || (code >= 0x7f && code < 0xa0);
}

/** The forms of other formats, each with its name or its remedy. They are tried in this order. */
const formats: readonly (readonly [RegExp, string])[] = [
  [/^(?:a:\d+:\{|O:\d+:"|s:\d+:")/, "PHP's serialize(): use json_encode()"],
  [/^[[({]+'|: (?:True|False|None)\b/, "Python's str(): use json.dumps()"],
  [/^\{\w+=/, "Java's toString(): use a JSON library"],
  [
    /^(?:Array$|\[object |System\.|map\[|#<|<\w+(?:\.\w+)* object at |[\w.$]+@[0-9a-f]+$)/,
    'an object printed as text: use a JSON library',
  ],
  [/^<[?!\w]/, 'XML'],
  [/^(?:%7B|%5B)/i, 'percent-encoded text'],
  [/^[\w.[\]%+-]+=[^{}"]*$/, 'a form'],
  [/^(?:---|[\w-]+: )/, 'YAML'],
  [/^\{\\"/, 'JSON whose quotes were escaped'],
];

function notJson(plaintext: Buffer): string {
  const at = jsonFaultAt(plaintext);
  const text = plaintext.toString();
  const format = formats.find(([form]) => form.test(text))?.[1];
  const what =
    guessEncoding(text.trim()) ?? (format === undefined ? faultInJson(plaintext, at) : `it looks like ${format}`);
  const hint = `the decrypted text is not JSON at byte ${at}${what === undefined ? '' : `, ${what}`}: ${quote(plaintext)}`;
  // A wrong IV may differ from the right one in only one character. The result may then be text, but not the text that was encrypted.
  const mayBeIv = what === undefined && at < blockLength && plaintext.length > blockLength;
  return mayBeIv ? `${hint}; if you encrypted something else, compare the IV` : hint;
}

/** Guesses what the text encodes. */
function guessEncoding(text: string): string | undefined {
  const inner = decodeCiphertext(text);
  if (inner === undefined || inner.length === 0) return undefined;
  const encoding = hexDigits.test(text) ? 'hex' : 'base64';
  if (isJson(inner)) return `it is ${encoding} of JSON`;
  return isWholeBlocks(inner) ? `it looks like a ciphertext in ${encoding}: encrypt once` : undefined;
}

/** The fault at `at`, if it is a common one. Quotes nothing from the document. */
export function faultInJson(document: Buffer, at: number): string | undefined {
  const before = document.toString('latin1', 0, at).trimEnd();
  const from = document.toString('latin1', at, at + 16);
  if (before.trim() === '' && from.trim() === '') return 'there is nothing but white space';
  if (from === '') return 'it ends too early';
  if (/^[\r\n\t]/.test(from)) return 'a line break or a tab in a string';
  if (before.endsWith(',') && /^[\]}]/.test(from)) return 'a comma before the closing bracket';
  if (from.startsWith("'")) return 'single quotes';
  if (/^-?(?:NaN|Infinity)|^aN|^I/.test(from)) return 'NaN and Infinity are not JSON';
  if (from.startsWith('/')) return 'a comment';
  if (from.startsWith('\0')) return 'a NUL byte';
  if (/[{,]$/.test(before) && /^[A-Za-z_$]/.test(from)) return 'a name without double quotes';
  if (/[\x80-\xff]/.test(document.toString('latin1', Math.max(0, at - 1), at + 1)) && !isUtf8(document))
    return 'bytes that are not UTF-8';
  if (isJson(document.subarray(0, at))) return 'something follows the JSON';
  return undefined;
}

/** The beginning of a plaintext as a JSON string, with dots for characters that are not printable. */
function quote(plaintext: Buffer): string {
  // A block other than the first may begin within a character.
  const text = plaintext.toString('utf8', 0, 4 * quoted).replace(/^\ufffd{1,3}/, '');
  const beginning = Array.from(text).slice(0, quoted).join('');
  return JSON.stringify(beginning.replace(/[^\P{C}\n\r\t]|\ufffd/gu, '·'));
}

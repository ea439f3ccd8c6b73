import { isWhiteSpace } from './json.ts';

/**
 * The value of `data` if `text` is a JSON object with exactly that member, a string; otherwise undefined. A duplicate member
 * cannot hide as it does with JSON.parse.
 *
 * Only the shape is checked: there may be a value for a text that is not JSON because of the string's content (a raw control
 * character, bytes that were not UTF-8).
 */
export function soleData(text: string): string | undefined {
  const nameStart = expect(text, 0, '{');
  const nameEnd = endOfString(text, nameStart);
  const valueStart = expect(text, nameEnd, ':');
  const valueEnd = endOfString(text, valueStart);
  const end = expect(text, valueEnd, '}');
  if (end !== text.length || unquote(text.slice(nameStart, nameEnd)) !== 'data') return undefined;
  return unquote(text.slice(valueStart, valueEnd));
}

/** The position of a failed scan, which every step returns unchanged. */
const nowhere = -1;

/** The position of the next token after `character`, with white space on both sides skipped. */
function expect(text: string, from: number, character: string): number {
  const at = skipWhiteSpace(text, from);
  return at !== nowhere && text[at] === character ? skipWhiteSpace(text, at + 1) : nowhere;
}

function skipWhiteSpace(text: string, from: number): number {
  if (from === nowhere) return nowhere;
  let at = from;
  while (isWhiteSpace(text.charCodeAt(at))) at += 1;
  return at;
}

/** The position after the closing quote of the string that begins at `from`. */
function endOfString(text: string, from: number): number {
  if (from === nowhere || text[from] !== '"') return nowhere;
  let quote = text.indexOf('"', from + 1);
  while (quote !== -1 && isEscaped(text, quote)) quote = text.indexOf('"', quote + 1);
  return quote === -1 ? nowhere : quote + 1;
}

/** Whether an odd number of backslashes precedes `at`. */
function isEscaped(text: string, at: number): boolean {
  let before = at - 1;
  while (text[before] === '\\') before -= 1;
  return (at - before) % 2 === 0;
}

/** The value of a JSON string with its quotes; undefined if an escape is wrong. */
function unquote(literal: string): string | undefined {
  if (!literal.includes('\\')) return literal.slice(1, -1);
  try {
    return JSON.parse(literal) as string;
  } catch {
    return undefined;
  }
}

import { maxLineLength, tooLong } from './lines.ts';

/** A CSV record (RFC 4180). Cells in quotes may contain commas, newlines, and quotes that are written twice. */
export type CsvRecord =
  | { readonly line: number; readonly cells: readonly string[] }
  /** `isLast` is true if no further record can be read, because it is not known where the next one starts. */
  | { readonly line: number; readonly problem: string; readonly isLast: boolean };

/** Maximum number of cells in a record, and of characters in a cell. */
const maxCells = 1_000;
const maxCellLength = 16_384;

/** Joins lines into records, each with the number of its first line, from 1. @param lines undefined for a line that is too long */
export async function* csvRecords(lines: AsyncIterable<string | undefined>): AsyncIterable<CsvRecord> {
  let line = 0;
  let begun: { readonly line: number; readonly parts: string[]; length: number } | undefined;
  for await (const text of lines) {
    line += 1;
    begun ??= { line, parts: [], length: 0 };
    begun.length += text === undefined ? Infinity : text.length + 1;
    if (text === undefined || begun.length > maxLineLength + 1) {
      // A line that is too long is dropped, so it is not known whether it ends inside quotes.
      yield { line: begun.line, problem: tooLong, isLast: true };
      return;
    }
    begun.parts.push(text);
    // Only the quotes of this line are counted. If a quote is never closed, counting the quotes of the whole record again for each line
    // would take quadratic time.
    const isOpen = text.split('"').length % 2 === (begun.parts.length === 1 ? 0 : 1);
    if (isOpen) continue;
    const record = begun.parts.join('\n');
    if (record !== '') yield { line: begun.line, ...parseCells(record) };
    begun = undefined;
  }
  if (begun !== undefined) yield { line: begun.line, problem: unbalanced, isLast: true };
}

const unbalanced = 'not CSV: a quote is missing, or is inside a cell without quotes';

type Cells = { readonly cells: readonly string[] } | { readonly problem: string; readonly isLast: false };

function parseCells(text: string): Cells {
  const cells: string[] = [];
  for (let from = 0; ;) {
    const end = text[from] === '"' ? endOfQuoted(text, from + 1) : endOfPlain(text, from);
    if (end === undefined) return { problem: unbalanced, isLast: false };
    const written = text.slice(from, end);
    const cell = written.startsWith('"') ? written.slice(1, -1).replaceAll('""', '"') : written;
    cells.push(cell);
    if (cells.length > maxCells) return { problem: `more than ${maxCells} cells`, isLast: false };
    if (cell.length > maxCellLength) {
      return { problem: `cell ${cells.length} is longer than ${maxCellLength} characters`, isLast: false };
    }
    if (end === text.length) return { cells };
    from = end + 1;
  }
}

/** The end of a cell that does not begin with a quote; undefined if the cell contains a quote. */
function endOfPlain(text: string, from: number): number | undefined {
  const comma = text.indexOf(',', from);
  const end = comma === -1 ? text.length : comma;
  return text.slice(from, end).includes('"') ? undefined : end;
}

/** The offset after the quote that closes a cell; undefined if there is none, or if a character other than a comma follows it. */
function endOfQuoted(text: string, from: number): number | undefined {
  for (let at = from; ;) {
    const quote = text.indexOf('"', at);
    if (quote === -1) return undefined;
    const next = text[quote + 1];
    if (next !== '"') return next === undefined || next === ',' ? quote + 1 : undefined;
    at = quote + 2;
  }
}

/** Records of a CSV text (RFC 4180): cells in quotes may hold commas, quotes written twice, and newlines. */
export interface CsvRecord {
  /** Of its first line, from 1. */
  readonly line: number;
  /** Undefined: a quote is missing or stands where none may. */
  readonly cells: readonly string[] | undefined;
}

const cell = /(?:"((?:[^"]|"")*)"|([^",]*))(,|$)/y;

/** Makes records of lines. */
export async function* csvRecords(lines: AsyncIterable<string>): AsyncIterable<CsvRecord> {
  let line = 0;
  let begun: { line: number; text: string } | undefined;
  for await (const text of lines) {
    line += 1;
    const record = begun === undefined ? { line, text } : { line: begun.line, text: `${begun.text}\n${text}` };
    // Of this line only: a quote that is never closed would have all behind it counted again for each line.
    const isOpen = text.split('"').length % 2 === (begun === undefined ? 0 : 1);
    begun = isOpen ? record : undefined;
    if (!isOpen && record.text !== '') yield { line: record.line, cells: cellsOf(record.text) };
  }
  if (begun !== undefined) yield { line: begun.line, cells: undefined };
}

function cellsOf(text: string): string[] | undefined {
  const cells: string[] = [];
  cell.lastIndex = 0;
  for (;;) {
    const [whole, quoted, plain = '', end] = cell.exec(text) ?? [];
    if (whole === undefined) return undefined;
    cells.push(quoted === undefined ? plain : quoted.replaceAll('""', '"'));
    if (end === '') return cells;
  }
}

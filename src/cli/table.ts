import { beginningOf, folded, pieces, terminalWidth, widthOf } from './text-width.ts';

const gap = '  ';

/** A table of texts: the first row names the columns. */
export type Rows = readonly (readonly string[])[];

/**
 * Lays rows out in columns of minimal width. If the table is wider than a terminal, the column named `shrinks` is cut.
 * If that is not enough, each row becomes a block of lines.
 */
export function table(rows: Rows, shrinks?: string): string {
  const [names = [], ...records] = rows;
  const widths = names.map((_, i) => Math.max(...rows.map((row) => widthOf(row[i] ?? ''))));
  const excess = widths.reduce((sum, width) => sum + width, gap.length * (names.length - 1)) - terminalWidth;
  const shrinking = names.indexOf(shrinks ?? '');
  if (excess > 0) {
    const room = (widths[shrinking] ?? 0) - excess;
    if (room < 8) return records.map((row) => members(names.map((name, i) => [name, row[i] ?? '']))).join('\n');
    widths[shrinking] = room;
  }
  return rows
    .map(
      (row) =>
        row
          .map((text, i) => fit(text, widths[i] ?? 0))
          .join(gap)
          .trimEnd() + '\n',
    )
    .join('');
}

/** Lays names and their values out in two columns; a value that is wider than a terminal continues on the next line. */
export function members(pairs: readonly (readonly [name: string, value: string])[]): string {
  const width = Math.max(...pairs.map(([name]) => name.length));
  const indent = `\n${' '.repeat(width)}${gap}`;
  const room = terminalWidth - width - gap.length;
  const broken = (value: string): string =>
    folded(value, room)
      .flatMap((line) => pieces(line, room))
      .join(indent);
  return pairs.map(([name, value]) => `${name.padEnd(width)}${gap}${broken(value)}\n`).join('');
}

/** The date of an RFC 3339 time. */
export function day(date: string | null | undefined): string {
  return date?.slice(0, 10) ?? '-';
}

/** An RFC 3339 time to the minute, in UTC. */
export function minute(date: string | null | undefined): string {
  return date == null ? '-' : `${date.slice(0, 10)} ${date.slice(11, 16)} UTC`;
}

function fit(text: string, width: number): string {
  const cut = widthOf(text) > width ? `${beginningOf(text, width - 1)}…` : text;
  return cut + ' '.repeat(width - widthOf(cut));
}

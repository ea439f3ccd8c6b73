import type { Output } from './output.ts';
import { beginningOf, folded, pieces, widthOf } from './text-width.ts';

const gap = '  ';
/** The cells of a value in a line at least, however narrow the terminal. */
const leastRoom = 8;

/**
 * Lays rows out in columns of minimal width. If the table is wider than the output, the column named `shrinks` is cut.
 * If that is not enough, each row becomes a block of lines.
 *
 * @param rows the first names the columns
 * @param width of the output, in cells
 */
export function table(rows: readonly (readonly string[])[], width: number, shrinks?: string): string {
  const [names = [], ...records] = rows;
  const widths = names.map((_, i) => Math.max(...rows.map((row) => widthOf(row[i] ?? ''))));
  const excess = widths.reduce((sum, width) => sum + width, gap.length * (names.length - 1)) - width;
  const shrinking = names.indexOf(shrinks ?? '');
  if (excess > 0) {
    const room = (widths[shrinking] ?? 0) - excess;
    if (room < leastRoom) {
      return records
        .map((row) => members(Object.fromEntries(names.map((name, i) => [name, row[i]])), width))
        .join('\n');
    }
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

/**
 * Lays names and their values out in two columns; a value that is wider than the output continues on the next line. Names
 * without a value are left out.
 */
export function members(values: Readonly<Record<string, string | undefined>>, width: number): string {
  const pairs = Object.entries(values).flatMap(([name, value]) =>
    value === undefined ? [] : [[name, value] as const],
  );
  const column = Math.max(...pairs.map(([name]) => name.length));
  const indent = `\n${' '.repeat(column)}${gap}`;
  const room = Math.max(width - column - gap.length, leastRoom);
  const broken = (value: string): string =>
    folded(value, room)
      .flatMap((line) => pieces(line, room))
      .join(indent);
  return pairs.map(([name, value]) => `${name.padEnd(column)}${gap}${broken(value)}\n`).join('');
}

function fit(text: string, width: number): string {
  const cut = widthOf(text) > width ? `${beginningOf(text, width - 1)}…` : text;
  return cut + ' '.repeat(width - widthOf(cut));
}

/** How a list is shown as a table. */
export interface Layout<Item> {
  readonly head: readonly string[];
  /** The column that is cut if the table is wider than a terminal. */
  readonly shrinks: string;
  readonly row: (item: Item) => readonly string[];
  /** The line that says that there is no item. */
  readonly empty: string;
}

/** Rows per table, so that a million accounts need not fit into memory. */
const page = 1_000;

/** Writes a table, page by page, while its items are read. */
export async function writeTable<Item>(
  stdout: Output,
  items: AsyncIterable<Item>,
  { head, shrinks, row, empty }: Layout<Item>,
): Promise<void> {
  let rows: (readonly string[])[] = [];
  let isEmpty = true;
  const flush = async (): Promise<void> => {
    if (rows.length > 0) await stdout.write(table([head, ...rows], stdout.width, shrinks));
    rows = [];
  };
  for await (const item of items) {
    isEmpty = false;
    rows.push(row(item));
    if (rows.length === page) await flush();
  }
  await flush();
  if (isEmpty) await stdout.write(`${empty}\n`);
}

/** Writes a JSON array while its items are read. */
export async function writeArray(stdout: Output, items: AsyncIterable<unknown>): Promise<void> {
  let separator = '[';
  for await (const item of items) {
    await stdout.write(`${separator}\n${JSON.stringify(item)}`);
    separator = ',';
  }
  await stdout.write(separator === '[' ? '[]\n' : '\n]\n');
}

/** The date of an RFC 3339 time. */
export function day(date: string | null | undefined): string {
  return date?.slice(0, 10) ?? '-';
}

/** An RFC 3339 time to the minute, in UTC. */
export function minute(date: string | null | undefined): string {
  return date == null ? '-' : `${date.slice(0, 10)} ${date.slice(11, 16)} UTC`;
}

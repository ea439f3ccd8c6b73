import type { Output } from './output.ts';

const gap = '  ';
/**
 * Characters that move the cursor, begin a line or reverse the order of letters. They could make a terminal show a row that does not exist.
 */
const controls = /[\p{Cc}\p{Zl}\p{Zp}\u202A-\u202E\u2066-\u2069]/gu;

/**
 * Lays out rows in columns.
 *
 * @param cells the rows. The first row names the columns. The others may contain any text that someone with write access to the store has
 *   put there
 */
export function table(cells: readonly (readonly string[])[]): string {
  const rows = cells.map((row) => row.map((text) => text.replaceAll(controls, '\uFFFD')));
  const [names = []] = rows;
  const widths = names.map((_, i) => Math.max(...rows.map((row) => row[i]?.length ?? 0)));
  const line = (row: readonly string[]): string => row.map((text, i) => text.padEnd(widths[i] ?? 0)).join(gap);
  return rows.map((row) => `${line(row).trimEnd()}\n`).join('');
}

/** Lays out names and their values in two columns. Names without a value are left out. */
export function members(values: Readonly<Record<string, string | undefined>>): string {
  return table(Object.entries(values).flatMap(([name, value]) => (value === undefined ? [] : [[name, value]])));
}

/** A number and its noun, such as `1 key` or `1,000 keys`. */
export function counted(count: number, noun: string): string {
  return `${count.toLocaleString('en')} ${noun}${count === 1 ? '' : 's'}`;
}

/** How to show a list as a table. */
export interface Layout<Item> {
  readonly head: readonly string[];
  readonly row: (item: Item) => readonly string[];
  /** The line that is shown if there are no items. */
  readonly empty: string;
}

/** Maximum number of rows per table. A longer list becomes several tables, so that a million accounts need not fit into memory. */
const page = 1_000;

/** Writes a table, page by page, while its items are read. */
export async function writeTable<Item>(
  stdout: Output,
  items: AsyncIterable<Item> | readonly Item[],
  { head, row, empty }: Layout<Item>,
): Promise<void> {
  let rows: (readonly string[])[] = [];
  let isEmpty = true;
  const flush = async (): Promise<void> => {
    if (rows.length > 0) await stdout.write(table([head, ...rows]));
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
export async function writeArray(stdout: Output, items: AsyncIterable<unknown> | readonly unknown[]): Promise<void> {
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

import type { Output } from './output.ts';
import { table } from './table.ts';

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

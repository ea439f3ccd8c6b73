import type { ComponentChildren } from 'preact';

/** A column of a table: its heading, its cell in a row, and the cell's style. */
type Column<Row> = readonly [
  heading: string,
  cell: (row: Row) => ComponentChildren,
  style?: 'name' | 'wide' | 'actions' | 'bare',
];

/**
 * A table or, in a narrow window, a card for each row. If there are no rows, the text of `empty` is shown. The first column names the row;
 * cards leave out the headings of `actions` and `bare` columns.
 */
export function Table<Row>(props: {
  label: string;
  rows: readonly Row[];
  keyOf: (row: Row, index: number) => string;
  columns: readonly Column<Row>[];
  empty?: string;
  /** Whether a row is marked, because it was searched for. */
  isMarked?: (row: Row) => boolean;
}) {
  const { label, rows, keyOf, columns, empty, isMarked } = props;
  if (rows.length === 0) return <p class="empty">{empty}</p>;
  return (
    <div class="scroll" tabIndex={0} role="group" aria-label={label}>
      <table>
        <thead>
          <tr>
            {columns.map(([heading]) => (
              <th key={heading} scope="col">
                {heading}
              </th>
            ))}
          </tr>
        </thead>
        <tbody>
          {rows.map((row, i) => (
            <tr key={keyOf(row, i)} class={isMarked?.(row) === true ? 'marked' : undefined}>
              {columns.map(([heading, cell, style], column) => {
                const Cell = column === 0 ? 'th' : 'td';
                return (
                  <Cell key={heading} class={style} scope={column === 0 ? 'row' : undefined} data-heading={heading}>
                    {cell(row)}
                  </Cell>
                );
              })}
            </tr>
          ))}
        </tbody>
      </table>
    </div>
  );
}

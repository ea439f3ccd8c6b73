import type { ComponentChildren } from 'preact';

/** A column of a table: its heading, its cell in a row, and the cell's style. */
type Column<Row> = readonly [heading: string, cell: (row: Row) => ComponentChildren, style?: 'wide' | 'actions'];

/** A table that scrolls if the window is narrow; without rows, the text `empty`. The first column names the row. */
export function Table<Row>(props: {
  label: string;
  rows: readonly Row[];
  keyOf: (row: Row, index: number) => string;
  columns: readonly Column<Row>[];
  empty?: string;
}) {
  const { label, rows, keyOf, columns, empty } = props;
  if (rows.length === 0) return <p class="empty">{empty}</p>;
  return (
    <div class="scroll" tabIndex={0} role="region" aria-label={label}>
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
            <tr key={keyOf(row, i)}>
              {columns.map(([heading, cell, style], column) => {
                const Cell = column === 0 ? 'th' : 'td';
                return (
                  <Cell key={heading} class={style} scope={column === 0 ? 'row' : undefined}>
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

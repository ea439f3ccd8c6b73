import type { Cell } from './route.ts';

/** An event handler that sets a cell to a value. */
export function set<Value>(cell: Cell<Value>, value: Value): () => void {
  return () => {
    cell.value = value;
  };
}

/** An event handler that sets a cell to the text of its control. */
export function setText(cell: Cell<string>): (event: { readonly currentTarget: { value: string } }) => void {
  return ({ currentTarget }) => {
    cell.value = currentTarget.value;
  };
}

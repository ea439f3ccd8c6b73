import type { Signal } from '@preact/signals';

/** An event handler that sets a signal to a value. */
export function set<Value>(signal: Signal<Value>, value: Value): () => void {
  return () => {
    signal.value = value;
  };
}

/** An event handler that sets a signal to the text of its control. */
export function setText(signal: Signal<string>): (event: { readonly currentTarget: { value: string } }) => void {
  return ({ currentTarget }) => {
    signal.value = currentTarget.value;
  };
}

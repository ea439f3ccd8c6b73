import type { Signal } from '@preact/signals';

/** An event handler that sets a signal to a value. */
export function set<Value>(signal: Signal<Value>, value: Value): () => void {
  return () => {
    signal.value = value;
  };
}

/** Calls `work` with a value: at once, or later if it is a promise. `await` would cost a microtask in both cases. */
export function continueWith<T, R>(value: T | Promise<T>, work: (value: T) => R | Promise<R>): R | Promise<R> {
  return value instanceof Promise ? value.then(work) : work(value);
}

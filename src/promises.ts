/**
 * Calls `work` with a value: at once or, if the value is a promise, when it has resolved. `await` would cost a microtask even without a
 * promise.
 */
export function continueWith<T, R>(value: T | Promise<T>, work: (value: T) => R | Promise<R>): R | Promise<R> {
  return value instanceof Promise ? value.then(work) : work(value);
}

/** Resolves when the condition holds or after `milliseconds`. The condition is checked every 20 milliseconds. */
export async function waitUntil(holds: () => boolean | Promise<boolean>, milliseconds: number): Promise<void> {
  const end = performance.now() + milliseconds;
  while (!(await holds()) && performance.now() < end) await new Promise((resolve) => void setTimeout(resolve, 20));
}

/** Runs a step that may be asynchronous. Passes an error that the step throws to its owner. */
export function attempt(owner: { fail(error: unknown): void }, step: () => void | Promise<void>): void {
  try {
    const done = step();
    if (done instanceof Promise) done.catch((error: unknown) => owner.fail(error));
  } catch (error) {
    owner.fail(error);
  }
}

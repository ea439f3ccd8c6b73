/** Resolves when the condition holds, looked at now and then, or after so many milliseconds. */
export async function until(holds: () => boolean | Promise<boolean>, milliseconds: number): Promise<void> {
  const end = performance.now() + milliseconds;
  while (!(await holds()) && performance.now() < end) await new Promise((resolve) => void setTimeout(resolve, 20));
}

/** Continues with a value: at once if it is here, later if it is promised. An await would cost a microtask in either case. */
export function continueWith<T, R>(value: T | Promise<T>, work: (value: T) => R | Promise<R>): R | Promise<R> {
  return value instanceof Promise ? value.then(work) : work(value);
}

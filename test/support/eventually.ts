import { setTimeout as sleep } from 'node:timers/promises';

type Truthy<T> = T extends false | 0 | '' | null | undefined ? never : T;

/**
 * Polls `condition` until it returns a truthy value, and returns that value.
 *
 * @param awaited what the test waits for, as a clause: `the upstream has the request`
 * @param timeout in ms
 * @param interval the pause between two polls, in ms
 * @throws {Error} that names what was awaited, once `timeout` is over; whatever `condition` throws, at once
 */
export async function eventually<T>(
  awaited: string,
  condition: () => T | Promise<T>,
  { timeout = 10_000, interval = 10 }: { readonly timeout?: number; readonly interval?: number } = {},
): Promise<Truthy<T>> {
  // The error is created here, not in the timer, so that its stack names the line of the test.
  const timedOut = new Error(`timed out after ${timeout} ms: ${awaited}`);
  Error.captureStackTrace(timedOut, eventually);
  let timer: NodeJS.Timeout | undefined;
  const deadline = new Promise<never>((_resolve, reject) => {
    timer = setTimeout(() => reject(timedOut), timeout);
  });
  try {
    for (;;) {
      const value = await Promise.race([condition(), deadline]);
      if (value) return value as Truthy<T>;
      await Promise.race([sleep(interval), deadline]);
    }
  } finally {
    clearTimeout(timer);
  }
}

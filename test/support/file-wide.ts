import { afterAll, beforeAll } from 'vitest';

/** Registers a cleanup that runs later. */
export type Defer = (cleanup: () => Promise<void> | void) => void;

/**
 * Starts something once for all tests of a file or a `describe`, and cleans up after them. Call it where tests are defined. It returns a
 * function that returns the value, and that must be called within the tests.
 */
export function fileWide<Value>(start: (defer: Defer) => Promise<Value>): () => Value {
  const cleanups: (() => Promise<void> | void)[] = [];
  let started: { readonly value: Value } | undefined;
  beforeAll(async () => {
    started = { value: await start((cleanup) => void cleanups.unshift(cleanup)) };
  });
  afterAll(async () => {
    for (const cleanup of cleanups) await cleanup();
  });
  return () => {
    if (started === undefined) throw new Error('not started yet');
    return started.value;
  };
}

import { afterAll, beforeAll } from 'vitest';

/** Has something cleaned up later. */
export type Defer = (cleanup: () => Promise<void> | void) => void;

/**
 * Starts something once for all tests of a file or a `describe`, and cleans up after them. To be called where tests
 * are defined; what it returns is to be called within them.
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

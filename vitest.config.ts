import { defineConfig } from 'vitest/config';

export default defineConfig({
  test: {
    include: ['test/**/*.test.ts'],
    // Processes, not threads: tests send signals and watch what leaves the process.
    pool: 'forks',
    // Mostly they wait.
    maxWorkers: '100%',
    // Long enough for a busy machine; no test waits for it to pass.
    testTimeout: 30_000,
    hookTimeout: 30_000,
  },
});

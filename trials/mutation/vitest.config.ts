import { chmodSync } from 'node:fs';
import { defineConfig } from 'vitest/config';

/** Tests that a mutant cannot use: instrumented code is slower, and a program that a test starts runs without the mutant. */
const excluded: readonly string[] = [];

// Some tests run the sources as another user; StrykerJS makes its copy, the working folder, for its own user alone.
chmodSync(process.cwd(), 0o755);

export default defineConfig({
  test: {
    pool: 'forks',
    include: [
      'test/{accounts,admin,config,envelope,gateway,input,operators,telemetry,upstream,yaml}/**/*.test.ts',
      'test/{app*,errors}.test.ts',
    ],
    exclude: [...excluded],
    testTimeout: 30_000,
    hookTimeout: 30_000,
    expect: { poll: { timeout: 20_000 } },
    // One failure in the run without a mutant ends everything.
    retry: 1,
    env: { FEW_CASES: '1' },
  },
});

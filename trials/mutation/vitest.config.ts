import { chmodSync } from 'node:fs';
import { defineConfig } from 'vitest/config';

/** Tests that run in the process of what they test: a program that a test starts runs without the mutant. */
export const include = [
  'test/{accounts,admin,audit,config,envelope,http1,input,kms,operators,proxy,telemetry,upstream,yaml}/**/*.test.ts',
  'test/{app*,cryptography,errors}.test.ts',
];

/** Tests that need minutes, or measure: instrumented code is slower and takes more memory. */
export const exclude = [
  'test/{http1/held-memory,http1/retired-connections,kms/go-plugin,kms/softhsm}.test.ts',
  'test/proxy/{idle-connections,promotion,slow-clients-tool,testssl,tls-memory}.test.ts',
];

// Some tests run the sources as another user; StrykerJS makes its copy, the working folder, for its own user alone.
chmodSync(process.cwd(), 0o755);

export default defineConfig({
  test: {
    pool: 'forks',
    include,
    exclude,
    testTimeout: 30_000,
    hookTimeout: 30_000,
    expect: { poll: { timeout: 20_000 } },
    // One failure in the run without a mutant ends everything.
    retry: 1,
    env: { FEW_CASES: '1' },
  },
});

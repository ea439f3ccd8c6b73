import { chmodSync } from 'node:fs';
import { defineConfig } from 'vitest/config';
import { testsOfMutants } from './changes.ts';

/** Tests that take minutes, or that measure time or memory. Instrumented code is slower and takes more memory. */
export const exclude = [
  'test/{http1/held-memory,http1/retired-connections,kms/go-plugin,kms/softhsm}.test.ts',
  'test/proxy/{idle-connections,promotion,slow-clients-tool,testssl,connection-memory}.test.ts',
];

// Some tests run the sources as another user, but only this user can read the copy that StrykerJS made, the working
// folder.
chmodSync(process.cwd(), 0o755);

export default defineConfig({
  test: {
    pool: 'forks',
    include: testsOfMutants(),
    exclude,
    setupFiles: 'test/support/overwrite-reads.ts',
    testTimeout: 30_000,
    hookTimeout: 30_000,
    expect: { poll: { timeout: 20_000 } },
    // Without a retry, a single failure in the run without a mutant would end the whole run.
    retry: 1,
    env: { FEW_CASES: '1' },
  },
});

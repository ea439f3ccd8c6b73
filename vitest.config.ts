import { join } from 'node:path';
import { defineConfig } from 'vitest/config';

/** Functions and files without waiting: takes seconds, for each save. */
const unit = [
  'test/*/{changes,credentials,cipher,encoding,envelope,json,sole-member,key-maker,tally,vault,operations}.test.ts',
  'test/accounts/file/{directory,edit,odd-files,read,trail}.test.ts',
  'test/accounts/{in-force,transfer/*}.test.ts',
  'test/config/!(reload|load-in-thread).test.ts',
  'test/{input,yaml}/*.test.ts',
  'test/cli/{cipher,text-width,init}.test.ts',
  'test/gateway/{router,target,client-address,failure-limiter,upstream-headers}.test.ts',
  'test/telemetry/{access-log,recent-traffic,series}.test.ts',
  'test/upstream/response-parser.test.ts',
  'test/{errors,dependencies,runtime}.test.ts',
];
/** The operators' page in one browser, started once. */
const console = ['test/console/*.test.ts'];
/** Merchants' traffic over real sockets, in the tests' own process. */
const gateway = ['test/{gateway,upstream,admin,operators,telemetry}/**/*.test.ts', 'test/app*.test.ts'];

export default defineConfig({
  test: {
    // Processes, not threads: tests send signals and watch what leaves the process.
    pool: 'forks',
    // As many workers as cores, because tests mostly wait.
    maxWorkers: '100%',
    // Long enough for a busy machine; no test waits for it to pass.
    testTimeout: 30_000,
    hookTimeout: 30_000,
    // Programs that tests start are compiled once, not at each start.
    env: { NODE_COMPILE_CACHE: join(import.meta.dirname, 'node_modules/.cache/node') },
    projects: [
      { extends: true, test: { name: 'unit', include: unit } },
      { extends: true, test: { name: 'gateway', include: gateway, exclude: unit } },
      {
        extends: true,
        test: {
          name: 'console',
          include: console,
          globalSetup: 'test/console/chromium.ts',
          // A test takes many steps, and a browser is slow on a busy machine.
          testTimeout: 180_000,
        },
      },
      // Everything else: commands, databases, containers, documents.
      {
        extends: true,
        test: { name: 'system', include: ['test/**/*.test.ts'], exclude: [...unit, ...gateway, ...console] },
      },
    ],
  },
});

import { availableParallelism } from 'node:os';
import { join } from 'node:path';
import { defineConfig } from 'vitest/config';
import { BaseSequencer, type TestSpecification } from 'vitest/node';

/** Functions and files without waiting: takes seconds, for each save. */
export const unit = [
  'test/accounts/{account-stats,changes,key-maker,vault}.test.ts',
  'test/accounts/file/{directory,edit,odd-files,read,receipts,trail}.test.ts',
  'test/accounts/transfer/*.test.ts',
  'test/cli/{cipher,init}.test.ts',
  'test/config/{documentation,files-by-themselves,load,operators,postgres}.test.ts',
  'test/envelope/*.test.ts',
  'test/proxy/{client-address,failure-limiter,limits,router,target,upstream-headers}.test.ts',
  'test/{input,yaml}/*.test.ts',
  'test/telemetry/{access-log,change-log,logger,series}.test.ts',
  'test/http1/response-reader.test.ts',
  'test/{dependencies,errors,runtime}.test.ts',
];
/** The operators' page in one browser, started once. */
const console = ['test/console/*.test.ts'];
/** Merchants' traffic over real sockets, in the tests' own process. */
const gateway = ['test/{proxy,http1,upstream,admin,operators,telemetry}/**/*.test.ts', 'test/app*.test.ts'];

/** Builds the program that tests start. */
const program = 'test/support/built-program.ts';

/** Files of a minute and more. The trials of resources come last, among few others. */
const longest = ['kits/kits', 'trials/mutation', 'console/actions'];

/** Begins with the longest files, so that no worker is left alone with one at the end. */
class LongestFirst extends BaseSequencer {
  override async sort(files: TestSpecification[]): Promise<TestSpecification[]> {
    const isLongest = ({ moduleId }: TestSpecification): boolean =>
      longest.some((name) => moduleId.endsWith(`test/${name}.test.ts`));
    // oxlint-disable-next-line unicorn/no-array-sort -- vitest's method, not that of an array
    const sorted = await super.sort(files);
    return [...sorted.filter(isLongest), ...sorted.filter((file) => !isLongest(file))];
  }
}

export default defineConfig({
  test: {
    sequence: { sequencer: LongestFirst },
    // Processes, not threads: tests send signals and watch what leaves the process.
    pool: 'forks',
    // More workers than cores, because tests mostly wait: with as many, two cores idle for two fifths of the time.
    maxWorkers: Math.ceil(1.5 * availableParallelism()),
    // Long enough for a busy machine; no test waits for it to pass.
    testTimeout: 60_000,
    hookTimeout: 30_000,
    // The default, a second, is too short on a busy machine.
    expect: { poll: { timeout: 20_000 } },
    // Programs that tests start are compiled once, not at each start.
    env: { NODE_COMPILE_CACHE: join(import.meta.dirname, 'node_modules/.cache/node') },
    projects: [
      // These tests leave nothing behind in their process and replace no module, so that many files share one process.
      { extends: true, test: { name: 'unit', include: unit, isolate: false } },
      {
        extends: true,
        test: {
          name: 'gateway',
          include: gateway,
          exclude: unit,
          globalSetup: program,
          setupFiles: 'test/support/overwrite-reads.ts',
        },
      },
      {
        extends: true,
        test: {
          name: 'console',
          include: console,
          globalSetup: [program, 'test/console/chromium.ts'],
          // A test takes many steps, and a browser is slow on a busy machine.
          testTimeout: 180_000,
        },
      },
      // Everything else: commands, databases, containers, documents.
      {
        extends: true,
        test: {
          name: 'system',
          include: ['test/**/*.test.ts'],
          exclude: [...unit, ...gateway, ...console],
          globalSetup: program,
        },
      },
    ],
  },
});

import { spawn } from 'node:child_process';
import { chmodSync, mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join, relative } from 'node:path';
import { ownEnvironment } from '../load/environment.ts';
import type { Defer } from '../load/stage.ts';
import type { Result } from './score.ts';

export const root = join(import.meta.dirname, '../..');

export interface Run {
  readonly results: readonly Result[];
  /** The number of mutants that StrykerJS created. */
  readonly planned: number;
}

/**
 * Makes StrykerJS mutate files and run the tests that reach each mutant, until the time is over.
 *
 * @param seconds for everything, including the first run of the tests, in which nothing is mutated
 * @param tests patterns of the tests to run; all tests if there are none
 * @throws Error if the tests fail without a mutant
 */
export async function mutate(
  files: readonly string[],
  seconds: number,
  defer: Defer,
  tests: readonly string[] = [],
): Promise<Run> {
  const folder = mkdtempSync(join(tmpdir(), 'sidecar-mutation-'));
  defer(() => rmSync(folder, { recursive: true, force: true }));
  // Some tests run the sources as another user, who must be able to read them.
  chmodSync(folder, 0o755);
  const events = join(folder, 'events');
  const configuration = join(folder, 'stryker.config.json');
  writeFileSync(configuration, JSON.stringify({ ...settingsFor(files, folder, events), testFiles: tests }));
  const stryker = join(root, 'node_modules/@stryker-mutator/core/bin/stryker.js');
  const child = spawn(process.execPath, [stryker, 'run', configuration], {
    cwd: root,
    // Stdout is reserved for the score.
    stdio: ['ignore', process.stderr, 'inherit'],
    detached: true,
    env: ownEnvironment(),
  });
  let inTime = true;
  // A negative process id stands for the whole process group. The runners are separate processes.
  const stop = (): void => void (child.exitCode === null && process.kill(-(child.pid ?? 0), 'SIGKILL'));
  defer(stop);
  const timer = setTimeout(() => {
    inTime = false;
    stop();
  }, seconds * 1_000);
  const code = await new Promise<number | null>((resolve) => void child.once('close', resolve));
  clearTimeout(timer);
  if (inTime && code !== 0) throw new Error(`StrykerJS failed with exit code ${code}`);
  return readRun(events);
}

function settingsFor(files: readonly string[], folder: string, events: string): object {
  return {
    testRunner: 'vitest',
    plugins: ['@stryker-mutator/vitest-runner'],
    vitest: { configFile: join(root, 'trials/mutation/vitest.config.ts'), pool: 'forks' },
    mutate: files,
    // With several runners, a busy machine would make mutants exceed the time limit, and these would count as noticed.
    concurrency: 1,
    // Mutants in code that runs only while a file is loaded would need all tests.
    ignoreStatic: true,
    ignorePatterns: ['dist', 'docs/**/*.png'],
    tempDirName: join(folder, 'copies'),
    reporters: ['clear-text', 'event-recorder'],
    // Only the end of the text report is printed.
    clearTextReporter: { logTests: false, reportTests: false, reportMutants: false },
    eventReporter: { baseDir: events },
    dryRunTimeoutMinutes: 60,
  };
}

/**
 * StrykerJS writes each event to a file, and completes that file before it begins the next one. If the run was stopped, the last file may
 * be incomplete.
 */
function readRun(events: string): Run {
  const read = (name: string): readonly unknown[] =>
    readdirSync(events)
      .filter((file) => file.endsWith(`-${name}.json`))
      .flatMap((file) => parsed(readFileSync(join(events, file), 'utf8')));
  const [plan] = read('onMutationTestingPlanReady') as { mutantPlans: readonly unknown[] }[];
  if (plan === undefined) throw new Error('the time was over before the first mutant was tried');
  const results = (read('onMutantTested') as Result[]).map(({ fileName, ...result }) => {
    return Object.assign(result, { fileName: relative(root, fileName) });
  });
  return { results, planned: plan.mutantPlans.length };
}

function parsed(text: string): readonly unknown[] {
  try {
    return [JSON.parse(text)];
  } catch {
    return [];
  }
}

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
  /** The number of mutants that were made. */
  readonly planned: number;
}

/**
 * Has StrykerJS make mutants of files and run the tests that reach them, until the time is over.
 *
 * @param seconds for everything, including the first run of the tests without a mutant
 * @param tests patterns of the only tests to run; all if there is none
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
  // Some tests run the sources as another user.
  chmodSync(folder, 0o755);
  const events = join(folder, 'events');
  const configuration = join(folder, 'stryker.config.json');
  writeFileSync(configuration, JSON.stringify({ ...settingsFor(files, folder, events), testFiles: tests }));
  const stryker = join(root, 'node_modules/@stryker-mutator/core/bin/stryker.js');
  const child = spawn(process.execPath, [stryker, 'run', configuration], {
    cwd: root,
    // Stdout is for the score.
    stdio: ['ignore', process.stderr, 'inherit'],
    detached: true,
    env: ownEnvironment(),
  });
  let inTime = true;
  // A negative process id means the whole group: the runners are processes of their own.
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
    // With more, a busy machine would let mutants run into the time limit, which counts as noticed.
    concurrency: 1,
    // What runs only while a file is loaded needs all tests for each mutant.
    ignoreStatic: true,
    ignorePatterns: ['dist', 'docs/**/*.png'],
    tempDirName: join(folder, 'copies'),
    reporters: ['clear-text', 'event-recorder'],
    // Of text only what is printed at the end.
    clearTextReporter: { logTests: false, reportTests: false, reportMutants: false },
    eventReporter: { baseDir: events },
    dryRunTimeoutMinutes: 60,
  };
}

/** The events are files, each complete before the next one is begun, except for the last ones of a run that was stopped. */
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

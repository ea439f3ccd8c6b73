import { spawn } from 'node:child_process';
import { chmodSync, cpSync, mkdtempSync, readFileSync, rmSync, symlinkSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join, relative } from 'node:path';
import type { Defer } from '../load/stage.ts';
import { mutated, type Mutant } from './mutant.ts';

export const root = join(import.meta.dirname, '../..');

/** Left out of a copy: the packages are linked. */
const notCopied = new Set(['.git', 'node_modules']);

/** For the tests of one mutant, in milliseconds: one that makes them hang is noticed, too. */
const maxRunTime = 180_000;

/** The result of a mutant. */
export type Outcome =
  /** `by`: the name of the first test that failed. */
  | { readonly kind: 'killed'; readonly by: string }
  | { readonly kind: 'survived' }
  /** Its text is not in the file exactly once. */
  | { readonly kind: 'stale' }
  /** The tests could not be run with it, so they say nothing. */
  | { readonly kind: 'broken'; readonly message: string };

/** A copy of the repository, in which one mutant after the other is tried. */
export class Copy {
  readonly #path = mkdtempSync(join(tmpdir(), 'sidecar-mutants-'));

  constructor(defer: Defer) {
    defer(() => rmSync(this.#path, { recursive: true, force: true }));
    // Some tests run the sources as another user.
    chmodSync(this.#path, 0o755);
    const isCopied = (path: string): boolean => !notCopied.has(relative(root, path));
    cpSync(root, this.#path, { recursive: true, filter: isCopied });
    symlinkSync(join(root, 'node_modules'), join(this.#path, 'node_modules'));
  }

  /** Runs the tests of a mutant with the mutant in place. */
  async try(mutant: Mutant): Promise<Outcome> {
    const file = join(this.#path, mutant.file);
    const source = readFileSync(file, 'utf8');
    const changed = mutated(source, mutant);
    if (changed === undefined) return { kind: 'stale' };
    writeFileSync(file, changed);
    try {
      return await this.test(mutant.tests, maxRunTime);
    } finally {
      writeFileSync(file, source);
    }
  }

  /** Runs test files until the first failure. @param maxTime milliseconds */
  async test(tests: readonly string[], maxTime: number): Promise<Outcome> {
    const report = join(this.#path, 'mutant.json');
    rmSync(report, { force: true });
    const vitest = join(root, 'node_modules/vitest/vitest.mjs');
    const options = ['--bail=1', '--reporter=json', `--outputFile=${report}`];
    const child = spawn(process.execPath, [vitest, 'run', ...options, ...tests], {
      cwd: this.#path,
      stdio: 'ignore',
      detached: true,
      env: environment(),
    });
    const timer = setTimeout(() => process.kill(-(child.pid ?? 0), 'SIGKILL'), maxTime);
    const code = await new Promise<number | null>((resolve) => void child.once('close', resolve));
    clearTimeout(timer);
    if (code === 0) return { kind: 'survived' };
    if (code === null) return { kind: 'killed', by: 'the time: the tests did not end' };
    return outcomeOf(report);
  }
}

interface Report {
  readonly testResults: readonly {
    readonly message: string;
    readonly assertionResults: readonly { readonly status: string; readonly fullName: string }[];
  }[];
}

/** The output of a run that failed. */
function outcomeOf(report: string): Outcome {
  let results: Report['testResults'];
  try {
    results = (JSON.parse(readFileSync(report, 'utf8')) as Report).testResults;
  } catch {
    return { kind: 'broken', message: 'vitest ended without a report' };
  }
  const failed = results.flatMap((result) => result.assertionResults).find(({ status }) => status === 'failed');
  if (failed !== undefined) return { kind: 'killed', by: failed.fullName };
  const message = results.find((result) => result.message !== '')?.message.split('\n')[0];
  return message === undefined ? { kind: 'killed', by: 'an error outside the tests' } : { kind: 'broken', message };
}

/** Without what vitest tells its own tests: they may be what starts the runner. */
function environment(): NodeJS.ProcessEnv {
  const own = Object.entries(process.env).filter(([name]) => !/^(?:VITEST|VITE_|TEST$|NODE_ENV$)/.test(name));
  return Object.fromEntries(own);
}

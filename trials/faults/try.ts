import { spawn } from 'node:child_process';
import { chmodSync, cpSync, mkdtempSync, readFileSync, rmSync, symlinkSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join, relative } from 'node:path';
import { ownEnvironment } from '../load/environment.ts';
import type { Defer } from '../load/stage.ts';
import type { Fault } from './faults.ts';

const root = join(import.meta.dirname, '../..');

/** Folders that are not copied. The packages are linked instead. */
const notCopied = new Set(['.git', 'node_modules']);

/** The time limit for the test file of one fault, in milliseconds. */
const maxRunTime = 300_000;

/** The result of a fault's test file. `missed` means a gap in the tests, `stale` a fault whose text is not in the file exactly once. */
export type Outcome = 'noticed' | 'missed' | 'stale';

/** The source with the fault in it; undefined if the fault's text does not occur in the source exactly once. */
export function withFault(source: string, { text, replacement }: Fault): string | undefined {
  const [before, after, ...others] = source.split(text);
  return before === undefined || after === undefined || others.length > 0 ? undefined : before + replacement + after;
}

/** A copy of the repository in which the faults are tried one after another. */
export class Copy {
  readonly path = mkdtempSync(join(tmpdir(), 'sidecar-faults-'));

  constructor(defer: Defer) {
    defer(() => rmSync(this.path, { recursive: true, force: true }));
    // Some tests run the sources as another user, who must be able to read them.
    chmodSync(this.path, 0o755);
    cpSync(root, this.path, { recursive: true, filter: (path) => !notCopied.has(relative(root, path)) });
    symlinkSync(join(root, 'node_modules'), join(this.path, 'node_modules'));
  }

  /** Applies a fault, and runs its test file. */
  async try(fault: Fault): Promise<Outcome> {
    const file = join(this.path, fault.file);
    const source = readFileSync(file, 'utf8');
    const changed = withFault(source, fault);
    if (changed === undefined) return 'stale';
    writeFileSync(file, changed);
    try {
      return (await this.passes([fault.test])) ? 'missed' : 'noticed';
    } finally {
      writeFileSync(file, source);
    }
  }

  /** Whether the test files pass and no test in them is skipped, for example because the machine lacks something. */
  async passes(tests: readonly string[]): Promise<boolean> {
    const report = join(this.path, 'report.json');
    const options = ['--bail=1', '--reporter=json', `--outputFile=${report}`];
    const child = spawn(process.execPath, ['node_modules/vitest/vitest.mjs', 'run', ...options, ...tests], {
      cwd: this.path,
      stdio: 'ignore',
      detached: true,
      env: ownEnvironment(),
    });
    // A negative process id stands for the whole process group.
    const timer = setTimeout(() => process.kill(-(child.pid ?? 0), 'SIGKILL'), maxRunTime * tests.length);
    const code = await new Promise<number | null>((resolve) => void child.once('close', resolve));
    clearTimeout(timer);
    return (
      code === 0 && (JSON.parse(readFileSync(report, 'utf8')) as { numPendingTests: number }).numPendingTests === 0
    );
  }
}

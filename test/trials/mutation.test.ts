import { execFileSync } from 'node:child_process';
import { expect, onTestFinished, test } from 'vitest';
import { changedSources, testsOf } from '../../trials/mutation/changes.ts';
import { mutate } from '../../trials/mutation/run.ts';
import { scoreOf, type Result } from '../../trials/mutation/score.ts';
import { Folder } from '../support/folder.ts';

function result(status: Result['status'], fileName = 'src/a/b.ts'): Result {
  return {
    fileName,
    mutatorName: 'BooleanLiteral',
    replacement: 'false',
    status,
    location: { start: { line: 3, column: 7 } },
  };
}

test('StrykerJS creates mutants of a file, and the tests that reach it notice most of them', async () => {
  const file = 'src/input/json.ts';
  const { results, planned } = await mutate([file], 300, onTestFinished, [testsOf(file)]);
  const { percent, table } = scoreOf(results, planned);
  expect(results).toHaveLength(planned);
  expect(percent).toBeGreaterThan(50);
  expect(table.map(([name]) => name)).toEqual(['', '`src/input`', 'together']);
}, 320_000);

test('the score is the share of the tried mutants that was noticed', () => {
  const results = [
    ...(['Killed', 'Killed', 'Timeout', 'Survived', 'Ignored', 'RuntimeError', 'CompileError'] as const).map((status) =>
      result(status),
    ),
    result('NoCoverage', 'src/c/d.ts'),
  ];
  const { percent, table, survivors } = scoreOf(results, 10);
  expect(percent).toBe(60);
  expect(table.slice(1)).toEqual([
    ['`src/a`', '4', '3', '1', '0', '75.0 %'],
    ['`src/c`', '1', '0', '0', '1', '0.0 %'],
    ['together, 2 more not tried', '5', '3', '1', '1', '60.0 %'],
  ]);
  expect(survivors).toEqual([
    'src/a/b.ts:3:7 BooleanLiteral: false',
    'src/c/d.ts:3:7 BooleanLiteral: false (reached by no test)',
  ]);
});

test('the files of src/ that differ from the base are mutated, whether they are committed, uncommitted or new', () => {
  const folder = new Folder({});
  const git = (...args: readonly string[]): void => {
    execFileSync('git', ['-c', 'user.name=x', '-c', 'user.email=x@example.com', ...args], { cwd: folder.path });
  };
  const write = (...names: readonly string[]): void => {
    for (const name of names)
      execFileSync('bash', ['-c', 'mkdir -p "$(dirname "$0")"; echo x >>"$0"', name], { cwd: folder.path });
  };
  git('init', '--quiet');
  write('src/same.ts', 'src/committed.ts', 'src/removed.ts', 'src/changed.ts', 'test/a.test.ts');
  git('add', '.');
  git('commit', '--quiet', '--message', 'base');
  write('src/committed.ts', 'test/a.test.ts', 'src/main.ts', 'src/cli/serve.ts', 'src/proxy/a.ts', 'src/x.sql');
  git('rm', '--quiet', 'src/removed.ts');
  git('add', '.');
  git('commit', '--quiet', '--message', 'change');
  write('src/changed.ts', 'src/new/b.ts');
  expect(changedSources(folder.path, 'HEAD~1').toSorted()).toEqual(
    ['src/changed.ts', 'src/committed.ts', 'src/proxy/a.ts', 'src/new/b.ts'].toSorted(),
  );
});

import { parseArgs } from 'node:util';
import { asText } from '../../bench/table.ts';
import { withCleanUp } from '../load/stage.ts';
import { changedSources, git, testsOf } from './changes.ts';
import { mutate, root } from './run.ts';
import { scoreOf } from './score.ts';

const usage = `npm run mutate -- [FILE...] [OPTIONS]

Makes mutants of files with StrykerJS, and runs the tests that reach each of them: of named files those in the folder of
the same name in test/, and all tests of the files in src/ that a change touches. Exit code 1 below 90 %.

  --base REV   what the change is compared with (where this branch left main)
  --minutes N  when to stop (120)
`;

const leastPercent = 90;

async function run(named: readonly string[], base: string | undefined, minutes: number): Promise<number> {
  const since = git(root, 'rev-parse', '--short', base ?? git(root, 'merge-base', 'HEAD', 'main'));
  const files = named.length > 0 ? named : changedSources(root, since);
  if (files.length === 0) {
    console.log(`nothing in src/ has changed since ${since}: --base REV compares with another commit`);
    return 0;
  }
  const tests = [...new Set(named.map(testsOf))];
  const { results, planned } = await withCleanUp((defer) => mutate(files, minutes * 60, defer, tests));
  const { percent, table, survivors } = scoreOf(results, planned);
  if (named.length === 0) console.log(`files that have changed since ${since}\n`);
  console.log(`${asText(table)}\n`);
  for (const line of survivors) console.log(line);
  return percent >= leastPercent ? 0 : 1;
}

try {
  const options = { base: { type: 'string' }, minutes: { type: 'string', default: '120' } } as const;
  const { values, positionals } = parseArgs({ options, allowPositionals: true });
  process.exitCode = await run(positionals, values.base, Number(values.minutes));
} catch (error) {
  console.error(`${(error as Error).message}\n\n${usage}`);
  process.exitCode = 2;
}

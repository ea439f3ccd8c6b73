import { parseArgs } from 'node:util';
import { withCleanUp } from '../load/stage.ts';
import { all } from './all.ts';
import { checkTests, lineOf, tryMutants, verdict } from './mutants.ts';

const usage = `npm run mutate -- [OPTIONS]

Puts faults into copies of the sources, one at a time, and runs the tests that must detect them. Exit code 1 if too few
are detected, or if a fault no longer fits the sources.

  --only TEXT  only mutants whose file or reason contains this text
  --jobs N     number of mutants at a time (2)
`;

async function run(only: string, jobs: number): Promise<number> {
  const chosen = all.filter(({ file, why }) => file.includes(only) || why.includes(only));
  if (chosen.length === 0) throw new Error(`no mutant has ${only} in its file or reason`);
  const tried = await withCleanUp(async (defer) => {
    await checkTests(chosen, defer);
    return tryMutants(chosen, jobs, defer, (each) => console.log(lineOf(each)));
  });
  const { line, ok } = verdict(tried);
  console.log(`\n${line}`);
  return ok ? 0 : 1;
}

try {
  const options = { only: { type: 'string', default: '' }, jobs: { type: 'string', default: '2' } } as const;
  const { only, jobs } = parseArgs({ options }).values;
  process.exitCode = await run(only, Math.max(1, Number.parseInt(jobs, 10)));
} catch (error) {
  console.error(`${(error as Error).message}\n\n${usage}`);
  process.exitCode = 2;
}

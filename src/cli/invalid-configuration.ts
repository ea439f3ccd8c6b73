import { complain } from './complain.ts';
import { exitCodes, type CliIo } from './io.ts';
import { formatProblem, type Problem } from '../yaml/problem.ts';

/** Says on stderr all that is wrong with a configuration. Returns the exit code. */
export async function invalidConfiguration(io: Pick<CliIo, 'stderr'>, problems: readonly Problem[]): Promise<number> {
  for (const problem of problems) await complain(io, `${formatProblem(problem)}\n`);
  return exitCodes.configuration;
}

import { formatProblem, type Problem } from '../config/load.ts';
import { exitCodes, type CliIo } from './io.ts';

/** Says on stderr all that is wrong with a configuration. Returns the exit code. */
export function invalidConfiguration({ stderr }: Pick<CliIo, 'stderr'>, problems: readonly Problem[]): number {
  for (const problem of problems) stderr.write(`${formatProblem(problem)}\n`);
  return exitCodes.configuration;
}

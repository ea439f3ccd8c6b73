import { formatFileProblem, type FileProblem } from '../yaml/file-problem.ts';
import { complain } from './complain.ts';
import { exitCodes, type CliIo } from './io.ts';

/** The most problems that are printed. */
export const maxProblems = 100;

/** Writes the problems of a configuration to stderr. Returns the exit code. */
export async function invalidConfiguration(
  io: Pick<CliIo, 'stderr'>,
  problems: readonly FileProblem[],
): Promise<number> {
  await complain(io, problemLines(problems).join(''));
  return exitCodes.configuration;
}

/** The first problems, one per line, and their number if there are more. */
export function problemLines(problems: readonly FileProblem[]): string[] {
  const lines = problems.slice(0, maxProblems).map((problem) => `${formatFileProblem(problem)}\n`);
  if (problems.length <= maxProblems) return lines;
  return [...lines, `${problems.length} problems; these are the first ${maxProblems}\n`];
}

import { AccountsError } from '../accounts/accounts-error.ts';
import { formatFileProblem, type FileProblem } from '../yaml/file-problem.ts';
import { exitCodes, type CliIo } from './io.ts';

/** Thrown to end a command with messages for its user, one per line, and an exit code. */
export class CommandFailed extends Error {
  readonly exitCode: number;
  readonly messages: readonly string[];

  constructor(messages: string | readonly string[], exitCode: number = exitCodes.failed) {
    super('the command failed');
    this.messages = [messages].flat();
    this.exitCode = exitCode;
  }
}

/**
 * Thrown to end a command with the problems of its configuration. The messages name the file, so they do not begin with the command's name.
 */
class InvalidConfiguration extends CommandFailed {
  constructor(problems: readonly FileProblem[]) {
    super(problemLines(problems), exitCodes.configuration);
  }
}

type Loaded = { readonly ok: true } | { readonly ok: false; readonly problems: readonly FileProblem[] };

/** Returns a configuration if it is valid. @throws CommandFailed with its problems if it is not */
export function valid<T extends Loaded>(loaded: T): Extract<T, { readonly ok: true }> {
  if (!loaded.ok) throw new InvalidConfiguration(loaded.problems);
  return loaded as Extract<T, { readonly ok: true }>;
}

export function withCode({ message, code }: AccountsError): string {
  return `${message} (${code})`;
}

/** Maximum number of problems printed. */
export const maxProblems = 100;

/** The first problems, one per line, and the number of all problems if there are more. */
export function problemLines(problems: readonly FileProblem[]): string[] {
  const lines = problems.slice(0, maxProblems).map(formatFileProblem);
  if (problems.length <= maxProblems) return lines;
  return [...lines, `${problems.length} problems; these are the first ${maxProblems}`];
}

/**
 * Runs a command. If the command fails, writes its messages to stderr, each prefixed with the command's name. Returns the exit code.
 *
 * @param work resolves to the exit code, or to undefined for success
 */
export async function toExitCode(
  io: Pick<CliIo, 'stderr'>,
  command: string,
  work: () => Promise<number | void>,
): Promise<number> {
  try {
    return (await work()) ?? exitCodes.done;
  } catch (thrown) {
    const error = thrown instanceof AccountsError ? new CommandFailed(withCode(thrown)) : thrown;
    if (!(error instanceof CommandFailed)) throw error;
    const prefix = error instanceof InvalidConfiguration ? '' : `${command}: `;
    for (const message of error.messages) await printError(io, `${prefix}${message}\n`);
    return error.exitCode;
  }
}

/** Writes messages to stderr. If stderr is closed, the command continues. @param text lines, each of which ends with a newline */
export async function printError({ stderr }: Pick<CliIo, 'stderr'>, text: string): Promise<void> {
  try {
    await stderr.write(text);
  } catch {
    // The error is ignored, because there is no other place to report it.
  }
}

/** Runs `work`. If it fails because `file` cannot be read, the error names the file. @throws CommandFailed */
export async function readable(file: string, work: () => Promise<void>): Promise<void> {
  try {
    await work();
  } catch (error) {
    const { code, path } = error as NodeJS.ErrnoException;
    if (path === file) throw new CommandFailed(`cannot read ${file}: ${code}`);
    if (code === 'ERR_ENCODING_INVALID_ENCODED_DATA') throw new CommandFailed(`cannot read ${file}: it is not UTF-8`);
    if (code === 'EISDIR') throw new CommandFailed(`cannot read ${file}: it is a directory`);
    throw error;
  }
}

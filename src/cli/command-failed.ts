import { complain } from './complain.ts';
import { exitCodes, type CliIo } from './io.ts';

/** Ends a command with a message for its user, and the exit code that goes with it. */
export class CommandFailed extends Error {
  readonly exitCode: number;

  constructor(message: string, exitCode: number = exitCodes.failed) {
    super(message);
    this.exitCode = exitCode;
  }
}

/** Runs a command. If it fails, writes the message to stderr, after the name of the command. Returns the exit code. */
export async function exitCodeOf(
  io: Pick<CliIo, 'stderr'>,
  command: string,
  work: () => Promise<void>,
): Promise<number> {
  try {
    await work();
    return exitCodes.done;
  } catch (error) {
    if (!(error instanceof CommandFailed)) throw error;
    await complain(io, `${command}: ${error.message}\n`);
    return error.exitCode;
  }
}

import { exitCodes } from './io.ts';

/** Ends a command with a message for its user, and the exit code that goes with it. */
export class CommandFailed extends Error {
  readonly exitCode: number;

  constructor(message: string, exitCode: number = exitCodes.failed) {
    super(message);
    this.exitCode = exitCode;
  }
}

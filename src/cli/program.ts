import { Command, CommanderError } from 'commander';
import { complain } from './complain.ts';
import { configOption } from './config-option.ts';
import { exitCodes, type CliIo } from './io.ts';
import { addOtherCommands } from './other-commands.ts';
import { serve } from './serve.ts';

/** Runs the command that `args` names. Returns the exit code. */
export async function runProgram(args: readonly string[], io: CliIo): Promise<number> {
  let exitCode: number = exitCodes.done;
  const program = new Command('sidecar')
    .description('An encryption sidecar for payment APIs: checks API keys, opens envelopes, seals responses.')
    .version(io.version)
    .exitOverride()
    .configureOutput({ writeOut: (text) => void io.stdout.write(text), writeErr: (text) => void complain(io, text) });
  const setExitCode = (code: number): void => void (exitCode = code);

  program
    .command('serve')
    .description('run the sidecar')
    .addOption(configOption(io))
    .action(async ({ config }: { config: string }) => {
      setExitCode(await serve(io, config));
    });
  addOtherCommands(program, io, setExitCode);

  try {
    await program.parseAsync(args, { from: 'user' });
    return exitCode;
  } catch (error) {
    if (!(error instanceof CommanderError)) throw error;
    // `--help` and `--version` succeed; everything else that commander throws is wrong usage.
    return error.exitCode === 0 ? exitCodes.done : exitCodes.usage;
  }
}

import { Command, CommanderError } from 'commander';
import { complain } from './complain.ts';
import { configOption } from './config-option.ts';
import { exitCodes, type CliIo } from './io.ts';
import { OutputFailed } from './output.ts';
import { serve } from './serve.ts';

/**
 * Runs the command that `args` names (without the program's own name) and returns the process's exit code: 0 done,
 * 2 wrong usage, 78 an invalid configuration, 1 anything else. When it resolves, all output has been written: the
 * process may exit.
 */
export async function run(args: readonly string[], io: CliIo): Promise<number> {
  let exitCode: number = exitCodes.done;
  try {
    exitCode = await runCommand(args, io);
    await io.stdout.flush();
  } catch (error) {
    if (!(error instanceof OutputFailed)) throw error;
    // The reader closed the pipe, as `| head` does: that is not a failure.
    if (!error.readerLeft) {
      await complain(io, `${error.message}\n`);
      exitCode = exitCodes.failed;
    }
  }
  await io.stderr.flush().catch(() => {});
  return exitCode;
}

async function runCommand(args: readonly string[], io: CliIo): Promise<number> {
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
  // `serve` loads no other command: it runs for months, beside a payment core.
  if (args[0] !== 'serve') {
    const { addOtherCommands } = await import('./other-commands.ts');
    addOtherCommands(program, io, setExitCode);
  }

  try {
    await program.parseAsync(args, { from: 'user' });
    return exitCode;
  } catch (error) {
    if (!(error instanceof CommanderError)) throw error;
    // `--help` and `--version` succeed; everything else that commander throws is wrong usage.
    return error.exitCode === 0 ? exitCodes.done : exitCodes.usage;
  }
}

import { toExitCode, printError } from './failures.ts';
import { defaultConfig, exitCodes, type CliIo } from './io.ts';
import { OutputFailed } from './output.ts';
import { begin } from './start.ts';

/**
 * Runs the command that `args` names (without the program's own name) and returns the process's exit code: 0 for success, 2 for wrong
 * usage, 78 for an invalid configuration, 1 for any other failure. When the promise resolves, all output has been written, so the process
 * may exit.
 */
export async function run(args: readonly string[], io: CliIo): Promise<number> {
  let exitCode: number = exitCodes.done;
  try {
    exitCode = await runCommand(args, io);
    await io.stdout.flush();
  } catch (error) {
    if (!(error instanceof OutputFailed)) throw error;
    // If the reader closed the pipe, as `| head` does, the command has not failed.
    if (!error.readerLeft) {
      await printError(io, `${error.message}\n`);
      exitCode = exitCodes.failed;
    }
  }
  await io.stderr.flush().catch(() => {});
  return exitCode;
}

async function runCommand(args: readonly string[], io: CliIo): Promise<number> {
  const config = configToServe(args, io);
  if (config !== undefined) {
    return toExitCode(io, 'serve', async () => {
      const start = begin(io, config);
      const { serve } = await import('./serve.ts');
      return serve(io, config, start);
    });
  }
  const { runProgram } = await import('./program.ts');
  return runProgram(args, io);
}

/**
 * The path of the configuration for a plain `serve` or `serve --config FILE`, as containers run it; undefined for any other command line.
 * These two command lines are handled without the command-line parser, so that a running sidecar does not hold the parser in memory.
 */
function configToServe([command, option, file, ...rest]: readonly string[], { env }: CliIo): string | undefined {
  if (command !== 'serve' || rest.length > 0) return undefined;
  if (option === undefined) return defaultConfig(env);
  return option === '--config' && file !== undefined && !file.startsWith('-') ? file : undefined;
}

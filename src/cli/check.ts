import { loadConfig } from '../config/load.ts';
import { formatProblem } from '../yaml/problem.ts';
import { exitCodes, type CliIo } from './io.ts';

/** `check`: `OK`, after any warnings, or every problem of the configuration's files. Returns the exit code. */
export async function check({ env, stdout }: Pick<CliIo, 'env' | 'stdout'>, configFile: string): Promise<number> {
  const loaded = loadConfig(configFile, env);
  for (const finding of loaded.ok ? loaded.warnings : loaded.problems) {
    await stdout.write(`${formatProblem(finding)}\n`);
  }
  if (!loaded.ok) return exitCodes.configuration;
  await stdout.write('OK\n');
  return exitCodes.done;
}

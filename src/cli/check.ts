import { loadConfig } from '../config/load.ts';
import { onlineChecks, type Check } from './check-online.ts';
import { maxProblems, problemLines } from './failures.ts';
import { exitCodes, type CliIo } from './io.ts';

export interface CheckOptions {
  readonly config: string;
  readonly online?: true;
  readonly json?: true;
}

/**
 * `check`: `OK` after any warnings, or the problems of the configuration's files; with `--online` also whether the store, the
 * upstreams and the certificates can be used now. Returns the exit code.
 */
export async function check(io: Pick<CliIo, 'env' | 'stdout' | 'clock'>, options: CheckOptions): Promise<number> {
  const loaded = loadConfig(options.config, io.env);
  const problems = loaded.ok ? [] : loaded.problems;
  const warnings = loaded.ok ? loaded.warnings : [];
  const checks = loaded.ok && options.online ? await onlineChecks(loaded.config, io.clock()) : [];
  const ok = loaded.ok && checks.every((each) => each.ok);
  if (options.json) {
    const result = { ok, problem_count: problems.length, problems: problems.slice(0, maxProblems), warnings, checks };
    await io.stdout.write(`${JSON.stringify(result)}\n`);
  } else {
    const lines = [...problemLines([...problems, ...warnings]), ...checkLines(checks), ...(ok ? ['OK'] : [])];
    await io.stdout.write(lines.map((line) => `${line}\n`).join(''));
  }
  if (!loaded.ok) return exitCodes.configuration;
  return ok ? exitCodes.done : exitCodes.failed;
}

function checkLines(checks: readonly Check[]): string[] {
  const width = Math.max(0, ...checks.map(({ check: name }) => name.length));
  return checks.map(({ ok, check: name, detail }) => `${ok ? 'ok    ' : 'failed'}  ${name.padEnd(width)}  ${detail}`);
}

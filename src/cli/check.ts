import { unwrapKeys } from '../accounts/keyring.ts';
import { loadConfig, loadKms } from '../config/load.ts';
import { loadInThread } from '../config/load-in-thread.ts';
import { combine, type LoadResult } from '../config/loaded.ts';
import { problemWithFile } from '../yaml/file-problem.ts';
import { kmsChecks, onlineChecks, type Check } from './check-online.ts';
import { maxProblems, problemLines } from './failures.ts';
import { exitCodes, type CliIo } from './io.ts';

export type CheckIo = Pick<CliIo, 'env' | 'stdout' | 'clock' | 'keyring'>;

export interface CheckOptions {
  readonly config: string;
  readonly online?: true;
  readonly json?: true;
}

/**
 * `check`: prints `OK` after any warnings, or the problems of the configuration's files. With `--online`, also prints whether the store,
 * the upstreams and the certificates can be used now. Returns the exit code.
 */
export async function check(io: CheckIo, options: CheckOptions): Promise<number> {
  const kms = options.online ? await kmsChecks(loadKms(options.config, io.env), io.keyring) : [];
  const isLocked = kms.some((each) => !each.ok);
  const loaded =
    options.online && !isLocked ? await loadOnline(io, options.config) : loadConfig(options.config, io.env, 'problem');
  const problems = loaded.ok ? [] : loaded.problems;
  const isOffline = loaded.ok && loaded.config.kms !== undefined && !options.online;
  const unopened = 'warning: stored credentials were not tested, because only "check --online" calls the KMS';
  const notes = isOffline ? [problemWithFile(options.config, unopened, 'kms')] : [];
  const warnings = loaded.ok ? [...loaded.warnings, ...notes] : [];
  // If the KMS is unavailable, the other checks are skipped, because no credentials could be opened.
  const others = loaded.ok && options.online && !isLocked ? await onlineChecks(loaded.config, io) : [];
  const checks = [...kms, ...others];
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

/** Like `loadConfig`, but also asks the KMS once to unwrap the master keys. */
async function loadOnline({ env, keyring }: CheckIo, file: string): Promise<LoadResult> {
  return combine(await loadInThread({ file, env }, { unwrap: ({ kms, keys }) => unwrapKeys(keyring(kms), keys) }));
}

function checkLines(checks: readonly Check[]): string[] {
  const width = Math.max(0, ...checks.map(({ check: name }) => name.length));
  return checks.map(({ ok, check: name, detail }) => `${ok ? 'ok    ' : 'failed'}  ${name.padEnd(width)}  ${detail}`);
}

import { spawnSync } from 'node:child_process';

/** The programs that this machine lacks, as a reason to skip; undefined if it has all. */
export function missingTools(...programs: readonly string[]): string | undefined {
  const missing = programs.filter((program) => spawnSync(program, ['--help'], { stdio: 'ignore' }).error !== undefined);
  return missing.length === 0 ? undefined : `${missing.join(' and ')} not found`;
}

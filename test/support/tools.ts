import { spawnSync } from 'node:child_process';

/** Which of the programs are not on this machine, as a reason to skip; undefined where all are. */
export function missingTools(...programs: readonly string[]): string | undefined {
  const missing = programs.filter((program) => spawnSync(program, ['--help'], { stdio: 'ignore' }).error !== undefined);
  return missing.length === 0 ? undefined : `${missing.join(' and ')} not found`;
}

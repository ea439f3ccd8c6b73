import { spawnSync } from 'node:child_process';
import { readFileSync } from 'node:fs';
import { cpus, release, totalmem } from 'node:os';

/** A description of the machine that was measured. */
export interface Machine {
  readonly cpu: string;
  readonly cores: number;
  readonly memory: string;
  readonly kernel: string;
  readonly versions: Readonly<Record<string, string>>;
}

export function describeMachine(): Machine {
  const all = cpus();
  return {
    cpu: all[0]?.model.trim() ?? 'unknown',
    cores: all.length,
    memory: `${Math.round(totalmem() / 1024 ** 3)} GB`,
    kernel: `Linux ${release()}`,
    versions: Object.fromEntries(
      Object.entries({
        Node: process.version.slice(1),
        Go: versionOf('go', ['version'], /go(\d\S*)/),
        nginx: versionOf('nginx', ['-v'], /nginx\/(\S+)/),
        OpenSSL: versionOf('openssl', ['version'], /OpenSSL (\S+)/),
        wrk: versionOf('wrk', ['-v'], /wrk (\S+)/),
      }).filter((entry): entry is [string, string] => entry[1] !== undefined),
    ),
  };
}

function versionOf(command: string, args: readonly string[], pattern: RegExp): string | undefined {
  const { stdout, stderr } = spawnSync(command, args, { encoding: 'utf8' });
  return pattern.exec(`${stdout ?? ''}${stderr ?? ''}`)?.[1];
}

/** Whether a command exists here. */
export function hasCommand(command: string): boolean {
  return spawnSync(command, ['--version']).error === undefined;
}

/**
 * The cores, in the notation of taskset: one for the measured server, the rest for load, upstream and the benchmark
 * itself.
 */
export interface Cores {
  readonly server: string;
  readonly others: string;
}

/** @throws if there is only one core to use */
export function chooseCores(): Cores {
  const allowed = /^Cpus_allowed_list:\s*(\S+)$/m.exec(readFileSync('/proc/self/status', 'utf8'))?.[1] ?? '0';
  const cores = allowed.split(',').flatMap((range) => {
    const [first = 0, last = first] = range.split('-').map(Number);
    return Array.from({ length: last - first + 1 }, (_, i) => first + i);
  });
  const [server, ...others] = cores;
  if (server === undefined || others.length === 0) throw new Error('the benchmark needs two cores');
  return { server: String(server), others: others.join(',') };
}

/** Moves this process, and the processes that it starts, to the other cores. */
export function pinItself(cores: string): void {
  spawnSync('taskset', ['--all-tasks', '--cpu-list', '--pid', cores, String(process.pid)]);
}

import { spawn } from 'node:child_process';
import { mkdirSync, writeFileSync } from 'node:fs';
import { loadavg } from 'node:os';
import { join } from 'node:path';
import { describeMachine } from '../../bench/machine.ts';
import { git } from '../mutation/changes.ts';

/** The name of the file for a run: the script's name, followed by the arguments that are words. */
export function nameOf(script: string, args: readonly string[]): string {
  return [script, ...args.filter((arg) => /^[a-z]+(-[a-z]+)*$/.test(arg))].join('-');
}

/**
 * Runs a command. If it exits with 0, writes its output to a file, after a line with the date, the commit, the machine and the duration.
 *
 * @returns its exit code
 */
export async function keep(file: string, root: string, command: readonly [string, ...string[]]): Promise<number> {
  const [program, ...args] = command;
  const load = loadavg()[0]?.toFixed(1);
  const start = performance.now();
  const child = spawn(program, args, {
    cwd: root,
    stdio: ['ignore', 'pipe', 'inherit'],
    env: { ...process.env, NO_COLOR: '1' },
  });
  let output = '';
  child.stdout.setEncoding('utf8').on('data', (text: string) => {
    output += text;
    process.stdout.write(text);
  });
  const code = await new Promise<number | null>(
    (resolve, reject) => void child.once('error', reject).once('close', resolve),
  );
  if (code !== 0) return code ?? 1;
  const { cpu, cores, kernel, versions } = describeMachine();
  const run = [
    new Date().toISOString().slice(0, 10),
    `commit ${git(root, 'describe', '--always', '--dirty')}`,
    `${cores} cores of ${cpu}, load ${load} before`,
    kernel,
    `Node ${versions['Node']}`,
    `${Math.round((performance.now() - start) / 1_000)} s`,
  ];
  mkdirSync(join(file, '..'), { recursive: true });
  writeFileSync(file, `$ ${command.join(' ')}\n${run.join(', ')}\n\n${output.trim()}\n`);
  return 0;
}

import { readdirSync, readFileSync } from 'node:fs';

/** Linux counts in hundredths of a second in /proc, whatever its timer does. */
const ticksPerSecond = 100;

/** CPU seconds that a process, all its threads and its descendants have used, in user and system mode. */
export function cpuSeconds(pid: number): number {
  let ticks = 0;
  for (const each of familyOf(pid)) {
    const stat = read(`/proc/${each}/stat`);
    // The name, in parentheses, may hold anything; utime, stime, cutime and cstime are fields 14 to 17.
    const fields = stat.slice(stat.lastIndexOf(')') + 2).split(' ');
    for (const field of fields.slice(11, 15)) ticks += Number(field);
  }
  return ticks / ticksPerSecond;
}

/** Bytes of memory a process and its descendants have in use; pages they share count for each. */
export function residentMemory(pid: number): number {
  return memory(pid, 'VmRSS');
}

/** The most they have had in use. */
export function peakMemory(pid: number): number {
  return memory(pid, 'VmHWM');
}

function memory(pid: number, field: 'VmRSS' | 'VmHWM'): number {
  let kilobytes = 0;
  for (const each of familyOf(pid)) {
    kilobytes += Number(new RegExp(`^${field}:\\s+(\\d+) kB`, 'm').exec(read(`/proc/${each}/status`))?.[1] ?? 0);
  }
  return kilobytes * 1_024;
}

/** A process and its descendants. */
function familyOf(pid: number): number[] {
  const family = [pid];
  for (const thread of threadsOf(pid)) {
    const children = read(`/proc/${pid}/task/${thread}/children`).trim();
    if (children !== '') family.push(...children.split(' ').flatMap((child) => familyOf(Number(child))));
  }
  return family;
}

function threadsOf(pid: number): string[] {
  try {
    return readdirSync(`/proc/${pid}/task`);
  } catch {
    return [];
  }
}

/** A file of /proc; empty where the process has just ended. */
function read(path: string): string {
  try {
    return readFileSync(path, 'utf8');
  } catch {
    return '';
  }
}

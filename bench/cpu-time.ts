import { readdirSync, readFileSync } from 'node:fs';

/** In /proc, Linux counts in hundredths of a second, whatever the frequency of its timer is. */
const ticksPerSecond = 100;

/** The CPU seconds, in user and system mode, that a process, all its threads and its descendants have used. */
export function cpuSeconds(pid: number): number {
  return familyOf(pid).reduce((sum, each) => sum + secondsIn(`/proc/${each}/stat`), 0);
}

/**
 * The CPU nanoseconds that the running threads of a process and its descendants have used. For short slices of load, this is more precise
 * than `cpuSeconds`.
 */
export function cpuNanoseconds(pid: number): number {
  const schedules = familyOf(pid).flatMap((each) =>
    threadsOf(each).map((thread) => read(`/proc/${each}/task/${thread}/schedstat`)),
  );
  return schedules.reduce((sum, schedule) => sum + Number(schedule.split(' ', 1)[0]), 0);
}

function secondsIn(file: string): number {
  const stat = read(file);
  // The name, in parentheses, may contain anything. utime, stime, cutime and cstime are fields 14 to 17.
  const fields = stat.slice(stat.lastIndexOf(')') + 2).split(' ');
  return fields.slice(11, 15).reduce((sum, field) => sum + Number(field), 0) / ticksPerSecond;
}

/** The bytes of memory that a process and its descendants use. Shared pages count for each of them. */
export function residentMemory(pid: number): number {
  return memory(pid, 'VmRSS');
}

/** The peak of the memory that a process and its descendants use. */
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

/** The contents of a file in /proc; empty if the process has just ended. */
function read(path: string): string {
  try {
    return readFileSync(path, 'utf8');
  } catch {
    return '';
  }
}

import { closeSync, openSync, readFileSync, readSync } from 'node:fs';
import { setFlagsFromString } from 'node:v8';
import { runInNewContext } from 'node:vm';
import { eventually } from './eventually.ts';

/** Counts how often these bytes occur in the memory of a process, counting each page once. Linux only. */
export function occurrences(pid: number, needles: Readonly<Record<string, Buffer>>): Record<string, number> {
  const counts = Object.fromEntries(Object.keys(needles).map((name) => [name, 0]));
  const memory = openSync(`/proc/${pid}/mem`, 'r');
  try {
    for (const line of readFileSync(`/proc/${pid}/maps`, 'utf8').split('\n')) {
      const [, from = '', to = ''] = /^([0-9a-f]+)-([0-9a-f]+) rw/.exec(line) ?? [];
      if (from === '') continue;
      const region = readRegion(memory, Number.parseInt(from, 16), Number.parseInt(to, 16));
      for (const [name, needle] of Object.entries(needles)) {
        for (let at = region.indexOf(needle); at !== -1; at = region.indexOf(needle, at + 1)) {
          counts[name] = (counts[name] ?? 0) + 1;
        }
      }
    }
  } finally {
    closeSync(memory);
  }
  return counts;
}

/** Reads a region of memory. Pages that cannot be read, such as those of a thread that has just ended, stay filled with zeros. */
function readRegion(memory: number, from: number, to: number): Buffer {
  const region = Buffer.alloc(to - from);
  try {
    for (let at = 0; at < region.length;) {
      const read = readSync(memory, region, at, region.length - at, from + at);
      if (read === 0) break;
      at += read;
    }
  } catch {
    // The region was unmapped meanwhile.
  }
  return region;
}

/** Collects garbage now. */
export function collectGarbage(): void {
  setFlagsFromString('--expose-gc');
  (runInNewContext('gc') as () => void)();
}

/** Waits until all of these objects, except at most one, have been collected. The latest may still be in a register or on the stack. */
export async function untilCollected(objects: readonly WeakRef<object>[]): Promise<void> {
  await eventually('the objects have been collected', () => {
    collectGarbage();
    return objects.filter((each) => each.deref() !== undefined).length <= 1;
  });
}

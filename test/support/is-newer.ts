import { existsSync, globSync, statSync } from 'node:fs';

/** Whether a built file exists and is newer than all its sources. */
export function isNewer(built: string, sources: readonly string[]): boolean {
  const newest = Math.max(...globSync(sources).map((file) => statSync(file).mtimeMs));
  return existsSync(built) && statSync(built).mtimeMs > newest;
}

import { existsSync, globSync, statSync } from 'node:fs';
import { build } from 'vite';

/** Builds the page if its sources are newer than the last build. */
export async function buildConsole(): Promise<void> {
  const built = 'dist/console/index.html';
  const newest = Math.max(...globSync('src/console/**/*.*').map((file) => statSync(file).mtimeMs));
  if (existsSync(built) && statSync(built).mtimeMs > newest) return;
  await build();
}

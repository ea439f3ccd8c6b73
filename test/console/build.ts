import { build } from 'vite';
import { isNewer } from '../support/is-newer.ts';

/** Builds the page if its sources are newer than the last build. */
export async function buildConsole(): Promise<void> {
  if (!isNewer('dist/console/index.html', ['src/console/**/*.*'])) await build();
}

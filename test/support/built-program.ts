import { cpSync } from 'node:fs';
import { dirname } from 'node:path';
import { build } from 'vite';
import { builtProgram } from './command.ts';
import { isNewer } from './is-newer.ts';

/** Builds the command line if its sources are newer than the last build. */
export default async function buildProgram(): Promise<void> {
  if (isNewer(builtProgram, ['src/**/*.{ts,js}', 'vite.sidecar.config.ts', 'package-lock.json'])) return;
  const outDir = dirname(builtProgram);
  await build({ configFile: 'vite.sidecar.config.ts', build: { outDir } });
  cpSync('src/accounts/postgres/migrations', `${outDir}/migrations`, { recursive: true });
}

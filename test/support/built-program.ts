import { cpSync, existsSync, globSync, statSync } from 'node:fs';
import { dirname } from 'node:path';
import { build } from 'vite';
import { builtProgram } from './command.ts';

/** Builds the command line if its sources are newer than the last build. */
export default async function buildProgram(): Promise<void> {
  const sources = globSync(['src/**/*.{ts,js}', 'vite.sidecar.config.ts', 'package-lock.json']);
  const newest = Math.max(...sources.map((file) => statSync(file).mtimeMs));
  if (existsSync(builtProgram) && statSync(builtProgram).mtimeMs > newest) return;
  const outDir = dirname(builtProgram);
  await build({ configFile: 'vite.sidecar.config.ts', build: { outDir } });
  cpSync('src/accounts/postgres/migrations', `${outDir}/migrations`, { recursive: true });
}

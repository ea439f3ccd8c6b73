import { spawnSync } from 'node:child_process';
import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { bakeCompileCache, shippedFlags } from '../scripts/bake-compile-cache.ts';
import { accountsYaml, type Merchant } from './merchants.ts';
import type { Command } from './processes.ts';

export const project = fileURLToPath(new URL('..', import.meta.url));

/** The settings of a sidecar that differ from the defaults. */
export interface SidecarSetup {
  /** The folder for the sidecar's files. */
  readonly directory: string;
  readonly port: number;
  readonly upstream: number;
  readonly merchants: readonly Merchant[];
  readonly routes?: readonly Readonly<Record<string, unknown>>[];
  readonly requestBody?: string;
  /** Further members of the configuration. */
  readonly settings?: Readonly<Record<string, unknown>>;
}

const compileCache = (checkout: string): string => join(checkout, 'dist/compile-cache');

export const envelopedRoute = { path: '/api/s2s/*', envelope: true } as const;

/**
 * The sidecar as it is shipped: compiled, started as in its image, with an access log at `info` in a file. Only the limits that would end a
 * benchmark are lifted: those on wrong keys, connections and requests in progress.
 *
 * @param checkout the project, or another checkout of it, which must contain `dist/`
 */
export function sidecarCommand(checkout: string, setup: SidecarSetup, nodeFlags: readonly string[] = []): Command {
  const { directory, port, upstream, merchants, routes = [envelopedRoute], requestBody = '1MiB' } = setup;
  writeFileSync(join(directory, 'accounts.yaml'), accountsYaml(merchants));
  const configuration = {
    listen: { host: '127.0.0.1', port },
    admin: { host: '127.0.0.1', port: 0 },
    environments: { test: { upstream: `http://127.0.0.1:${upstream}` } },
    accounts: { file: 'accounts.yaml' },
    routes,
    ...setup.settings,
    limits: { failedKeys: '999999999/1m', connections: 16_384, inFlight: 16_384, requestBody },
  };
  // JSON is also valid YAML.
  writeFileSync(join(directory, 'sidecar.yaml'), JSON.stringify(configuration));
  const serve = [join(checkout, 'dist/main.js'), 'serve', '--config', join(directory, 'sidecar.yaml')];
  const args = [...shippedFlags(checkout), ...nodeFlags, ...serve];
  const env = { MALLOC_ARENA_MAX: '1', NODE_COMPILE_CACHE: compileCache(checkout) };
  return { command: process.execPath, args, env };
}

/** Builds the project as its image does. @throws with the output of the build */
export async function buildSidecar(): Promise<void> {
  const { status, stdout, stderr } = spawnSync('npm', ['run', 'build'], { cwd: project, encoding: 'utf8' });
  if (status !== 0) throw new Error(`npm run build failed:\n${stdout}${stderr}`);
  const built = { program: join(project, 'dist/main.js'), flags: shippedFlags(project) };
  await bakeCompileCache(built, compileCache(project));
}

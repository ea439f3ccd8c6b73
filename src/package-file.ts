import { findPackageJSON } from 'node:module';
import { dirname, join } from 'node:path';

/**
 * The absolute path of a file that is shipped with the code, for instance `config/sidecar.schema.json`. The path is resolved from the
 * package's manifest, because a compiled file and its source are in different folders.
 *
 * @param path relative to the folder of `package.json`
 */
export function packageFile(path: string): string {
  const manifest = findPackageJSON(import.meta.url);
  if (manifest === undefined) throw new Error('package.json is missing');
  return join(dirname(manifest), path);
}

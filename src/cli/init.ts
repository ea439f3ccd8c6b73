import { mkdirSync, readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { packageFile } from '../package-file.ts';
import { CommandFailed } from './failures.ts';
import type { CliIo } from './io.ts';

/** The shipped files, by their names in the new folder. */
const shipped = {
  'sidecar.yaml': 'config/new/sidecar.yaml',
  'accounts.yaml': 'config/new/accounts.yaml',
  'sidecar.schema.json': 'config/sidecar.schema.json',
  'accounts.schema.json': 'config/accounts.schema.json',
};

/**
 * `init`: writes a commented configuration for a new installation into a folder, with the schemas for editors. Never
 * overwrites a file.
 *
 * @throws CommandFailed if a file exists or cannot be written
 */
export async function init({ stdout }: Pick<CliIo, 'stdout'>, folder: string): Promise<void> {
  const written = writeFiles(folder).join(', ');
  await stdout.write(`Wrote ${written}.\nNext: sidecar check --config ${join(folder, 'sidecar.yaml')}\n`);
}

/** @returns the paths of the files */
function writeFiles(folder: string): string[] {
  try {
    mkdirSync(folder, { recursive: true });
    return Object.entries(shipped).map(([name, path]) => {
      const file = join(folder, name);
      // Accounts will hold keys and credentials.
      writeFileSync(file, readFileSync(packageFile(path)), {
        flag: 'wx',
        mode: name === 'accounts.yaml' ? 0o600 : 0o644,
      });
      return file;
    });
  } catch (error) {
    const { code, path } = error as NodeJS.ErrnoException;
    if (code === undefined) throw error;
    const reason = code === 'EEXIST' ? 'it already exists' : code;
    throw new CommandFailed(`cannot write ${path ?? folder}: ${reason}`);
  }
}

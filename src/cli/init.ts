import { randomBytes } from 'node:crypto';
import { mkdirSync, readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { packageFile } from '../package-file.ts';
import { CommandFailed } from './failures.ts';
import type { CliIo } from './io.ts';

/** The file name of the new master key, as in the shipped configuration. */
const masterKey = 'master-key';

/** The shipped files, by their names in the new folder. */
const shipped = {
  'sidecar.yaml': 'config/new/sidecar.yaml',
  'accounts.yaml': 'config/new/accounts.yaml',
  'sidecar.schema.json': 'config/sidecar.schema.json',
  'accounts.schema.json': 'config/accounts.schema.json',
};

/** Files that contain secrets, or will contain them later. */
const secret: ReadonlySet<string> = new Set(['accounts.yaml', masterKey]);

/**
 * `init`: writes a commented configuration for a new installation into a folder, with the schemas for editors and a new master
 * key. Never overwrites a file.
 *
 * @throws CommandFailed if a file exists or cannot be written
 */
export async function init({ stdout }: Pick<CliIo, 'stdout'>, folder: string): Promise<void> {
  const written = writeFiles(folder).join(', ');
  const config = join(folder, 'sidecar.yaml');
  const advice = `Back up ${join(folder, masterKey)} separately from the accounts: nothing else can open stored credentials.`;
  await stdout.write(
    `Wrote ${written}.\n${advice}\nNext: sidecar check --config ${config}, then sidecar serve --config ${config}\n`,
  );
}

/** Writes the files. @returns their paths */
function writeFiles(folder: string): string[] {
  try {
    mkdirSync(folder, { recursive: true });
    const contents = Object.entries(shipped).map(([name, path]) => [name, readFileSync(packageFile(path))] as const);
    const newKey = `${randomBytes(32).toString('base64')}\n`;
    return [...contents, [masterKey, newKey] as const].map(([name, content]) => {
      const file = join(folder, name);
      writeFileSync(file, content, { flag: 'wx', mode: secret.has(name) ? 0o600 : 0o644 });
      return file;
    });
  } catch (error) {
    const { code, path } = error as NodeJS.ErrnoException;
    if (code === undefined) throw error;
    const reason = code === 'EEXIST' ? 'it already exists' : code;
    throw new CommandFailed(`cannot write ${path ?? folder}: ${reason}`);
  }
}

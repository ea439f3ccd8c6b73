import { createHash, randomBytes, timingSafeEqual } from 'node:crypto';
import { constants } from 'node:fs';
import { open, unlink, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join, resolve } from 'node:path';
import { cryptography } from '../cryptography.ts';

/** Creates a token. Commands such as `drain` send it to prove that they run on the same machine, as the same user. */
export function createDrainToken(): string {
  return randomBytes(32).toString('base64url');
}

/** Whether a token is the expected one. The comparison takes the same time for any token. */
export function isDrainToken(token: string, expected: string): boolean {
  const digest = (text: string): Buffer => createHash(cryptography.digest.algorithm).update(text).digest();
  return timingSafeEqual(digest(token), digest(expected));
}

/** The path of the token file of the sidecar that runs with this configuration. */
export function drainTokenFile(configFile: string, env: Readonly<Record<string, string | undefined>>): string {
  const name = createHash(cryptography.digest.algorithm).update(resolve(configFile)).digest('hex').slice(0, 16);
  return join(env['XDG_RUNTIME_DIR'] || tmpdir(), `envelope-sidecar-${name}.token`);
}

/**
 * Writes the token to a file that only its owner may read, replacing the token of an earlier process. An existing file is always deleted
 * and a new one created. Otherwise, in a folder that other users may write to, the token could end up in a file or link that another user
 * has created.
 *
 * @throws the file system's error
 */
export async function writeDrainToken(file: string, token: string): Promise<void> {
  await unlink(file).catch((error: NodeJS.ErrnoException) => {
    if (error.code !== 'ENOENT') throw error;
  });
  const { O_WRONLY, O_CREAT, O_EXCL, O_NOFOLLOW } = constants;
  await writeFile(file, token, { flag: O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW, mode: 0o600 });
}

/** Removes the token of a process that is ending, unless another process has written its own token. @throws the file system's error */
export async function removeDrainToken(file: string, token: string): Promise<void> {
  if ((await readDrainToken(file)) === token) await unlink(file);
}

/**
 * Reads the token of a running sidecar.
 *
 * @returns undefined if there is none
 * @throws the file system's error
 */
export async function readDrainToken(file: string): Promise<string | undefined> {
  const { O_RDONLY, O_NOFOLLOW, O_NONBLOCK } = constants;
  try {
    const handle = await open(file, O_RDONLY | O_NOFOLLOW | O_NONBLOCK);
    try {
      return (await handle.stat()).isFile() ? (await handle.readFile('utf8')).trim() : undefined;
    } finally {
      await handle.close();
    }
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === 'ENOENT') return undefined;
    throw error;
  }
}

import { open, rename, rm } from 'node:fs/promises';
import { realpathSync } from 'node:fs';
import { basename, dirname, join } from 'node:path';
import { readRegularFile } from '../../yaml/files.ts';
import type { EnvironmentName } from '../api-key.ts';
import type { Uses } from '../key-directory.ts';
import { Notes } from '../notes.ts';
import { copyRights } from './replace.ts';

/** The delay between a note and writing the file, in milliseconds: for the first note, and for later ones. */
const firstDelay = 1_000;
const interval = 60_000;

/**
 * Records when accounts that do not encrypt last sent an envelope, in a file next to the accounts' file, so that
 * commands can show it. It has one entry for each account and environment. If two sidecars write at the same moment, a
 * note may be lost until the next envelope, a minute later.
 */
export class UnexpectedEnvelopesFile implements Uses {
  readonly #accounts: string;
  readonly #failed: (error: unknown) => void;
  readonly #notes = new Notes<number>();
  #delay = firstDelay;
  #timer: NodeJS.Timeout | undefined;
  #failing = false;

  /**
   * @param accounts the path of the accounts' file, or of a symbolic link to it
   * @param failed   called the first time that the file cannot be written
   */
  constructor(accounts: string, failed: (error: unknown) => void) {
    this.#accounts = accounts;
    this.#failed = failed;
  }

  // The file has no place for other uses.
  key(): void {}
  previous(): void {}

  unexpected(account: string, environment: EnvironmentName, at: number): void {
    this.#notes.add(idOf(account, environment), at);
    this.#timer ??= setTimeout(() => void this.write(), this.#delay).unref();
  }

  /** Writes the notes. If that fails, they are kept for the next attempt. */
  async write(): Promise<void> {
    clearTimeout(this.#timer);
    this.#timer = undefined;
    this.#delay = interval;
    try {
      await this.#notes.write(async (notes) => {
        const model = realpathSync(this.#accounts);
        const all = new Map(Object.entries(read(pathOf(model))));
        for (const [id, at] of notes) all.set(id, Math.max(at, all.get(id) ?? 0));
        await replace(pathOf(model), JSON.stringify(Object.fromEntries(all)), model);
        this.#failing = false;
      });
    } catch (error) {
      if (!this.#failing) this.#failed(error);
      this.#failing = true;
    }
  }
}

/**
 * When an account that does not encrypt last sent an envelope, epoch milliseconds; undefined if none is on record.
 *
 * @param accounts the path of the accounts' file, not of a symbolic link to it
 * @throws the file system's error
 */
export function lastUnexpectedEnvelope(
  accounts: string,
  account: string,
  environment: EnvironmentName,
): number | undefined {
  return read(pathOf(accounts))[idOf(account, environment)];
}

function idOf(account: string, environment: EnvironmentName): string {
  return `${account} ${environment}`;
}

function pathOf(accounts: string): string {
  return join(dirname(accounts), `.${basename(accounts)}.unexpected`);
}

/** If the path is not a regular file, there are no notes. Missing notes are no reason to refuse anything. */
function read(path: string): Readonly<Record<string, number>> {
  try {
    return notesOf(JSON.parse(readRegularFile(path).toString()));
  } catch (error) {
    if (error instanceof Error && 'code' in error && error.code !== 'ENOENT') throw error;
    return {};
  }
}

/** Epoch milliseconds, by account and environment. Checked without `zod`, which a running sidecar does not load. */
function notesOf(value: unknown): Readonly<Record<string, number>> {
  const isValid = typeof value === 'object' && value !== null && Object.values(value).every(Number.isSafeInteger);
  return isValid ? (value as Record<string, number>) : {};
}

/** It gets the mode and the owner of the accounts' file. */
async function replace(path: string, text: string, model: string): Promise<void> {
  const written = `${path}.${process.pid}.new`;
  // Tolerates a file that a killed process left, and does not follow a link that another user made.
  await rm(written, { force: true });
  try {
    const file = await open(written, 'wx', 0o600);
    try {
      await file.writeFile(text);
      copyRights(model, file.fd);
    } finally {
      await file.close();
    }
    await rename(written, path);
  } finally {
    await rm(written, { force: true });
  }
}

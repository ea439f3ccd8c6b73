import { execFileSync } from 'node:child_process';
import { statSync, truncateSync, writeFileSync } from 'node:fs';
import { onTestFinished } from 'vitest';
import { Folder, type Contents } from './folder.ts';

/** Only root may mount. For other users, tests that need a file system of their own are skipped. */
export const mayMount = process.getuid?.() === 0;
if (!mayMount) console.warn('SKIPPED: tests of full and read-only file systems, which only root may mount');

/** A file system in memory, unmounted after the test. */
export class Mount extends Folder {
  /** @param options of tmpfs, such as `size=64k` */
  constructor(contents: Contents, options: string) {
    super({});
    execFileSync('mount', ['-t', 'tmpfs', '-o', `${options},mode=0755`, 'tmpfs', this.path]);
    // Hooks run in reverse order, so the file system is unmounted before the folder is removed.
    onTestFinished(() => void execFileSync('umount', ['--lazy', this.path]));
    this.write(contents);
  }

  /** Makes the file system read-only from now on. */
  protect(): void {
    execFileSync('mount', ['-o', 'remount,ro', this.path]);
  }

  /** Fills the file system until only `free` bytes, by default none, are left. */
  fill(free = 0): void {
    const filler = this.file('filler');
    for (let size = 65_536; size > 0; size = Math.floor(size / 2)) {
      try {
        writeFileSync(filler, 'x'.repeat(size), { flag: 'a' });
      } catch (error) {
        if ((error as NodeJS.ErrnoException).code !== 'ENOSPC') throw error;
      }
    }
    truncateSync(filler, statSync(filler).size - free);
  }
}

import { mkdirSync, mkdtempSync, renameSync, rmSync, symlinkSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import type { Contents } from '../../test/support/folder.ts';
import type { Defer } from './stage.ts';

/** A folder of configuration files that are all swapped at once through the link `..data`, as Kubernetes does. */
export class ConfigFolder {
  readonly #path = mkdtempSync(join(tmpdir(), 'sidecar-load-'));
  #version = 0;

  constructor(contents: Contents, defer: Defer) {
    defer(() => rmSync(this.#path, { recursive: true, force: true }));
    this.swap(contents);
    for (const name of Object.keys(contents)) symlinkSync(join('..data', name), this.file(name));
  }

  file(name: string): string {
    return join(this.#path, name);
  }

  swap(contents: Contents): void {
    const before = `..version-${this.#version}`;
    this.#version += 1;
    const version = `..version-${this.#version}`;
    mkdirSync(this.file(version));
    for (const [name, content] of Object.entries(contents)) {
      // JSON is YAML.
      writeFileSync(this.file(join(version, name)), JSON.stringify(content));
    }
    symlinkSync(version, this.file('..data_new'));
    renameSync(this.file('..data_new'), this.file('..data'));
    rmSync(this.file(before), { recursive: true, force: true });
  }
}

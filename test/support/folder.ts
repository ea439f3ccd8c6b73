import { mkdirSync, mkdtempSync, renameSync, rmSync, symlinkSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { onTestFinished } from 'vitest';
import type { Defer } from './file-wide.ts';
import { acmeTest, keys } from './sidecar.ts';

/** Contents by file name; values other than strings are written as JSON, which is YAML. */
export type Contents = Readonly<Record<string, unknown>>;

/** A folder of configuration files, removed after the test unless `defer` says otherwise. */
export class Folder {
  readonly path = mkdtempSync(join(tmpdir(), 'sidecar-test-'));

  constructor(contents: Contents, defer: Defer = onTestFinished) {
    defer(() => rmSync(this.path, { recursive: true, force: true }));
    this.write(contents);
  }

  file(name: string): string {
    return join(this.path, name);
  }

  /** Writes into the existing files. */
  write(contents: Contents): void {
    writeAll(this.path, contents);
  }

  /** Writes bytes. */
  writeBytes(name: string, bytes: Buffer): void {
    writeFileSync(this.file(name), bytes);
  }

  /** As editors save: writes the new content to another file, then renames it over the old one. */
  replace(contents: Contents): void {
    for (const [name, content] of Object.entries(contents)) {
      // Not the sidecar's own name for a new file, which it removes.
      const written = `.${name}.edited`;
      writeAll(this.path, { [written]: content });
      renameSync(this.file(written), this.file(name));
    }
  }
}

/** A folder as Kubernetes mounts one: the files are links that lead through `..data`, which is swapped. */
export class MountedFolder extends Folder {
  #versions = 0;

  constructor(contents: Contents, defer?: Defer) {
    super({}, defer);
    this.swap(contents);
    for (const name of Object.keys(contents)) symlinkSync(join('..data', name), this.file(name));
  }

  /** Puts new contents in place, all files at once; the old ones are removed. */
  swap(contents: Contents): void {
    const version = `..2026_11_20_12_00_00.${this.#versions}`;
    mkdirSync(this.file(version));
    writeAll(this.file(version), contents);
    symlinkSync(version, this.file('..data_tmp'));
    renameSync(this.file('..data_tmp'), this.file('..data'));
    if (this.#versions > 0) rmSync(this.file(`..2026_11_20_12_00_00.${this.#versions - 1}`), { recursive: true });
    this.#versions += 1;
  }
}

function writeAll(folder: string, contents: Contents): void {
  for (const [name, content] of Object.entries(contents)) {
    const text = typeof content === 'string' ? content : JSON.stringify(content);
    // Files with secrets get a mode that causes no warning.
    writeFileSync(join(folder, name), text, { mode: name.endsWith('.yaml') ? 0o644 : 0o600 });
  }
}

/** A sidecar's file for free ports on loopback; members can be added or replaced. */
export function sidecarFile(upstream: string, more: Contents = {}): Contents {
  return {
    listen: { host: '127.0.0.1', port: 0 },
    admin: { host: '127.0.0.1', port: 0 },
    environments: { test: { upstream } },
    accounts: { file: 'accounts.yaml' },
    routes: [{ path: '/api/s2s/*', envelope: true }],
    // Tests repeat a key until it works, which must not be limited as guessing.
    limits: { failedKeys: '100000/1m' },
    ...more,
  };
}

/** An account's entry of the accounts file: `globex`, which does not encrypt, with these keys. */
export function globexEntry(...apiKeys: readonly string[]): Contents {
  return {
    id: 'globex',
    name: 'Globex',
    keys: apiKeys.map((key, i) => ({ id: `globex-${i}`, key, createdAt: '2026-11-01' })),
  };
}

/** `acme`, which encrypts in test. */
export const acmeEntry: Contents = {
  id: 'acme',
  name: 'Acme Stores',
  keys: [{ id: 'acme-0', key: keys.acme, createdAt: '2026-11-01' }],
  encryption: { test: { enabled: true, ...acmeTest } },
};

/** An accounts file. */
export function accountsFile(...accounts: readonly Contents[]): Contents {
  return { accounts };
}

import { mkdirSync, mkdtempSync, renameSync, rmSync, symlinkSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { onTestFinished } from 'vitest';
import type { Defer } from './file-wide.ts';
import { acmeTest, keys } from './sidecar.ts';

/** Contents by file name. Values other than strings are written as JSON, which is valid YAML. */
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

  /** Writes to the files themselves, unlike `replace`. */
  write(contents: Contents): void {
    writeAll(this.path, contents);
  }

  /** Writes bytes to a file. */
  writeBytes(name: string, bytes: Buffer): void {
    writeFileSync(this.file(name), bytes);
  }

  /** Replaces files as editors do: writes the new content to another file, then renames that over the old one. */
  replace(contents: Contents): void {
    for (const [name, content] of Object.entries(contents)) {
      // The name must differ from the sidecar's own name for a new file, because the sidecar removes such a file.
      const written = `.${name}.edited`;
      writeAll(this.path, { [written]: content });
      renameSync(this.file(written), this.file(name));
    }
  }
}

/** A folder as Kubernetes mounts one: the files are links that lead through the link `..data`, which `swap` replaces. */
export class MountedFolder extends Folder {
  #versions = 0;

  constructor(contents: Contents, defer?: Defer) {
    super({}, defer);
    this.swap(contents);
    for (const name of Object.keys(contents)) symlinkSync(join('..data', name), this.file(name));
  }

  /** Replaces the contents of all files at once, and removes the old versions. */
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

/** A sidecar.yaml with free ports on loopback. `more` adds or replaces members. */
export function sidecarFile(upstream: string, more: Contents = {}): Contents {
  return {
    listen: { host: '127.0.0.1', port: 0 },
    admin: { host: '127.0.0.1', port: 0 },
    environments: { test: { upstream } },
    accounts: { file: 'accounts.yaml' },
    routes: [{ path: '/api/s2s/*', envelope: true }],
    // Tests retry a key until it works. The sidecar must not limit this as guessing.
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

/** The entry of `acme`, which encrypts in test. */
export const acmeEntry: Contents = {
  id: 'acme',
  name: 'Acme Stores',
  keys: [{ id: 'acme-0', key: keys.acme, createdAt: '2026-11-01' }],
  encryption: { test: { enabled: true, ...acmeTest } },
};

/** The content of an accounts file. */
export function accountsFile(...accounts: readonly Contents[]): Contents {
  return { accounts };
}

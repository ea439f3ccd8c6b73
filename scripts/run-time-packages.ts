import { readFileSync } from 'node:fs';
import { fileURLToPath } from 'node:url';

/** A package as described in package-lock.json. */
export interface LockedPackage {
  readonly version: string;
  readonly license?: string;
  /** The hash of the downloaded archive, such as `sha512-…`. */
  readonly integrity?: string;
  readonly dev?: boolean;
  readonly optional?: boolean;
  readonly devOptional?: boolean;
  readonly hasInstallScript?: boolean;
  readonly link?: boolean;
  readonly inBundle?: boolean;
  readonly os?: readonly string[];
  readonly cpu?: readonly string[];
  readonly libc?: readonly string[];
  readonly resolved?: string;
}

/** Every package in package-lock.json, by its folder from the root of the project. The project itself is omitted. */
export function lockedPackages(): ReadonlyMap<string, LockedPackage> {
  const file = fileURLToPath(new URL('../package-lock.json', import.meta.url));
  const { packages } = JSON.parse(readFileSync(file, 'utf8')) as { packages: Record<string, LockedPackage> };
  return new Map(Object.entries(packages).filter(([folder]) => folder !== ''));
}

/** The packages in the image, which are those that are neither for development nor optional. */
export function runTimePackages(): ReadonlyMap<string, LockedPackage> {
  return new Map(
    [...lockedPackages()].filter(([, { dev, optional, devOptional }]) => !(dev || optional || devOptional)),
  );
}

/** The name of a package: the part of its folder after the last `node_modules/`. */
export function nameOf(folder: string): string {
  return folder.slice(folder.lastIndexOf('node_modules/') + 'node_modules/'.length);
}

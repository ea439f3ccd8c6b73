import { readFileSync } from 'node:fs';
import { fileURLToPath } from 'node:url';

/** A package as package-lock.json has it. */
export interface LockedPackage {
  readonly version: string;
  readonly license?: string;
  /** A hash of what is downloaded, as `sha512-…`. */
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

/** Every package of package-lock.json by its folder from the root of the project, the project itself left out. */
export function lockedPackages(): ReadonlyMap<string, LockedPackage> {
  const file = fileURLToPath(new URL('../package-lock.json', import.meta.url));
  const { packages } = JSON.parse(readFileSync(file, 'utf8')) as { packages: Record<string, LockedPackage> };
  return new Map(Object.entries(packages).filter(([folder]) => folder !== ''));
}

/** The packages in the image: neither for development nor optional. */
export function runTimePackages(): ReadonlyMap<string, LockedPackage> {
  return new Map(
    [...lockedPackages()].filter(([, { dev, optional, devOptional }]) => !(dev || optional || devOptional)),
  );
}

/** A package's name, which is the part of its folder after the last `node_modules/`. */
export function nameOf(folder: string): string {
  return folder.slice(folder.lastIndexOf('node_modules/') + 'node_modules/'.length);
}

import { globSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { describe, expect, test } from 'vitest';
import manifest from '../package.json' with { type: 'json' };
import { lockedPackages, nameOf, runTimePackages, type LockedPackage } from '../scripts/run-time-packages.ts';

const locked = [...lockedPackages()];
const atRunTime = [...runTimePackages()];

/** The folders of the packages for which `are` returns a truthy value. */
function those(packages: typeof locked, are: (each: LockedPackage) => unknown): string[] {
  return packages.filter(([, each]) => are(each)).map(([folder]) => folder);
}

/** A host of a package registry. No file may name one, because the person who installs the packages chooses the registry. */
const registryHost = /\bregistry\.[a-z0-9-]+\.(?:com|dev|io|net|org)\b|\bnpm(?=js\b)|\byarn(?=pkg\b)/;

describe('the lock file', () => {
  test('has a strong hash of every package', () => {
    expect(locked.length).toBeGreaterThan(atRunTime.length);
    expect(those(locked, ({ integrity = '' }) => !/^sha512-[A-Za-z0-9+/]{86}==$/.test(integrity))).toEqual([]);
  });

  test('names no host of a package registry, nor does any other file', () => {
    expect(those(locked, ({ resolved, link }) => resolved ?? link)).toEqual([]);
    const files = globSync(['**', '**/.*', '**/.*/**'], {
      exclude: ['.git', 'node_modules', 'dist', 'coverage'],
      withFileTypes: true,
    })
      .filter((entry) => entry.isFile())
      .map(({ parentPath, name }) => join(parentPath, name));
    expect(files).toEqual(expect.arrayContaining(['.ci/run', '.npmrc', 'package-lock.json', 'src/main.ts']));
    expect(files.filter((file) => registryHost.test(readFileSync(file, 'utf8')))).toEqual([]);
  });

  test('is searched for such hosts with a pattern that finds them', () => {
    for (const host of [['registry', 'example', 'com'].join('.'), ['npm', 'js', '.org'].join('')]) {
      expect(registryHost.test(`"https://${host}/x.tgz"`)).toBe(true);
    }
    expect(registryHost.test('registry.metrics()')).toBe(false);
  });

  test('has exactly the versions that package.json names', () => {
    const asked = Object.entries({ ...manifest.dependencies, ...manifest.devDependencies });
    const versions = lockedPackages();
    for (const [name, asking] of asked) {
      const version = asking.replace(/^npm:.*@/, '');
      expect(versions.get(`node_modules/${name}`)).toMatchObject({ version });
    }
  });
});

describe('the packages at run time', () => {
  test('include those that package.json names', () => {
    const names = atRunTime.map(([folder]) => nameOf(folder));
    expect(names).toEqual(expect.arrayContaining(Object.keys(manifest.dependencies)));
    expect(names).not.toContain('typescript');
  });

  test('run no code when they are installed', () => {
    expect(those(locked, ({ hasInstallScript }) => hasInstallScript)).not.toEqual([]);
    expect(those(atRunTime, ({ hasInstallScript }) => hasInstallScript)).toEqual([]);
  });

  test('are the same on every machine, and bundle no other packages', () => {
    expect(those(atRunTime, ({ os, cpu, libc, inBundle }) => os ?? cpu ?? libc ?? inBundle)).toEqual([]);
  });
});

test('only development tools may run an install script', () => {
  const decisions = new Map(Object.entries(manifest.allowScripts));
  const allowed = [...decisions.keys()].filter((name) => decisions.get(name));
  expect(allowed.filter((name) => !(name in manifest.devDependencies))).toEqual([]);
  const withScripts = those(locked, ({ hasInstallScript, optional }) => hasInstallScript === true && !optional).map(
    nameOf,
  );
  expect([...decisions.keys()].toSorted()).toEqual(expect.arrayContaining(withScripts.toSorted()));
  expect(allowed).toEqual(['node']);
});

test('the image is built without install scripts, from the lock file alone', () => {
  const installations = [...readFileSync('Dockerfile', 'utf8').matchAll(/\bnpm (?:ci|i|install|add)\b.*$/gm)].map(
    ([command]) => command,
  );
  expect(installations).toHaveLength(2);
  expect(installations.filter((each) => !each.startsWith('npm ci ') || !each.includes(' --ignore-scripts'))).toEqual(
    [],
  );
});

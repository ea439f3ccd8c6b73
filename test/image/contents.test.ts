import { execFileSync } from 'node:child_process';
import { globSync, mkdtempSync, readFileSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { nameOf, runTimePackages } from '../../scripts/run-time-packages.ts';
import { describeUnless } from '../support/describe-unless.ts';
import { buildImage, missingEngine, type Image } from './containers.ts';

/** Files that the container engine puts into every container. */
const madeByEngine = /^(?:\.dockerenv|dev\/.*|etc\/(?:hostname|hosts|mtab|resolv\.conf))$/;

/**
 * Creates a container without starting it, so that the image needs no shell and all its files can be seen. Removes the container
 * afterwards.
 */
function withContainer<T>(image: string, use: (id: string) => T): T {
  const id = execFileSync('docker', ['create', '--entrypoint', 'none', image], { encoding: 'utf8' }).trim();
  try {
    return use(id);
  } finally {
    execFileSync('docker', ['rm', id]);
  }
}

/** Every file in a container, by its path from the root: its kind, permissions, owner, size and time. */
function filesOf(id: string): ReadonlyMap<string, string> {
  const list = 'set -o pipefail; docker export "$0" | tar --list --verbose --numeric-owner --full-time';
  const lines = execFileSync('bash', ['-c', list, id], { encoding: 'utf8', maxBuffer: 64 * 1024 * 1024 });
  const files = lines.matchAll(/^(?<what>[^d]\S+(?: +\S+){4}) (?<file>.*?)(?<target>(?: -> | link to ).*)?$/gm);
  return new Map(
    [...files]
      .map(({ groups = {} }) => [groups['file'] ?? '', `${groups['what']}${groups['target']}`] as const)
      .filter(([file]) => !madeByEngine.test(file)),
  );
}

/** The folders of packages, each with the name and version from its package.json. */
function packagesIn(app: string): ReadonlyMap<string, string> {
  const manifests = globSync(['**/node_modules/[!@]*/package.json', '**/node_modules/@*/*/package.json'], { cwd: app });
  return new Map(
    manifests.map((file) => {
      const { name, version } = JSON.parse(readFileSync(join(app, file), 'utf8')) as Record<string, string>;
      return [dirname(file), `${name}@${version}`];
    }),
  );
}

/** The files below a folder, relative to it. */
function filesBelow(folder: string): string[] {
  return globSync(['**', '**/.*', '**/.*/**'], { cwd: folder, withFileTypes: true })
    .filter((entry) => !entry.isDirectory())
    .map(({ parentPath, name }) => join(parentPath, name).slice(folder.length + 1));
}

/** The project files from which the built files were made, according to their source maps. */
function sourcesOf(dist: string): string[] {
  const all = globSync('**/*.js.map', { cwd: dist }).flatMap((file) => {
    const { sources } = JSON.parse(readFileSync(join(dist, file), 'utf8')) as { sources: string[] };
    return sources.map((source) => join('dist', dirname(file), source));
  });
  return [...new Set(all)].filter((source) => source.startsWith('src/'));
}

interface BillOfMaterials {
  readonly metadata: { readonly component: { readonly name: string; readonly version: string } };
  readonly components: readonly {
    readonly 'bom-ref': string;
    readonly hashes: readonly { readonly alg: string; readonly content: string }[];
  }[];
}

describeUnless(await missingEngine(), 'the built image', () => {
  const app = mkdtempSync(join(tmpdir(), 'envelope-sidecar-app-'));
  let image: Image;
  let base: ReadonlyMap<string, string>;
  let files: ReadonlyMap<string, string>;
  let text: string;
  let bill: BillOfMaterials;

  beforeAll(() => {
    image = buildImage();
    base = withContainer(image.base, filesOf);
    files = withContainer(image.name, (id) => {
      execFileSync('docker', ['cp', `${id}:/app/.`, app], { stdio: 'pipe' });
      return filesOf(id);
    });
    text = readFileSync(join(app, 'sbom.cdx.json'), 'utf8');
    bill = JSON.parse(text) as BillOfMaterials;
  }, 300_000);

  afterAll(() => rmSync(app, { recursive: true }));

  test('holds the packages that its bill of materials lists, and no others', () => {
    const listed = bill.components.map((component) => component['bom-ref']);
    expect(listed.length).toBeGreaterThan(20);
    expect([...new Set(packagesIn(app).values())].toSorted()).toEqual(listed.toSorted());
  });

  test('lists them with the hashes from the lock file', () => {
    const locked = [...runTimePackages()].map(([folder, { version, integrity = '' }]) => {
      const content = Buffer.from(integrity.replace('sha512-', ''), 'base64').toString('hex');
      return [`${nameOf(folder)}@${version}`, { alg: 'SHA-512', content }] as const;
    });
    const listed = bill.components.map((component) => [component['bom-ref'], component.hashes[0]] as const);
    expect(Object.fromEntries(listed)).toEqual(Object.fromEntries(locked));
  });

  test('lists them in the same way each time, without the registry', () => {
    const { name, version } = JSON.parse(readFileSync('package.json', 'utf8')) as Record<string, string>;
    expect(bill).toMatchObject({ bomFormat: 'CycloneDX', metadata: { component: { name, version } } });
    expect(bill).not.toHaveProperty('serialNumber');
    expect(bill.metadata).not.toHaveProperty('timestamp');
    expect(text).not.toMatch(/\.tgz|"distribution"/);
  });

  test('prints the bill of materials with the command in docs/operators/image.md', () => {
    const [command = ''] =
      /^docker run .* >sbom\.cdx\.json$/m.exec(readFileSync('docs/operators/image.md', 'utf8')) ?? [];
    const here = command.replace(/ envelope-sidecar:\S+/, ` ${image.name}`).replace(/ >sbom\.cdx\.json$/, '');
    expect(execFileSync('bash', ['-c', here], { encoding: 'utf8' }).trimEnd()).toBe(text.trimEnd());
  });

  test('adds only compiled code, its V8 cache, the licence and the bill of materials, and changes nothing of its base', () => {
    const own = [
      'LICENSE',
      'bin/sidecar',
      'config/accounts.schema.json',
      'config/new/accounts.yaml',
      'config/new/sidecar.yaml',
      'config/sidecar.schema.json',
      'package.json',
      'sbom.cdx.json',
    ].map((file) => `app/${file}`);
    const added = [...files].filter(([file, what]) => base.get(file) !== what).map(([file]) => file);
    // These are the compiled files and their source maps. The bundler chooses the names of the files with the code that programs and
    // threads share.
    const compiled = added.filter((file) => /^app\/dist\/(?:demo\/serve-core|[a-z0-9-]+)\.js(?:\.map)?$/.test(file));
    const entries = ['main.js', 'load-worker.js', 'worker.js', 'demo/serve-core.js'].map((file) => `app/dist/${file}`);
    expect(compiled).toEqual(expect.arrayContaining(entries));
    const migrations = filesBelow('src/accounts/postgres/migrations').map((file) => `app/dist/migrations/${file}`);
    const built = [...compiled, ...migrations];
    // The names of the console's built files contain a hash.
    expect(added).toContain('app/dist/console/index.html');
    const folders = [...packagesIn(app).keys()].map((folder) => `app/${folder}/`);
    folders.push('app/dist/console/', 'app/compile-cache/');
    const elsewhere = (file: string): boolean => folders.some((folder) => file.startsWith(folder));
    expect(added.filter((file) => !elsewhere(file)).toSorted()).toEqual([...own, ...built].toSorted());
    expect([...base.keys()].filter((file) => !files.has(file))).toEqual([]);
  });

  test('omits files in packages that only the developers of the packages need', () => {
    expect(
      [...files.keys()].filter((file) => /^app\/(?!dist\/).*(?:\.[cm]?ts|\.map|\/node_modules\/\..*)$/.test(file)),
    ).toEqual([]);
  });

  test('adds only files that root alone can change', () => {
    const others = [...files].filter(
      ([file, what]) => file.startsWith('app/') && !/^(?:l|-r[w-][x-]r-[x-]r-[x-] 0\/0 )/.test(what),
    );
    expect(others).toEqual([]);
  });

  test('keeps the licence text of every package that has one', () => {
    const licences = [...runTimePackages().keys()].flatMap((folder) =>
      filesBelow(folder)
        .filter((file) => /(?:^|\/)(?:(?:un)?licen[cs]e|copying|notice)[^/]*$|^readme[^/]*$/i.test(file))
        .filter((file) => !/(?:^|\/)node_modules\/|\.[cm]?[jt]s$/.test(file))
        .map((file) => `app/${folder}/${file}`),
    );
    expect(licences.length).toBeGreaterThan(20);
    expect(licences.filter((file) => !files.has(file))).toEqual([]);
  });

  test('does not ask Node for a memory dump or the debugger', () => {
    const asks =
      /heap-?snapshot|heap-?prof|process\.report|--report|--inspect|node:inspector|abort-on-uncaught|NODE_OPTIONS/i;
    expect('node --heapsnapshot-signal=SIGUSR2').toMatch(asks);
    const settings = execFileSync('docker', ['image', 'inspect', '--format', '{{json .Config}}', image.name], {
      encoding: 'utf8',
    });
    expect(settings).toContain('/app/dist/main.js');
    expect(settings).not.toMatch(asks);
    // Only the project's own sources are checked, because packages contain code for processes with such options.
    const own = sourcesOf(join(app, 'dist'));
    expect(own).toEqual(expect.arrayContaining(['src/main.ts', 'src/app.ts', 'src/config/load-worker.ts']));
    expect(own.filter((file) => asks.test(readFileSync(file, 'utf8')))).toEqual([]);
  });
});

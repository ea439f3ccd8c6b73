import { existsSync, readdirSync, readFileSync } from 'node:fs';
import { dirname, join, normalize } from 'node:path';
import { describe, expect, test } from 'vitest';

/**
 * The layers from top to bottom. A file may import from its own folder and from the rows below; folders in the same row
 * do not import each other. A file belongs to the innermost folder that is listed.
 */
const layers: readonly (readonly string[])[] = [
  ['main.ts'],
  ['cli/'],
  ['app.ts'],
  ['demo/'],
  ['proxy/', 'admin/', 'operators/'],
  ['proxy/body/'],
  ['proxy/respond/'],
  ['proxy/admit/'],
  ['proxy/capacity/'],
  ['upstream/'],
  ['config/'],
  ['telemetry/'],
  ['accounts/transfer/'],
  ['accounts/file/', 'accounts/postgres/', 'kms/'],
  ['accounts/'],
  ['envelope/hints/'],
  ['audit/', 'envelope/', 'yaml/'],
  ['envelope/json/'],
  ['input/'],
  ['parser-limits.ts'],
  ['http1/'],
  ['http1/parse/'],
  ['tick-queue.ts'],
  ['wait-queue.ts'],
  ['tls.ts'],
  [
    'connection-limit.ts',
    'cryptography.ts',
    'errors.ts',
    'http.ts',
    'fair-queue.ts',
    'linked-list.ts',
    'networks.ts',
    'package-file.ts',
    'own-text.ts',
    'promises.ts',
    'slices.ts',
    'thread.ts',
    'times.ts',
  ],
  // The console is a program for browsers. Neither it nor the sidecar imports anything from the other.
  ['console/'],
];

/** The maximum number of lines of a file, so that it can be read in one sitting. */
const longest = 300;

/**
 * The maximum number of files in a folder, so that a file tree or a listing shows all names without scrolling. A folder with a single file
 * is unnecessary.
 */
const mostFiles = 35;

/** Folders of tests that do not test a folder of src/. */
const otherTests = new Set(['bench', 'deploy', 'docs', 'image', 'kits', 'scripts', 'support', 'trials']);

/** A static import: `import … from`, `import type … from`, `export … from`, `import '…'`. Prettier puts it at the beginning of a line. */
const staticImport = /^(?:import|export)\b(?:[^'"`;=]*?\bfrom)?\s*(['"])(?<specifier>[^'"]+)\1/gm;
/** `import('…')`, as a value or a type. There is no specifier if the argument is not a literal. */
const dynamicImport = /\bimport\s*\(\s*(?:(['"])(?<specifier>[^'"]+)\1)?/g;

/** The modules that a source imports, in order; undefined for an import whose specifier is not a literal. */
function specifiers(source: string): (string | undefined)[] {
  const found = [...source.matchAll(staticImport), ...withoutComments(source).matchAll(dynamicImport)];
  return found.map((match) => match.groups?.['specifier']);
}

/** Removes comments. A comment begins a line or follows white space, unlike `//` in a URL or `/*` in a route's path. */
function withoutComments(source: string): string {
  return source.replace(/(^|\s)(?:\/\*[\s\S]*?\*\/|\/\/.*$)/gm, '$1');
}

/** Whether a source imports one of these modules of Node as a value, in any form. */
function loads(modules: RegExp, source: string): boolean {
  const values = source
    .replace(/^(?:import|export)\s+type\b[^'"]*\bfrom\s*(['"]).*?\1/gm, '')
    .replace(/\btypeof import\(/g, '(');
  return specifiers(values).some((specifier) => modules.test(specifier?.replace('node:', '') ?? ''));
}

/** The files below src/ that `file` imports, as paths relative to src/. */
function localImports(file: string, source: string): string[] {
  return specifiers(source)
    .map((specifier) => specifier ?? './(not a literal)')
    .filter((specifier) => specifier.startsWith('.'))
    .map((specifier) => normalize(join(dirname(file), specifier)));
}

interface Place {
  row: number;
  folder: string;
}

/** The layer of the innermost listed folder that contains the file. */
function placeOf(file: string): Place | undefined {
  let place: Place | undefined;
  for (const [row, names] of layers.entries()) {
    for (const folder of names) {
      const isInside = folder.endsWith('/') ? file.startsWith(folder) : file === folder;
      if (isInside && folder.length > (place?.folder.length ?? 0)) place = { row, folder };
    }
  }
  return place;
}

/** The reason why `from` may not import `to`; undefined if it may. */
function objection(from: string, to: string): string | undefined {
  const [upper, lower] = [placeOf(from), placeOf(to)];
  if (upper === undefined) return `${from} is in no layer`;
  if (lower === undefined) return `${from} imports ${to}, which is in no layer`;
  if (upper.folder === lower.folder) return undefined;
  if (lower.folder === 'console/') return `${from} imports ${to}: the console is a program of its own`;
  if (lower.folder === 'demo/' && upper.folder !== 'cli/') return `${from} imports ${to}: the demo is for cli/ only`;
  return upper.row < lower.row ? undefined : `${from} imports ${to}: not downwards`;
}

/** The first cycle in a graph, as a list of files; undefined if there is none. */
function cycle(graph: ReadonlyMap<string, readonly string[]>): string[] | undefined {
  const finished = new Set<string>();
  const visit = (file: string, trail: readonly string[]): string[] | undefined => {
    if (trail.includes(file)) return [...trail.slice(trail.indexOf(file)), file];
    if (finished.has(file)) return undefined;
    for (const next of graph.get(file) ?? []) {
      const found = visit(next, [...trail, file]);
      if (found !== undefined) return found;
    }
    finished.add(file);
    return undefined;
  };
  for (const file of graph.keys()) {
    const found = visit(file, []);
    if (found !== undefined) return found;
  }
  return undefined;
}

const edge = /\bprocess\s*(?:\??\.\s*|\[\s*['"])(?:exit|env|argv)|\}\s*=\s*process\b|from 'node:process'/;
const wallClock = /\bDate\.now\b|\bnew Date(?:\(\s*\)|(?![\w(]))|(?<!new )\bDate\(|\bhrtime\b/;
const stopwatch = /\bperformance\b/;

/** The lines of `source` that match, without comments. */
function linesWith(pattern: RegExp, source: string): string[] {
  return withoutComments(source)
    .split('\n')
    .filter((line) => pattern.test(line))
    .map((line) => line.trim());
}

function mentions(pattern: RegExp, but: (file: string) => boolean): string[] {
  return [...sources]
    .filter(([file]) => !but(file))
    .flatMap(([file, source]) => linesWith(pattern, source).map((line) => `${file}: ${line}`));
}

const sources = new Map(
  readdirSync('src', { recursive: true, encoding: 'utf8' })
    .filter((file) => /\.tsx?$/.test(file))
    .toSorted()
    .map((file) => [file, readFileSync(join('src', file), 'utf8')] as const),
);
const imports = new Map([...sources].map(([file, source]) => [file, localImports(file, source)] as const));

describe('src/', () => {
  test('imports point downwards', () => {
    expect(sources.size).toBeGreaterThan(10);
    const objections = [...imports].flatMap(([file, targets]) => targets.map((target) => objection(file, target)));
    expect(objections.filter((each) => each !== undefined)).toEqual([]);
  });

  test('every file is in a layer', () => {
    expect([...sources.keys()].filter((file) => placeOf(file) === undefined)).toEqual([]);
  });

  test(`every folder has 2 to ${mostFiles} files`, () => {
    const sizes = Map.groupBy(sources.keys(), dirname);
    const odd = [...sizes].filter(([, files]) => files.length < 2 || files.length > mostFiles);
    expect(odd.map(([folder, files]) => `${folder}: ${files.length}`)).toEqual([]);
  });

  test('docs/architecture.md has a line for each layer', () => {
    const rows = [...readFileSync('docs/architecture.md', 'utf8').matchAll(/^- (`src\/.*?): /gm)];
    const named = rows.flatMap(([, cell = '']) => [...cell.matchAll(/`src\/([^`]+)`/g)].map(([, name]) => name));
    expect(named).toEqual(layers.flat());
  });

  test('test/ contains only folders named after those of src/, and a few of its own', () => {
    const folders = readdirSync('test', { withFileTypes: true }).filter((entry) => entry.isDirectory());
    const names = folders.map(({ name }) => name);
    expect(names.filter((name) => !otherTests.has(name) && placeOf(`${name}/`) === undefined)).toEqual([]);
  });

  test('every relative import leads to a file below src/', () => {
    const broken = [...imports].flatMap(([file, targets]) =>
      targets.filter((target) => !existsSync(join('src', target))).map((target) => `${file} imports ${target}`),
    );
    expect(broken).toEqual([]);
  });

  test('there are no cycles', () => {
    expect(cycle(imports)).toBeUndefined();
  });

  test('only envelope/formats.ts imports the codecs', () => {
    const codecs = [...sources]
      .filter(([file, source]) => file.startsWith('envelope/') && / implements EnvelopeCodec\b/.test(source))
      .map(([file]) => file);
    expect(codecs).not.toEqual([]);
    const importing = [...imports].filter(([, targets]) => targets.some((target) => codecs.includes(target)));
    expect(importing.map(([file]) => file)).toEqual(['envelope/formats.ts']);
  });

  test('errors.ts imports nothing', () => {
    expect(specifiers(sources.get('errors.ts') ?? 'missing')).toEqual([]);
  });

  // Loading all of node:http takes 16 MB that the sidecar does not need.
  test('no file loads all of node:http; http.ts takes only parts of it', () => {
    const importing = [...sources].filter(([, source]) => loads(/^http$/, source)).map(([file]) => file);
    expect(importing).toEqual([]);
  });

  // When these modules are loaded, Node parses the certificates of all public CAs.
  test('no file loads node:tls or node:https at startup; tls.ts loads them when they are needed', () => {
    const importing = [...sources].filter(([, source]) => loads(/^(?:tls|https)$/, source)).map(([file]) => file);
    expect(importing).toEqual([]);
  });

  test("only the KMS's client loads node:http2, and only when it is used", () => {
    const importing = [...sources].filter(([, source]) => loads(/^http2$/, source)).map(([file]) => file);
    expect(importing).toEqual(['kms/grpc.ts']);
    expect(sources.get('kms/grpc.ts')).not.toMatch(/^import (?!type\b).*node:http2/m);
  });

  test('only main.ts exits and reads the environment and the arguments', () => {
    expect(mentions(edge, (file) => file === 'main.ts')).toEqual([]);
  });

  test('only main.ts reads the wall clock', () => {
    expect(mentions(wallClock, (file) => file === 'main.ts' || file.startsWith('console/'))).toEqual([]);
  });

  test('only the path of a request, operators’ turns and sessions, blocked changes, and the drain measure durations', () => {
    expect(
      mentions(stopwatch, (file) =>
        /^(?:main\.ts|app\.ts|promises\.ts|tick-queue\.ts|operators\/(?:owner-queues|sessions)\.ts|accounts\/postgres\/blocked-changes\.ts|proxy\/|upstream\/|http1\/)/.test(
          file,
        ),
      ),
    ).toEqual([]);
  });

  test(`no file is longer than ${longest} lines`, () => {
    const long = [...sources].map(([file, source]) => ({ file, lines: source.split('\n').length - 1 }));
    // The first of these files is generated, and the second contains only texts.
    const written = long.filter(({ file }) => !['console/api-types.ts', 'console/texts.ts'].includes(file));
    expect(written.filter(({ lines }) => lines > longest)).toEqual([]);
  });
});

describe('the rules themselves', () => {
  test('see every kind of import, and none in comments', () => {
    const source = `
import { a } from './a.ts';
import type { B } from './b.ts';
import c, { type C } from "./c.ts";
import {
  d,
  type D,
} from './d.ts';
import * as e from './e.ts';
import './f.ts';
export { g } from './g.ts';
export type { H } from './h.ts';
export * from './i.ts';
// import { x } from './x.ts'; import('./x.ts');
/** import('./x.ts') */
export const y = 'import from "./x.ts"';
type J = import('./j.ts').J;
const k = await import('./k.ts'); // and import('./x.ts')
const path = '/api/*', l = import("./l.ts"); /* import('./x.ts') */
const m = import(name);
`;
    const letters = specifiers(source).map((specifier) => specifier?.replace(/^\.\/(.)\.ts$/, '$1'));
    expect(letters.join(' ')).toBe('a b c d e f g h i j k l ');
  });

  test.each([
    ['proxy/a.ts', 'upstream/b.ts'],
    ['proxy/a.ts', 'proxy/b.ts'],
    ['proxy/a.ts', 'proxy/admit/b.ts'],
    ['cli/demo.ts', 'demo/b.ts'],
    ['main.ts', 'errors.ts'],
    ['accounts/file/a.ts', 'accounts/b.ts'],
  ])('%s may import %s', (from, to) => {
    expect(objection(from, to)).toBeUndefined();
  });

  test.each([
    ['upstream/a.ts', 'proxy/b.ts'],
    ['proxy/admit/a.ts', 'proxy/b.ts'],
    ['proxy/a.ts', 'admin/b.ts'],
    ['envelope/a.ts', 'yaml/b.ts'],
    ['accounts/a.ts', 'accounts/file/b.ts'],
    ['accounts/file/a.ts', 'accounts/postgres/b.ts'],
    ['app.ts', 'demo/b.ts'],
    ['operators/a.ts', 'console/b.ts'],
    ['console/a.tsx', 'errors.ts'],
    ['errors.ts', 'main.ts'],
    ['new/a.ts', 'errors.ts'],
    ['proxy/a.ts', '../package.json'],
    ['proxy/a.ts', 'proxy.ts'],
  ])('%s may not import %s', (from, to) => {
    expect(objection(from, to)).toContain(from);
  });

  test.each([
    "import { createServer } from 'node:http';",
    "import {\n  createServer,\n} from 'node:http';",
    "import { type Server } from 'node:http';",
    "export * from 'node:http';",
    "import 'http';",
    "const http = await import('node:http');",
  ])('%j loads all of node:http', (source) => {
    expect(loads(/^http$/, source)).toBe(true);
  });

  test('allow importing types from node:http', () => {
    expect(loads(/^http$/, "import type { Server } from 'node:http';\nimport x from 'node:https';")).toBe(false);
  });

  test('find and name a cycle, and accept a diamond', () => {
    const graph = { a: ['b', 'c'], b: ['d'], c: ['d'], d: [] as string[] };
    expect(cycle(new Map(Object.entries(graph)))).toBeUndefined();
    expect(cycle(new Map(Object.entries({ ...graph, d: ['c'] })))).toEqual(['d', 'c', 'd']);
  });

  test.each([
    [edge, 'process.exit(1)', 'child.process'],
    [edge, 'process.exitCode = 1', 'process.version'],
    [edge, 'const { env } = process;', 'const { env } = processes;'],
    [edge, "process['argv']", 'x(); // process.argv'],
    [wallClock, 'Date.now()', 'updated.now()'],
    [wallClock, 'new Date()', 'new Date(seconds)'],
    [wallClock, 'new Date;', 'isDate(x)'],
    [stopwatch, 'performance.now()', 'x(); // performance'],
  ])('%s finds %s and leaves %s', (pattern, found, left) => {
    expect(linesWith(pattern, found)).toEqual([found]);
    expect(linesWith(pattern, left)).toEqual([]);
  });
});

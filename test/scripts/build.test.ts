import { existsSync, globSync, mkdirSync, mkdtempSync, readdirSync, readFileSync, rmSync, statSync } from 'node:fs';
import { isBuiltin } from 'node:module';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { build } from 'vite';
import { bakeCompileCache, shippedFlags } from '../../scripts/bake-compile-cache.ts';
import ts from 'typescript';
import { buildConsole } from '../console/build.ts';
import { sourceProgram, startCommand, startServe, type Command, type ProcessSetup } from '../support/command.ts';
import { exchangeRaw } from '../support/connection.ts';
import { Folder } from '../support/folder.ts';
import { startUpstream } from '../support/upstream.ts';

const token = 'operators-token-of-the-build-test';
const apiKey = 'sk_test_buildbuildbuildbuildbuildb';

const hex = (octet: number): string => `%${octet.toString(16).padStart(2, '0')}`;
const octets = Array.from({ length: 256 }, (_, octet) => octet);

/**
 * Targets with every octet, percent-encoded: alone, and as the first of two to four octets that may be valid UTF-8. Then unencoded
 * characters, and one target for each way of being ambiguous.
 */
const targets = [
  ...octets.map((octet) => `/a${hex(octet)}`),
  ...octets.slice(192).flatMap((first) => [0x80, 0xaf, 0xbf].map((second) => `/a${hex(first)}${hex(second)}`)),
  ...octets.slice(224).map((first) => `/a${hex(first)}%80%80`),
  ...octets.slice(224).map((first) => `/a${hex(first)}%a0%80`),
  ...octets.slice(240).map((first) => `/a${hex(first)}%90%80%80`),
  ...octets.slice(32).map((octet) => `/a${String.fromCharCode(octet)}b`),
  '/a/../b',
  '//a',
  '/a//b',
  '/a;b',
  '/a?b',
  '/a?b#c',
  '/a%',
  '/a%2',
  '*',
  'http://localhost/a',
  '/',
  '/%e2%82',
];

/** Requests with a head of each kind that is refused, and of kinds that are not. */
const requests = [
  ...targets.map((target) => `GET ${target} HTTP/1.1\r\nHost: localhost`),
  ...[
    'Host: other',
    'X-Request-Id: a b',
    'Content-Length: 1\r\nContent-Length: 2',
    'Transfer-Encoding: x',
    'A:\0',
    'A : b',
    'Expect: x',
  ].map((field) => `GET /a HTTP/1.1\r\nHost: localhost\r\n${field}`),
  ...['BREW /a HTTP/1.1', 'GET /a HTTP/2.0', 'GET  /a HTTP/1.1', 'get /a HTTP/1.1'].map(
    (line) => `${line}\r\nHost: localhost`,
  ),
];

/**
 * The global functions and classes that some statements only call, without using the result. A bundler may mistake such a call for a pure
 * one.
 */
function globalCalls(file: string): readonly string[] {
  const calls: string[] = [];
  const visit = (node: ts.Node): void => {
    if (ts.isExpressionStatement(node)) {
      const { expression } = node;
      if (ts.isCallExpression(expression) || ts.isNewExpression(expression)) {
        const callee = expression.expression.getText();
        if ((callee.split('.', 1)[0] ?? '') in globalThis) calls.push(callee);
      }
    }
    ts.forEachChild(node, visit);
  };
  visit(ts.createSourceFile(file, readFileSync(file, 'utf8'), ts.ScriptTarget.Latest, true));
  return calls.toSorted();
}

describe('the built sidecar', () => {
  let folder: string;

  beforeAll(async () => {
    await buildConsole();
    // The folder is within the project, so that the project's packages are found.
    mkdirSync('dist', { recursive: true });
    folder = mkdtempSync(join(process.cwd(), 'dist/build-test-'));
    await build({ configFile: 'vite.sidecar.config.ts', build: { outDir: folder } });
  });

  afterAll(() => rmSync(folder, { recursive: true, force: true }));

  const built = (): string => join(folder, 'main.js');
  const run = (args: readonly string[]): Command => startCommand(args, { program: built() });

  test('contains its threads, the console, and the packages that are loaded only if they are configured', async () => {
    const listener = { host: '127.0.0.1', port: 0 };
    const config = new Folder({
      'sidecar.yaml': {
        listen: listener,
        admin: listener,
        operators: { ...listener, token },
        environments: { test: { upstream: 'http://127.0.0.1:1' } },
        accounts: { file: 'accounts.yaml' },
        tracing: { otlp: 'http://127.0.0.1:1' },
      },
      'accounts.yaml': { accounts: [{ id: 'acme', name: 'Acme Stores' }] },
    });
    const sidecar = run(['serve', '--config', config.file('sidecar.yaml')]);
    const listening = await sidecar.untilEntries('listening', 3);
    const port = listening.find((entry) => entry['listener'] === 'operators')?.['port'];
    const url = `http://127.0.0.1:${String(port)}`;
    expect((await fetch(`${url}/console/`)).status).toBe(200);
    const issued = await fetch(`${url}/api/v1/accounts/acme/keys`, {
      method: 'POST',
      headers: { authorization: `Bearer ${token}`, 'content-type': 'application/json' },
      body: JSON.stringify({ environment: 'test', kind: 'secret' }),
    });
    expect(issued.status).toBe(201);
    sidecar.signal('SIGTERM');
    expect(await sidecar.ended()).toEqual({ code: 0, signal: null });
    expect(sidecar.stderr).toBe('');
  });

  test('finds the files shipped with it', async () => {
    const target = join(new Folder({}).path, 'new');
    expect(await run(['init', target]).ended()).toEqual({ code: 0, signal: null });
    expect(readdirSync(target)).toContain('sidecar.schema.json');
    expect(await run(['check', '--config', join(target, 'sidecar.yaml')]).ended()).toMatchObject({ code: 0 });
  });

  test('loads no package at startup that it does not need, no TLS, and no parser into the main thread', () => {
    const loaded = new Set<string>();
    const follow = (name: string): void => {
      if (loaded.has(name)) return;
      loaded.add(name);
      if (!name.startsWith('./')) return;
      const code = readFileSync(join(folder, name), 'utf8');
      for (const [, next = ''] of code.matchAll(/^(?:import|export)\b[^"'`;]*?["']([^"']+)["'];$/gm)) follow(next);
      for (const [, next = ''] of code.matchAll(/\b__require\("([^"]+)"\)/g)) follow(next);
    };
    follow('./main.js');
    // serve.js is imported later, once the thread has begun to read the configuration.
    expect([...loaded]).not.toContain('./serve.js');
    follow('./serve.js');
    const sources = [...loaded]
      .filter((name) => existsSync(join(folder, `${name}.map`)))
      .flatMap((name) => {
        const map = JSON.parse(readFileSync(join(folder, `${name}.map`), 'utf8')) as { sources: string[] };
        return map.sources;
      });
    expect(sources.some((source) => source.endsWith('src/app.ts'))).toBe(true);
    // Only the thread that reads the configuration needs the parsers, and it frees their memory.
    const unneeded = /node_modules\/(?:zod|yaml|commander|http-proxy|@opentelemetry)\//;
    expect(sources.filter((source) => unneeded.test(source))).toEqual([]);
    follow('./load-worker.js');
    expect([...loaded]).toContain('./serve.js');
    const others = [...loaded].filter((name) => !name.startsWith('./'));
    expect(others.filter((name) => !isBuiltin(name))).toEqual([]);
    expect(others.filter((name) => /^(?:node:)?(?:tls|https?|http2|sqlite|cluster|child_process)$/.test(name))).toEqual(
      [],
    );
  });

  test('responds to each odd request as the sources do, and the core sees the same requests', async () => {
    const listener = { host: '127.0.0.1', port: 0 };
    const answersOf = async (setup?: ProcessSetup): Promise<unknown> => {
      const upstream = await startUpstream();
      const config = new Folder({
        'sidecar.yaml': {
          listen: listener,
          admin: listener,
          environments: { test: { upstream: upstream.origin } },
          accounts: { file: 'accounts.yaml' },
        },
        'accounts.yaml': {
          accounts: [{ id: 'acme', name: 'Acme Stores', keys: [{ id: 'k1', key: apiKey, createdAt: '2026-11-01' }] }],
        },
      });
      const { port } = await startServe(config.file('sidecar.yaml'), setup);
      const answers: string[] = [];
      for (const head of requests) {
        const bytes = `${head}\r\nAuthorization: Bearer ${apiKey}\r\nConnection: close\r\n\r\n`;
        const raw = await exchangeRaw(port, bytes);
        answers.push(`${head}: ${raw.slice(0, 12)} ${/"code":"(\w+)"/.exec(raw)?.[1]}`);
      }
      return { answers, seen: upstream.seen.map(({ method, url }) => `${method} ${url}`) };
    };
    expect(await answersOf({ program: built() })).toEqual(await answersOf({ program: sourceProgram }));
  });

  test('omits no statement of the sources that only calls a global function', () => {
    const maps = globSync(join(folder, '**/*.js.map'));
    const sources = new Set(
      maps.flatMap((file) => {
        const map = JSON.parse(readFileSync(file, 'utf8')) as { sources: string[] };
        return map.sources.map((source) => join(file, '..', source));
      }),
    );
    const own = [...sources].filter((file) => file.startsWith(join(process.cwd(), 'src/')));
    expect(own.length).toBeGreaterThan(100);
    const kept = maps.flatMap((map) => globalCalls(map.replace(/\.map$/, '')));
    const count = (calls: readonly string[], callee: string): number => calls.filter((each) => each === callee).length;
    const written = own.flatMap(globalCalls);
    expect(written.length).toBeGreaterThan(10);
    expect([...new Set(written)].filter((callee) => count(kept, callee) < count(written, callee))).toEqual([]);
  });

  test('has source maps, so that stack traces name the sources', () => {
    for (const file of ['main.js', 'serve.js', 'load-worker.js', 'worker.js', 'demo/serve-core.js']) {
      expect(existsSync(join(folder, `${file}.map`))).toBe(true);
    }
  });

  test('creates a compile cache that other users may read', async () => {
    const cache = join(folder, 'compile-cache');
    await bakeCompileCache({ program: built(), flags: shippedFlags('.') }, cache);
    const files = globSync('*/*', { cwd: cache });
    expect(files.length).toBeGreaterThan(5);
    for (const file of files) expect(statSync(join(cache, file)).mode & 0o777).toBe(0o644);
  });
});

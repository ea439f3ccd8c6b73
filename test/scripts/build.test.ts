import { spawn } from 'node:child_process';
import { existsSync, globSync, mkdirSync, mkdtempSync, readdirSync, readFileSync, rmSync, statSync } from 'node:fs';
import { isBuiltin } from 'node:module';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, onTestFinished, test } from 'vitest';
import { build } from 'vite';
import { bakeCompileCache, shippedFlags } from '../../scripts/bake-compile-cache.ts';
import { buildConsole } from '../console/build.ts';
import { Command } from '../support/command.ts';
import { Folder } from '../support/folder.ts';

const token = 'operators-token-of-the-build-test';

describe('the built sidecar', () => {
  let folder: string;

  beforeAll(async () => {
    await buildConsole();
    // Within the project, so that its packages are found.
    mkdirSync('dist', { recursive: true });
    folder = mkdtempSync(join(process.cwd(), 'dist/build-test-'));
    await build({ configFile: 'vite.sidecar.config.ts', build: { outDir: folder } });
  });

  afterAll(() => rmSync(folder, { recursive: true, force: true }));

  const run = (args: readonly string[]): Command => {
    const child = spawn(process.execPath, [join(folder, 'main.js'), ...args], { stdio: ['ignore', 'pipe', 'pipe'] });
    const command = new Command(child);
    onTestFinished(async () => {
      child.kill('SIGKILL');
      await command.ended();
    });
    return command;
  };

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

  test('loads at the start no package that it does not need, no TLS, and no parser into the main thread', () => {
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
    // Imported once the reading of the configuration has begun.
    expect([...loaded]).not.toContain('./serve.js');
    follow('./serve.js');
    const sources = [...loaded]
      .filter((name) => existsSync(join(folder, `${name}.map`)))
      .flatMap((name) => {
        const map = JSON.parse(readFileSync(join(folder, `${name}.map`), 'utf8')) as { sources: string[] };
        return map.sources;
      });
    expect(sources.some((source) => source.endsWith('src/app.ts'))).toBe(true);
    // The thread that reads the configuration frees the memory of two of them.
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

  test('has source maps, so that stack traces name the sources', () => {
    for (const file of ['main.js', 'serve.js', 'load-worker.js', 'worker.js', 'demo/serve-core.js']) {
      expect(existsSync(join(folder, `${file}.map`))).toBe(true);
    }
  });

  test('creates a compile cache that other users may read', async () => {
    const cache = join(folder, 'compile-cache');
    await bakeCompileCache({ program: join(folder, 'main.js'), flags: shippedFlags('.') }, cache);
    const files = globSync('*/*', { cwd: cache });
    expect(files.length).toBeGreaterThan(5);
    for (const file of files) expect(statSync(join(cache, file)).mode & 0o777).toBe(0o644);
  });
});

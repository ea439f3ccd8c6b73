import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { readFileSync, readdirSync } from 'node:fs';
import { fileURLToPath } from 'node:url';
import { describe, expect, test } from 'vitest';
import { blocks } from '../../bench/blocks.ts';
import { parseOptions } from '../../bench/options.ts';
import type { Report } from '../../bench/report.ts';
import { Folder } from '../support/folder.ts';
import { expectMeasured } from './expect-measured.ts';

const program = fileURLToPath(new URL('../../bench/main.ts', import.meta.url));

/** Runs the benchmark with its own folder for temporary files. */
async function bench(
  args: readonly string[],
  folder: string,
): Promise<{ code: number | null; stdout: string; stderr: string }> {
  const child = spawn(process.execPath, [program, ...args], {
    env: { ...process.env, TMPDIR: folder },
    stdio: ['ignore', 'pipe', 'pipe'],
  });
  let [stdout, stderr] = ['', ''];
  child.stdout.on('data', (chunk: Buffer) => (stdout += chunk.toString()));
  child.stderr.on('data', (chunk: Buffer) => (stderr += chunk.toString()));
  const [code] = (await once(child, 'close')) as [number | null];
  return { code, stdout, stderr };
}

describe('npm run bench', () => {
  test('checks the responses of the sidecar, measures it, and leaves nothing behind', { timeout: 60_000 }, async () => {
    const folder = new Folder({}).path;
    const json = new Folder({}).file('report.json');
    const tiny = ['--rounds', '1', '--seconds', '1', '--warm-up', '0', '--rate', '200'];
    const only = ['--only', 'envelope-350', '--peers', 'sidecar'];

    const { code, stdout, stderr } = await bench([...tiny, ...only, '--json', json], folder);

    expect(stderr).toBe('');
    expect(code).toBe(0);
    const { compare } = JSON.parse(readFileSync(json, 'utf8')) as Report;
    expect(compare?.results).toHaveLength(1);
    for (const result of compare?.results ?? []) expectMeasured(result, ['sidecar']);
    expect(stdout).toContain('sidecar : peer');
    expect(readdirSync(folder).filter((name) => name.startsWith('sidecar-bench-'))).toEqual([]);
  });

  test('measures what seals cost merchants, with and without seals', { timeout: 60_000 }, async () => {
    const json = new Folder({}).file('report.json');
    const tiny = ['--rounds', '2', '--seconds', '1', '--warm-up', '0', '--rate', '100'];
    const { code, stdout, stderr } = await bench(['seals', ...tiny, '--json', json], new Folder({}).path);
    expect([code, stderr]).toEqual([0, '']);
    const { seals } = JSON.parse(readFileSync(json, 'utf8')) as Report;
    expect(seals?.rounds).toHaveLength(2);
    for (const round of seals?.rounds ?? []) {
      for (const { p50, p99, busy } of [round.without, round.with]) {
        expect(p50).toBeGreaterThan(0);
        expect(p99).toBeGreaterThanOrEqual(p50);
        expect(busy).toBeGreaterThan(0);
      }
    }
    expect(stdout).toContain('with 1,000 seals/s');
  });

  test('refuses invalid arguments with the usage', async () => {
    const folder = new Folder({}).path;
    const { code, stderr } = await bench(['--only', 'nonsense'], folder);
    expect(code).toBe(2);
    expect(stderr).toContain('--write-docs');
    expect(readdirSync(folder)).toEqual([]);
  });

  test.each([
    ['--only', 'nonsense'],
    ['--rounds', '0'],
    ['--seconds', '1.5'],
    ['nonsense', '--no-latency'],
    ['--nonsense', 'x'],
  ])('refuses %s %s', (...args) => {
    expect(() => parseOptions(args)).toThrow(/unknown|takes a whole number/i);
  });
});

test.each(blocks)('docs/performance.md has a place for $name', ({ name }) => {
  const page = readFileSync(new URL('../../docs/performance.md', import.meta.url), 'utf8');
  expect(page.split(`<!-- begin ${name} -->`)).toHaveLength(2);
  expect(page.indexOf(`<!-- end ${name} -->`)).toBeGreaterThan(page.indexOf(`<!-- begin ${name} -->`));
});

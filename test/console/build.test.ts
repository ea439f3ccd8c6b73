import { globSync, mkdtempSync, readFileSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { gzipSync } from 'node:zlib';
import { build } from 'vite';
import { expect, onTestFinished, test } from 'vitest';

function temporaryFolder(): string {
  const folder = mkdtempSync(join(tmpdir(), 'console-'));
  onTestFinished(() => rmSync(folder, { recursive: true }));
  return folder;
}

test('all files of the page together are at most 120 KB, gzipped', async () => {
  const folder = temporaryFolder();
  await build({ build: { outDir: folder } });
  const files = globSync('**/*.*', { cwd: folder });
  expect(files).toContain('index.html');
  const sizes = files.map((file) => gzipSync(readFileSync(join(folder, file))).length);
  expect(sizes.reduce((sum, size) => sum + size, 0)).toBeLessThanOrEqual(120 * 1_024);
}, 60_000);

test('no screen contains text of its own: all text is in one file', () => {
  const saying = globSync('src/console/{screens,ui}/*.tsx').flatMap((file) =>
    [...readFileSync(file, 'utf8').matchAll(/>[ \n]*([A-Za-z][A-Za-z ,.’]+)[ \n]*<\/[a-z]/g)].map(
      ([, text]) => `${file}: ${text}`,
    ),
  );
  expect(saying).toEqual([]);
});

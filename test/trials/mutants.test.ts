import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { expect, onTestFinished, test } from 'vitest';
import { all } from '../../trials/mutants/all.ts';
import { root } from '../../trials/mutants/copy.ts';
import { mutantsOf, mutated } from '../../trials/mutants/mutant.ts';
import { tryMutants, verdict } from '../../trials/mutants/mutants.ts';

test('the text of every mutant is in its file exactly once', () => {
  const sources = new Map([...new Set(all.map(({ file }) => file))].map((file) => [file, sourceOf(file)]));
  const stale = all.filter((mutant) => mutated(sources.get(mutant.file) ?? '', mutant) === undefined);
  expect(stale.map(({ file, text }) => ({ file, text }))).toEqual([]);
});

test('a mutant that a test detects is killed, and one without effect survives', async () => {
  const mutants = mutantsOf(
    'src/envelope/sole-member.ts',
    ['test/envelope/sole-member.test.ts'],
    [
      ['end !== text.length || ', '', 'nothing follows the only member'],
      ['end !== text.length || ', 'end !==  text.length || ', 'nothing'],
      ['no such text', '', 'nothing'],
    ],
  );
  const tried = await tryMutants(mutants, 1, onTestFinished, () => {});
  expect(tried.map(({ outcome }) => outcome.kind)).toEqual(['killed', 'survived', 'stale']);
  expect(verdict(tried)).toEqual({
    line: '3 mutants: 1 killed, 1 survived, 0 argued equivalent, 1 stale, 0 broken: 33.3 %',
    ok: false,
  });
});

test('docs/reliability.md has the numbers of mutants in the list', () => {
  const page = readFileSync(join(root, 'docs/reliability.md'), 'utf8').replaceAll('\n', ' ');
  const numberIn = (pattern: RegExp): number => Number(pattern.exec(page)?.[1]);
  const folders = ['src/gateway', 'src/accounts', 'src/upstream', 'src/envelope'];
  const folderOf = (file: string): string => folders.find((folder) => file.startsWith(`${folder}/`)) ?? 'elsewhere';
  for (const name of folders) {
    const listed = all.filter(({ file }) => folderOf(file) === name);
    expect([name, numberIn(new RegExp(`(\\d+) in \`${name}\``))]).toEqual([name, listed.length]);
  }
  const equivalent = all.filter((mutant) => mutant.equivalent !== undefined).length;
  expect(numberIn(/(\d+) elsewhere\)/)).toBe(all.filter(({ file }) => folderOf(file) === 'elsewhere').length);
  expect(numberIn(/Of (\d+) mutants \(/)).toBe(all.length);
  expect(numberIn(/(\d+) are argued equivalent/)).toBe(equivalent);
  expect(numberIn(/(\d+) are killed/)).toBe(all.length - equivalent);
});

function sourceOf(file: string): string {
  return readFileSync(join(root, file), 'utf8');
}

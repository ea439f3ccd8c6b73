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

function sourceOf(file: string): string {
  return readFileSync(join(root, file), 'utf8');
}

import { describe, expect, test } from 'vitest';
import { beginningOf, folded, pieces, widthOf } from '../../src/cli/text-width.ts';

describe('a text takes as many cells of a terminal', () => {
  test.each([
    ['as it has letters', 'Acme Stores', 11],
    ['whatever accents they have', 'Łódź', 4],
    ['and however those are written', 'Lo\u0301dz\u0301', 4],
    ['twice where it is Chinese', '株式', 4],
    ['twice where it is Japanese or Korean', 'カナひ한', 8],
    ['but not for narrow kana', 'ｶﾅ', 2],
    ['twice for full-width forms', 'Ａ！', 4],
    ['twice for emoji, however they are put together', '🏪👩‍🍳', 4],
    ['none for nothing', '', 0],
  ])('%s', (_, text, width) => {
    expect(widthOf(text)).toBe(width);
  });
});

test.each([
  ['abc', 2, 'ab'],
  ['abc', 3, 'abc'],
  ['o\u0301o\u0301', 1, 'o\u0301'],
  ['a株式', 2, 'a'],
  ['a株式', 3, 'a株'],
])('the beginning of %j in %i cells is %j', (text, width, begin) => {
  expect(beginningOf(text, width)).toBe(begin);
});

test.each([
  ['a b', 3, ['a b']],
  ['a bc', 3, ['a', 'bc']],
  ['  a  b', 6, ['  a  b']],
  ['a bcdef g', 3, ['a', 'bcdef', 'g']],
  ['株 式会', 5, ['株', '式会']],
  ['', 3, ['']],
])('%j in lines of %i cells', (text, width, lines) => {
  expect(folded(text, width)).toEqual(lines);
});

test.each([
  ['abc', 3, ['abc']],
  ['abcdefg', 3, ['abc', 'def', 'g']],
  ['株式会社', 5, ['株式', '会社']],
])('%j in pieces of %i cells', (text, width, lines) => {
  expect(pieces(text, width)).toEqual(lines);
});

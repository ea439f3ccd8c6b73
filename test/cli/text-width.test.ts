import { describe, expect, test } from 'vitest';
import { beginningOf, folded, pieces, widthOf } from '../../src/cli/text-width.ts';

describe('the width of a text in cells of a terminal', () => {
  test.each([
    ['one for a letter', 'Acme Stores', 11],
    ['one for a letter with an accent', 'Łódź', 4],
    ['one for a letter with a combining accent', 'Lo\u0301dz\u0301', 4],
    ['two for a Chinese character', '株式', 4],
    ['two for a Japanese or Korean character', 'カナひ한', 8],
    ['one for half-width kana', 'ｶﾅ', 2],
    ['two for a full-width form', 'Ａ！', 4],
    ['two for an emoji, even a combined one', '🏪👩‍🍳', 4],
    ['none for an empty text', '', 0],
  ])('counts %s', (_, text, width) => {
    expect(widthOf(text)).toBe(width);
  });
});

test.each([
  ['abc', 2, 'ab'],
  ['abc', 3, 'abc'],
  ['o\u0301o\u0301', 1, 'o\u0301'],
  ['a株式', 2, 'a'],
  ['a株式', 3, 'a株'],
])('%j cut to %i cells is %j', (text, width, begin) => {
  expect(beginningOf(text, width)).toBe(begin);
});

test.each([
  ['a b', 3, ['a b']],
  ['a bc', 3, ['a', 'bc']],
  ['  a  b', 6, ['  a  b']],
  ['a bcdef g', 3, ['a', 'bcdef', 'g']],
  ['株 式会', 5, ['株', '式会']],
  ['', 3, ['']],
])('%j is folded into lines of %i cells', (text, width, lines) => {
  expect(folded(text, width)).toEqual(lines);
});

test.each([
  ['abc', 3, ['abc']],
  ['abcdefg', 3, ['abc', 'def', 'g']],
  ['株式会社', 5, ['株式', '会社']],
])('%j is split into pieces of %i cells', (text, width, lines) => {
  expect(pieces(text, width)).toEqual(lines);
});

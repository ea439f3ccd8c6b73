import { describe, expect, test } from 'vitest';
import { csvRecords, type CsvRecord } from '../../../src/accounts/transfer/csv.ts';

async function records(text: string): Promise<CsvRecord[]> {
  async function* lines(): AsyncIterable<string> {
    yield* text.split('\n');
  }
  return Array.fromAsync(csvRecords(lines()));
}

async function cells(text: string): Promise<(readonly string[] | undefined)[]> {
  return (await records(text)).map((record) => ('cells' in record ? record.cells : undefined));
}

describe('the cells of a record', () => {
  test.each([
    ['a,b,c', ['a', 'b', 'c']],
    ['a', ['a']],
    [',', ['', '']],
    ['a,,', ['a', '', '']],
    [' a , b ', [' a ', ' b ']],
    ['"a","b"', ['a', 'b']],
    ['"a,b",c', ['a,b', 'c']],
    ['"say ""hi""",""""', ['say "hi"', '"']],
    ['"",""', ['', '']],
  ])('are split and unquoted: %s', async (text, expected) => {
    expect(await cells(text)).toEqual([expected]);
  });

  test('may span lines if they are quoted', async () => {
    expect(await records('"a\nb\n",c\nd,e')).toEqual([
      { line: 1, cells: ['a\nb\n', 'c'] },
      { line: 4, cells: ['d', 'e'] },
    ]);
  });

  test.each(['a"b"', '"a"b', '"a" ,b', 'a,"b"c'])('may not contain a quote as in %s', async (text) => {
    expect(await cells(text)).toEqual([undefined]);
  });
});

test('empty lines are skipped', async () => {
  expect(await records('\na\n\nb\n')).toEqual([
    { line: 2, cells: ['a'] },
    { line: 4, cells: ['b'] },
  ]);
});

test('an unclosed quote is reported at the line of the opening quote', async () => {
  expect(await records('a\n"b\nc')).toEqual([
    { line: 1, cells: ['a'] },
    { line: 2, problem: 'not CSV: a quote is missing, or is inside a cell without quotes', isLast: true },
  ]);
});

describe('the limits', () => {
  const problems = async (text: string): Promise<(string | undefined)[]> =>
    (await records(text)).map((record) => ('problem' in record ? record.problem : undefined));

  test.each([
    ['1,000 cells', ','.repeat(999), undefined],
    ['1,001 cells', ','.repeat(1_000), 'more than 1000 cells'],
    ['a cell of 16,384 characters', `,${'x'.repeat(16_384)}`, undefined],
    ['a cell of 16,385 characters', `,${'x'.repeat(16_385)}`, 'cell 2 is longer than 16384 characters'],
    ['a cell in quotes of 16,384 characters', `"${'x'.repeat(16_383)}"""`, undefined],
    ['a cell in quotes of 16,385 characters', `"${'x'.repeat(16_384)}"""`, 'cell 1 is longer than 16384 characters'],
  ])('apply to %s', async (_, text, problem) => {
    expect(await problems(`a\n${text}\nb`)).toEqual([undefined, problem, undefined]);
  });

  test('end a record that spans too many lines, and nothing after it is read', async () => {
    const lines = `${'x'.repeat(1_023)}\n`.repeat(4_096);
    expect(await problems(`a\n"${lines.slice(1, -1)}"\nb`)).toHaveLength(3);
    expect(await records(`a\n"${lines.slice(0, -1)}"\nb`)).toEqual([
      { line: 1, cells: ['a'] },
      { line: 2, problem: 'longer than 4 MiB', isLast: true },
    ]);
  });
});

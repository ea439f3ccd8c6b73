import { describe, expect, test } from 'vitest';
import { csvRecords, type CsvRecord } from '../../../src/accounts/transfer/csv.ts';

async function records(text: string): Promise<CsvRecord[]> {
  async function* lines(): AsyncIterable<string> {
    yield* text.split('\n');
  }
  const all: CsvRecord[] = [];
  for await (const record of csvRecords(lines())) all.push(record);
  return all;
}

async function cells(text: string): Promise<(readonly string[] | undefined)[]> {
  return (await records(text)).map((record) => record.cells);
}

describe('cells', () => {
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
  ])('of %s', async (text, expected) => {
    expect(await cells(text)).toEqual([expected]);
  });

  test('in quotes may span lines', async () => {
    expect(await records('"a\nb\n",c\nd,e')).toEqual([
      { line: 1, cells: ['a\nb\n', 'c'] },
      { line: 4, cells: ['d', 'e'] },
    ]);
  });

  test.each(['a"b"', '"a"b', '"a" ,b', 'a,"b"c'])('may not hold a quote as %s does', async (text) => {
    expect(await cells(text)).toEqual([undefined]);
  });
});

test('empty lines are no records', async () => {
  expect(await records('\na\n\nb\n')).toEqual([
    { line: 2, cells: ['a'] },
    { line: 4, cells: ['b'] },
  ]);
});

test('a quote that is never closed is reported where it begins', async () => {
  expect(await records('a\n"b\nc')).toEqual([
    { line: 1, cells: ['a'] },
    { line: 2, cells: undefined },
  ]);
});

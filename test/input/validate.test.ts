import { join } from 'node:path';
import { describe, expect, test } from 'vitest';
import { z } from 'zod';
import { Files } from '../../src/yaml/files.ts';
import { duration, text } from '../../src/input/value-types.ts';
import { validate, validateWhole } from '../../src/input/validate.ts';
import { valuesIn } from '../../src/yaml/values.ts';
import { YamlFile } from '../../src/yaml/yaml-file.ts';
import { filesIn } from '../config/files.ts';

/** Checks the text of a file. Returns its valid part as `right`, and its problems, as `path: message`, as `wrong`. */
function check(written: string): { right: unknown; wrong: string[] } {
  const file = new YamlFile(join(filesIn({ 'a.yaml': written }), 'a.yaml'), new Files());
  const { value } = valuesIn(file, {});
  const long = z.strictObject({ url: value(text), wait: value(duration).optional() });
  const schema = z.strictObject({
    name: value(text).optional(),
    list: z.array(z.strictObject({ wait: value(duration).prefault('1s'), on: z.boolean() })).prefault([]),
    way: z.union([value(text), long], { error: 'expected a text or members with "url"' }).optional(),
  });
  const right = validate(file, schema);
  return { right, wrong: file.problems.map(({ path, message }) => `${path}: ${message}`) };
}

test('valid input is returned with its defaults', () => {
  expect(check('{ name: x, list: [ { on: true } ] }')).toEqual({
    right: { name: 'x', list: [{ on: true, wait: 1000 }] },
    wrong: [],
  });
});

test('invalid members are omitted, and all others returned', () => {
  const { right, wrong } = check(
    '{ name: 5, list: [ { wait: 1, on: true }, 7, { wait: 2s }, { on: false, off: 1 } ] }',
  );
  expect(wrong).toEqual([
    'name: expected text: put it in quotes',
    'list[0].wait: expected a duration such as 250ms, 30s, 5m, 12h or 7d',
    'list[1]: expected members ("name: value")',
    'list[2].on: missing: expected true or false',
    'list[3].off: unknown member "off": expected wait, on',
  ]);
  expect(right).toEqual({ list: [{ on: true }, undefined, { wait: 2000 }, { on: false, wait: 1000 }] });
});

describe('a value that can be written in several ways', () => {
  test.each([
    ['5', 'way: expected a text or members with "url"'],
    ['[]', 'way: expected a text or members with "url"'],
    ['{ file: none }', 'way: cannot read the file: it does not exist'],
    ['"${NONE}"', 'way: the environment variable NONE is not set'],
    ['{ url: 5 }', 'way.url: expected text: put it in quotes'],
    ['{ url: { file: none } }', 'way.url: cannot read the file: it does not exist'],
    ['{ url: a, wiat: 1s }', 'way.wiat: unknown member "wiat": did you mean "wait"?'],
    ['{ url: a, wait: 1 }', 'way.wait: expected a duration such as 250ms, 30s, 5m, 12h or 7d'],
    ['{ wait: 1s }', 'way.url: missing: expected text'],
  ])('is reported according to the way that was meant: %s', (written, problem) => {
    expect(check(`way: ${written}`)).toEqual({ right: expect.anything(), wrong: [problem] });
  });
});

test('an empty file has one problem, not one for each member', () => {
  expect(check('# nothing')).toEqual({ right: undefined, wrong: ['.: the file is empty'] });
});

describe('a value that is useful only as a whole', () => {
  const schema = z.strictObject({ ids: z.array(z.string()).min(1), count: z.int().min(1).max(9), at: z.boolean() });

  test('is returned if it is valid', () => {
    const value = { ids: ['a'], count: 9, at: true };
    expect(validateWhole(value, schema)).toEqual({ value });
  });

  test('yields all its mistakes otherwise, each with its path', () => {
    const mistakesIn = (sent: unknown): unknown[] => {
      const result = validateWhole(sent, schema);
      return 'mistakes' in result
        ? [...result.mistakes].map(({ path, message }) => `${path.join('.')}: ${message}`)
        : [];
    };
    expect(mistakesIn({ ids: [], count: 0, ta: 1 })).toEqual([
      'ids: expected at least one item',
      'count: expected 1 or more',
      'at: missing: expected true or false',
      'ta: unknown member "ta": expected ids, count, at',
    ]);
    expect(mistakesIn({ ids: [7], count: 10, at: false })).toEqual([
      'ids.0: expected text',
      'count: expected 9 or less',
    ]);
    expect(mistakesIn([])).toEqual([': expected members ("name: value")']);
  });
});

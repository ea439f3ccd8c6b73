import { join } from 'node:path';
import { describe, expect, test } from 'vitest';
import type { z } from 'zod';
import { Files } from '../../src/yaml/files.ts';
import { duration, oneOf, size, text } from '../../src/input/value-types.ts';
import { valuesIn } from '../../src/yaml/values.ts';
import { filesIn } from '../config/files.ts';

const env = { WAIT: '30s', EMPTY: '', REFERENCE: '${WAIT}' };

/** The value that a schema reads, or the message that says why the value is invalid. */
function read(schema: z.ZodType, written: unknown): unknown {
  const result = schema.safeParse(written);
  return result.success ? result.data : result.error.issues.map(({ message }) => message).join();
}

/** The value types for a directory with these files. */
function valuesOf(files: Readonly<Record<string, string>>) {
  return valuesIn({ directory: filesIn(files), files: new Files() }, env);
}

describe('references', () => {
  const wrongDuration = 'expected a duration such as 250ms, 30s, 5m, 12h or 7d';

  test.each([
    ['5s', 5000],
    ['${WAIT}', 30_000],
    [{ file: 'wait' }, 60_000],
    [{ file: './x/../wait' }, 60_000],
    ['x${WAIT}', wrongDuration],
    ['${EMPTY}', wrongDuration],
    ['${REFERENCE}', wrongDuration],
    ['${MISSING}', 'the environment variable MISSING is not set'],
    ['${toString}', 'the environment variable toString is not set'],
    ['${}', 'expected the name of a variable in "${…}"'],
    [{ file: 'none' }, 'cannot read the file: it does not exist'],
    [{ file: '.' }, 'cannot read the file: it is a directory'],
  ])('%j is %j', (written, expected) => {
    expect(read(valuesOf({ wait: '1m\n' }).value(duration), written)).toBe(expected);
  });

  test.each([
    ['a\n', 'a'],
    ['a\r\n', 'a'],
    ['a\n\n', 'a\n'],
    [' a ', ' a '],
    ['\n', 'expected text'],
  ])('one newline at the end of the file %j is removed, and nothing else', (content, expected) => {
    expect(read(valuesOf({ content }).value(text), { file: 'content' })).toBe(expected);
  });

  test('may be used for any kind of value', () => {
    const { value } = valuesOf({ wait: '1m\n' });
    expect(read(value(oneOf(['1m', '30s'])), '${WAIT}')).toBe('30s');
    expect(read(value(oneOf(['1m', '30s'])), { file: 'wait' })).toBe('1m');
    expect(read(value(oneOf(['1m'])), '${WAIT}')).toBe('expected 1m');
  });

  test('report which files they read or tried to read', () => {
    const directory = filesIn({ here: 'a' });
    const files = new Files();
    const { value, pem } = valuesIn({ directory, files }, env);
    read(value(text), { file: 'here' });
    read(value(text), { file: 'none' });
    read(pem(text), '/none.pem');
    expect([...files.seen.keys()]).toEqual([join(directory, 'here'), join(directory, 'none'), '/none.pem']);
  });
});

test('PEM is the path of a file or the text itself', () => {
  const { pem } = valuesOf({ 'a.pem': 'inside\n', path: 'a.pem\n' });
  expect(read(pem(text), 'a.pem')).toBe('inside\n');
  expect(read(pem(text), { file: 'path' })).toBe('inside\n');
  expect(read(pem(text), '-----BEGIN X')).toBe('-----BEGIN X');
});

describe('numbers', () => {
  const { value } = valuesIn({ directory: '', files: new Files() }, env);
  const wrongSize = 'expected a size such as 512B, 64KiB, 1MiB or 2GiB';

  test.each([
    [1024, 1024],
    [0, 0],
    [-1, wrongSize],
    [1.5, wrongSize],
    [Number.POSITIVE_INFINITY, wrongSize],
    [true, wrongSize],
    [null, wrongSize],
    [undefined, `missing: ${wrongSize}`],
  ])('the size %j is %j', (written, expected) => {
    expect(read(value(size), written)).toBe(expected);
  });

  test('are text, not numbers, if they are in quotes', () => {
    expect(read(value(text), 42)).toBe('expected text: put it in quotes');
    expect(read(value(text), false)).toBe('expected text: put it in quotes');
    expect(read(value(duration), 30)).toBe('expected a duration such as 250ms, 30s, 5m, 12h or 7d');
  });
});

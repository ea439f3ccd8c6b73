import { describe, expect, test } from 'vitest';
import { parseYaml } from '../../src/yaml/syntax.ts';

/** The line and column of a member, as `line:column`. */
function place(text: string, path: (string | number)[], part: 'name' | 'value' = 'value'): string {
  const parsed = parseYaml(text);
  const { line, col } = parsed.locate(parsed.findOffset(path, part));
  return `${line}:${col}`;
}

test('values are those of YAML 1.2, whichever version the text declares', () => {
  const members = 'a: on\nb: 2026-11-01\nc: 0o17\nd: 0x1F\ne: 017\nf: 1_000\ng: ~\nh: True\ni: 12:30:45\n';
  const value = {
    a: 'on',
    b: '2026-11-01',
    c: 15,
    d: 31,
    e: 17,
    f: '1_000',
    g: null,
    h: true,
    i: '12:30:45',
  };
  expect(parseYaml(members)).toMatchObject({ value, problems: [] });
  expect(parseYaml(`%YAML 1.1\n---\n${members}`)).toMatchObject({ value, problems: [] });
});

test('merge keys are not supported, and names are text', () => {
  expect(parseYaml('a: &a { x: 1 }\nb: { <<: *a }\n1: y\ntrue: z\n').value).toEqual({
    a: { x: 1 },
    b: { '<<': { x: 1 } },
    1: 'y',
    true: 'z',
  });
});

test('a name that exists on the prototype is a member like any other', () => {
  expect(Object.keys(parseYaml('__proto__: { a: 1 }\nconstructor: 2\n').value as object)).toEqual([
    '__proto__',
    'constructor',
  ]);
});

describe('the position', () => {
  const text = 'a:\n  - x: 1\n    y: { z: [p, q] }\n  - "s"\nb:\nc: &c\n  d: 1\ne: *c\n';

  test.each([
    [['a'], '2:3', '1:1'],
    [['a', 0], '2:5', '2:5'],
    [['a', 0, 'x'], '2:8', '2:5'],
    [['a', 0, 'y', 'z', 1], '3:17', '3:17'],
    [['a', 1], '4:5', '4:5'],
    [['b'], '5:1', '5:1'],
    [['e', 'd'], '7:6', '7:3'],
    [[], '1:1', '1:1'],
  ])('of %j: the value is at %s, the name at %s', (path, value, name) => {
    expect([place(text, path), place(text, path, 'name')]).toEqual([value, name]);
  });

  test.each([
    [['f'], '1:1'],
    [['a', 0, 'y', 'none'], '3:5'],
    [['a', 7], '1:1'],
    [['b', 'none', 'none'], '5:1'],
  ])('of %j, which is missing, is that of its parent, %s', (path, parent) => {
    expect(place(text, path)).toBe(parent);
  });

  test('is right after a byte order mark and with CRLF', () => {
    expect(parseYaml('\ufeffa: 1\r\n').value).toEqual({ a: 1 });
    expect(place('a: 1\r\nb:\r\n  c: 2\r\n', ['b', 'c'])).toBe('3:6');
  });
});

test('repeated members are found at any depth, each with its path', () => {
  const { problems, value } = parseYaml('a: [ { b: 1, b: 2, b: 3 } ]\n"a": 4\n');
  expect(problems.map(({ path, offset }) => [path, offset])).toEqual([
    [['a', 0, 'b'], 13],
    [['a', 0, 'b'], 19],
    [['a'], 28],
  ]);
  expect(value).toEqual({ a: 4 });
});

test.each(['a: [1', 'a: "b', 'a: {b: 1}}', '? [x]\n: 1', 'a: b: c', '\ta: 1', 'a: @b', 'a: %b', '- '.repeat(5000)])(
  'invalid YAML has problems and no value: %j',
  (text) => {
    const { problems, value } = parseYaml(text.slice(0, 10_000));
    expect({ broken: problems.length > 0, value }).toEqual({ broken: true, value: undefined });
  },
);

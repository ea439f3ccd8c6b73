import { expect, test } from 'vitest';
import { DuplicateMember, parseJson } from '../../src/input/json.ts';

test.each([
  '{}',
  '[]',
  'null',
  '"a:b"',
  '{"a":1,"b":{"a":2},"c":[{"a":3},{"a":4}]}',
  '{"a:":":","\\":\\"":"\\\\"}',
  '{"":1,"__proto__":{"a":1},"A":2,"a":3}',
  ' { "a" : "\\u003a:" } ',
])('%s is parsed as JSON.parse would parse it', (text) => {
  expect(parseJson(text)).toEqual(JSON.parse(text));
});

test.each([
  '{"a":1,"a":1}',
  '{"a":1,"b":2,"a":3}',
  '{"a":1,"\\u0061":2}',
  '{"b":{"a":1,"a":2}}',
  '[{"a":[{"":1,"":2}]}]',
  '{"a":{"a":1},"a":{"b":":"}}',
  '{"__proto__":1,"__proto__":2}',
])('%s has a duplicate member', (text) => {
  expect(() => parseJson(text)).toThrow(DuplicateMember);
});

test.each(['', '{', '{"a":1,}', "{'a':1}", '{"a":1}{"a":1}'])('%s is not JSON', (text) => {
  expect(() => parseJson(text)).toThrow(SyntaxError);
});

test('a value that is nested deeply is parsed', () => {
  const text = `${'[{"a":'.repeat(50_000)}1${'}]'.repeat(50_000)}`;
  expect(() => parseJson(text)).not.toThrow();
});

import { expect, test } from 'vitest';
import { formatPath, unknownMember } from '../../src/input/member-path.ts';

test.each([
  [[], '.'],
  [['limits', 'header'], 'limits.header'],
  [['routes', 1, 'methods', 0], 'routes[1].methods[0]'],
  [[0, 'a'], '[0].a'],
  [['x-y_z', 'sha256', '<<'], 'x-y_z.sha256.?'],
  [['a.b', 'a b', '', '1'], '?.?.?.?'],
  [['a'.repeat(20), 'a'.repeat(21), 'a1234'], `${'a'.repeat(20)}.?.?`],
])('the path %j is written as %s', (path, written) => {
  expect(formatPath(path)).toBe(written);
});

const known = ['listen', 'limits', 'timeouts', 'trustedProxies', 'port'];

test.each([
  ['timeout', 'timeouts'],
  ['Timeouts', 'timeouts'],
  ['tmieouts', 'timeouts'],
  ['trusted_proxies', 'trustedProxies'],
  ['trustedproxies', 'trustedProxies'],
  ['limit', 'limits'],
  ['lstn', 'listen'],
  ['prt', 'port'],
  ['post', 'port'],
])('the known name nearest to %j is %s', (name, nearest) => {
  expect(unknownMember(name, known)).toBe(`unknown member "${name}": did you mean "${nearest}"?`);
});

test.each(['p', 'pxyz', 'limitation', 'tim'])('no known name is near %j', (name) => {
  const all = 'listen, limits, timeouts, trustedProxies, port';
  expect(unknownMember(name, known)).toBe(`unknown member "${name}": expected ${all}`);
});

test("a message repeats a name only if it looks like a member's name", () => {
  expect(unknownMember('workers', known)).toMatch(/^unknown member "workers": /);
  expect(unknownMember('sk_test_0123456789abcdef', known)).toMatch(/^unknown member: /);
});

import fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import { simpleYaml } from '../../src/yaml/simple.ts';
import { parseFully } from '../../src/yaml/syntax.ts';

const account = `# All accounts.

accounts:
  # The first.
  - id: acme
    name: Müller & Söhne (Köln), GmbH
    active: false
    keys:
      - id: a-1
        sha256: "00ff"
        createdAt: 2026-11-01T09:30:00Z

      - id: a-2
        key: 'it is "quoted"'
    encryption:
      test:
        key: sealed:v1:AbC+/=
  - id: globex
    keys: []
`;

test('reads what the sidecar writes as the parser does', () => {
  const value = simpleYaml(account);
  expect(value).toMatchObject({
    accounts: [
      { id: 'acme', active: false, keys: [{}, {}] },
      { id: 'globex', keys: [] },
    ],
  });
  expect(parseFully(account)).toMatchObject({ value, problems: [] });
});

describe('leaves to the parser', () => {
  test.each([
    ['', 'nothing'],
    ['# only\n', 'a comment only'],
    ['a: 1', 'a number'],
    ['a: 0x1F', 'a number in hex'],
    ['a: .inf', 'infinity'],
    ['a: null', 'null'],
    ['a: True', 'another spelling of true'],
    ['a:', 'a name without a value'],
    ['a: ""\na: ""', 'a name that stands twice'],
    ['a: b # c', 'a comment behind a value'],
    ['a: b: c', 'a mapping within a value'],
    ['a: "b\\n"', 'an escape'],
    ["a: 'b''c'", 'a doubled quote'],
    ['a: {b: c}', 'a mapping in braces'],
    ['a: &b c', 'an anchor'],
    ['a: *b', 'an alias'],
    ['a: !b c', 'a tag'],
    ['a: |\n  b', 'a block of text'],
    ['a: b\n  c', 'a text on two lines'],
    ['a: b\r\nc: d', 'other line ends'],
    ['a: b\n---\nc: d', 'a second document'],
    ['a:\n\tb: c', 'a tab'],
    ['a:\n    b: c\n  d: e', 'indentation that leads back to nowhere'],
    ['- a: b', 'a list alone'],
    ['a:\n- - b: c', 'a list in a list'],
    ['\ufeffa: b', 'a byte order mark'],
    ['a: b ', 'a space at the end of a line'],
  ])('%j: %s', (text) => {
    expect(simpleYaml(text)).toBeUndefined();
  });
});

/** One of the usual, or now and then of the others. */
function mostly(usual: fc.Arbitrary<string>, others: fc.Arbitrary<string>): fc.Arbitrary<string> {
  return fc.oneof({ weight: 30, arbitrary: usual }, { weight: 1, arbitrary: others });
}

const odd = fc.string({
  unit: fc.constantFrom('😀', ...'xY0 .:-_#"\'\\[]{},&*!|>%@`\t\u00a0\u2028é=+~?/'.split('')),
  maxLength: 6,
});
const lines = fc.array(
  fc
    .tuple(
      mostly(fc.constantFrom('', '', '', '  '), fc.constantFrom(' ', '    ')),
      mostly(fc.constantFrom('', '', '- '), fc.constantFrom('-', '# ', '? ')),
      mostly(fc.constantFrom('a', 'b', 'c', 'd', 'e', 'f'), odd),
      mostly(fc.constant(': '), fc.constantFrom(':', ':  ', ' :', '')),
      mostly(fc.constantFrom('x', 'true', 'x:y', 'x, y', '[]', '"x"', `'x'`, '', '2026-11-01'), odd),
    )
    .map((parts) => parts.join('')),
  { maxLength: 6 },
);

test('never reads anything else than the parser', () => {
  fc.assert(
    fc.property(lines, (all) => {
      const text = all.join('\n');
      const value = simpleYaml(text);
      fc.pre(value !== undefined);
      const parsed = parseFully(text);
      expect([parsed.value, parsed.problems]).toEqual([value, []]);
    }),
    { numRuns: 300 },
  );
});

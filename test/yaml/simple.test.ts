import fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import { simpleYaml } from '../../src/yaml/simple.ts';
import { parseFully } from '../../src/yaml/syntax.ts';
import { runs } from '../support/property.ts';

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

/** Texts of the kind that people and programs write. */
const configuration = `listen: { host: 127.0.0.1, port: 8080 } # the merchants' traffic
admin: {host: "::1", port: 9090}
environments: # one
  test:
    upstream: http://127.0.0.1:3000 # plain
    hosts: ['a.example', b.example, "c#d"]
routes:
  - path: /api/s2s/*
    methods:
      - POST
      - "GET" # too
    keys: []
  - { path: /api/:id/x, envelope: true, keys: [public, secret,] }
tracing: { sample: 0.25, otlp: http://collector:4318 }
empty: {}
`;

test('reads hand-written files as the parser does', () => {
  const value = simpleYaml(configuration);
  expect(value).toMatchObject({
    listen: { host: '127.0.0.1', port: 8_080 },
    admin: { host: '::1' },
    environments: { test: { upstream: 'http://127.0.0.1:3000', hosts: ['a.example', 'b.example', 'c#d'] } },
    routes: [
      { methods: ['POST', 'GET'], keys: [] },
      { path: '/api/:id/x', envelope: true, keys: ['public', 'secret'] },
    ],
    tracing: { sample: 0.25, otlp: 'http://collector:4318' },
  });
  expect(parseFully(configuration)).toMatchObject({ value, problems: [] });
});

test.each([undefined, 2, '\n'.repeat(3)])('reads JSON as the parser does, indented by %j', (space) => {
  const text = `${JSON.stringify(simpleYaml(configuration), undefined, space)}\n`;
  expect(simpleYaml(text)).toEqual(simpleYaml(configuration));
  expect(parseFully(text)).toMatchObject({ value: simpleYaml(configuration), problems: [] });
});

test.each(["a: 'b''c'\n", "a: ['''', 'b''', {c: '''d'}]\n", 'a: \u200db\u061c\n', 'a: "\ue000\u0378"\n'])(
  'reads doubled quotes, and characters that are not seen or not known, as the parser does: %j',
  (text) => {
    const value = simpleYaml(text);
    expect(value).toBeDefined();
    expect(parseFully(text)).toMatchObject({ value, problems: [] });
  },
);

test('reads files written by the sidecar as the parser does', () => {
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
    ['a: -1', 'a negative number'],
    ['a: 012', 'a number with a zero before it'],
    ['a: 1234567890123456', 'a number that may not be exact'],
    ['a: 1e3', 'an exponent'],
    ['a: 0x1F', 'a number in hex'],
    ['a: .inf', 'infinity'],
    ['a: null', 'null'],
    ['a: True', 'another spelling of true'],
    ['a:', 'a name without a value'],
    ['a: ""\na: ""', 'a name that stands twice'],
    ['a: b: c', 'a mapping within a value'],
    ['a: "b\\n"', 'an escape'],
    ["a: 'b''", 'a doubled quote without an end'],
    ['a: {b: c}}', 'a brace too many'],
    ['a: {b: c', 'a brace too few'],
    ['a: {b: c} d', 'text behind a brace'],
    ['a: {b: c}# d', 'a comment without a space before it'],
    ['a: {b: c, b: c}', 'a name that stands twice in braces'],
    ['a: {b: c,\n  d: e}', 'braces on two lines'],
    ['a: {b: c,,}', 'two commas'],
    ['a: {b}', 'a name alone in braces'],
    ['a: {b:c}', 'a colon without a space behind it'],
    ['a: [b: c]', 'a mapping in brackets'],
    ['a: [b c: d]', 'a longer name in brackets'],
    ['a: [b #c\n]', 'a comment in brackets'],
    ['a: {b: c:}', 'a colon at the end in braces'],
    [`a: ${'['.repeat(18)}${']'.repeat(18)}`, 'deep nesting'],
    ['{"a": "b"', 'JSON that is not whole'],
    ['{"a": "b"}\n{}', 'two values of JSON'],
    ['{"a": "b\\n"}', 'JSON with an escape'],
    ['{"a": "b\nc"}', 'JSON with a text on two lines'],
    ['{"a": b\nc}', 'text without quotes on two lines'],
    ['a: - b', 'a list behind a name'],
    ['a:\n  - b\n    c: d', 'members below a text'],
    ['a:\n  - b c: d', 'a mapping within an item'],
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

/** One of the usual texts, rarely one of the others. */
function mostly(usual: fc.Arbitrary<string>, others: fc.Arbitrary<string>): fc.Arbitrary<string> {
  return fc.oneof({ weight: 30, arbitrary: usual }, { weight: 1, arbitrary: others });
}

const inFlow = fc.constantFrom(
  'x',
  'x y',
  '"x, y"',
  "'}'",
  '1',
  '0.5',
  'true',
  'x:y',
  'a: x',
  '"b": x',
  '"c":1',
  'd: {a: x}',
  '[x]',
  '{}',
  '[]',
);
const flow = fc
  .tuple(
    fc.constantFrom('{', '{ ', '['),
    fc.array(mostly(inFlow, odd()), { maxLength: 3 }),
    fc.constantFrom('}', ' }', ']', ',}', ', ]'),
  )
  .map(([opening, parts, closing]) => `${opening}${parts.join(', ')}${closing}`);

function odd(): fc.Arbitrary<string> {
  return fc.string({
    unit: fc.constantFrom('😀', ...'xY0 .:-_#"\'\\[]{},&*!|>%@`\t\u00a0\u2028\u200d\ue000\ufeffé=+~?/'.split('')),
    maxLength: 6,
  });
}

const lines = fc.array(
  fc
    .tuple(
      mostly(fc.constantFrom('', '', '', '  '), fc.constantFrom(' ', '    ')),
      mostly(fc.constantFrom('', '', '- '), fc.constantFrom('-', '# ', '? ')),
      mostly(fc.constantFrom('a', 'b', 'c', 'd', 'e', 'f'), odd()),
      mostly(fc.constant(': '), fc.constantFrom(':', ':  ', ' :', '', ': # x')),
      mostly(
        fc.oneof(fc.constantFrom('x', 'true', 'x:y', 'x, y', '1', '0.5', '"x"', `'x'`, '', '2026-11-01'), flow),
        odd(),
      ),
      mostly(fc.constant(''), fc.constantFrom(' # x', '  #', '#', ' ')),
    )
    .map((parts) => parts.join('')),
  { maxLength: 6 },
);

test('never reads a generated text differently from the parser', () => {
  fc.assert(
    fc.property(lines, (all) => {
      const text = all.join('\n');
      const value = simpleYaml(text);
      fc.pre(value !== undefined);
      const parsed = parseFully(text);
      expect([parsed.value, parsed.problems]).toEqual([value, []]);
    }),
    { numRuns: runs(300) },
  );
});

test('never reads generated braces differently from the parser', () => {
  const texts = fc.oneof(
    flow,
    flow.map((value) => `a: ${value}`),
    flow.map((value) => value.replaceAll(', ', ',\n')),
  );
  fc.assert(
    fc.property(texts, (text) => {
      const value = simpleYaml(text);
      fc.pre(value !== undefined);
      const parsed = parseFully(text);
      expect([parsed.value, parsed.problems]).toEqual([value, []]);
    }),
    { numRuns: runs(300) },
  );
});

import fc from 'fast-check';

/** Generates the texts of accounts files, with comments, blank lines and spaces wherever the syntax allows them. */
export function fileOf(most = 3): fc.Arbitrary<string> {
  let comments = 0;
  const trail = fc.boolean().map((is) => (is ? `  # ${(comments += 1)}` : ''));
  const between = (indent: number): fc.Arbitrary<string> =>
    fc
      .array(
        fc.boolean().map((is) => (is ? `${' '.repeat(indent)}# ${(comments += 1)}\n` : '\n')),
        { maxLength: 2 },
      )
      .map((lines) => lines.join(''));
  const line = (indent: number, text: string): fc.Arbitrary<string> =>
    fc.tuple(between(indent), trail).map(([before, after]) => `${before}${' '.repeat(indent)}${text}${after}\n`);

  const account = (dash: number, i: number): fc.Arbitrary<string> => {
    const inner = dash + 2;
    const id = line(dash, `- id:  account-${i}`);
    const optional = (lines: fc.Arbitrary<string>): fc.Arbitrary<string> => fc.oneof(fc.constant(''), lines);
    const flowKey = `- {id: k${i}-1,  key: "sk_test_0123456789abcde${i}" , createdAt: 2026-11-01}`;
    const blockKey = fc
      .tuple(
        line(inner + 2, `- id: k${i}-2`),
        line(inner + 4, `key: 'sk_test_0123456789abcdx${i}'`),
        line(inner + 4, 'createdAt:   2026-11-01'),
      )
      .map((lines) => lines.join(''));
    const keys = fc
      .tuple(line(inner, 'keys:'), fc.oneof(line(inner + 2, flowKey), blockKey))
      .map((lines) => lines.join(''));
    const encryption = fc
      .tuple(
        line(inner, 'encryption:'),
        line(inner + 2, 'test:'),
        line(inner + 6, 'enabled: true'),
        line(inner + 6, `key: "0123456789abcdefghijklmnopqrstu${i}"`),
        line(inner + 6, 'iv: 0123456789abcdef'),
      )
      .map((lines) => lines.join(''));
    return fc
      .tuple(
        id,
        line(inner, `name: Name ${i}`),
        optional(keys),
        optional(line(inner, 'active:  true')),
        optional(encryption),
      )
      .map((lines) => lines.join(''));
  };
  return fc
    .tuple(fc.constantFrom(0, 2, 4), fc.integer({ min: 1, max: most }))
    .chain(([dash, count]) =>
      fc.tuple(line(0, 'accounts:'), ...Array.from({ length: count }, (_, i) => account(dash, i)), between(0)),
    )
    .map((parts) => parts.join(''));
}

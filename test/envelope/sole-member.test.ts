import * as fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import { sliceLength } from '../../src/slices.ts';
import { readDataMember as soleDataOf } from '../../src/envelope/json/sole-member.ts';
import { now } from './fixtures.ts';
import { runs } from '../support/property.ts';

const soleData = (text: string): string | undefined => now(soleDataOf(Buffer.from(text)))?.toString();

describe('soleData', () => {
  test.each([
    ['{"data":"abc"}', 'abc'],
    ['{"data":""}', ''],
    [' \t\r\n{ \n"data"\r: \t"abc" \n} \r\n', 'abc'],
    ['{"d\\u0061ta":"abc"}', 'abc'],
    ['{"data":"a\\/b\\/c=="}', 'a/b/c=='],
    ['{"data":"a\\"b"}', 'a"b'],
    ['{"data":"a\\\\"}', 'a\\'],
    ['{"data":"\\\\\\""}', '\\"'],
    ['{"data":"}"}', '}'],
    ['{"data":"\\u0000\\n\\b\\u007fé😀"}', '\u0000\n\b\u007fé😀'],
  ])('reads %j', (text, data) => {
    expect(JSON.parse(text)).toEqual({ data });
    expect(soleData(text)).toBe(data);
  });

  test.each([
    '',
    ' ',
    '{}',
    '[]',
    '"data"',
    'null',
    '{"data"}',
    '{"data":}',
    '{"data":"abc"',
    '{"data":"abc',
    '{"data":"abc\\"}',
    '{"data":"abc\\\\\\"}',
    '{"data":"abc"}}',
    '{"data":"abc"}x',
    'x{"data":"abc"}',
    '{"data":"abc",}',
    '{,"data":"abc"}',
    '{"data":"abc","data":"abc"}',
    '{"data":"abc","d\\u0061ta":"abc"}',
    '{"data":"abc","x":1}',
    '{"x":1,"data":"abc"}',
    '{"data":"abc" "x"}',
    '{"Data":"abc"}',
    '{"data ":"abc"}',
    '{"__proto__":"abc"}',
    '{"data":1}',
    '{"data":null}',
    '{"data":["abc"]}',
    '{"data":{"data":"abc"}}',
    '[{"data":"abc"}]',
    '{"data":"\\x"}',
    '{"d\\ata":"abc"}',
    "{'data':'abc'}",
    '{data:"abc"}',
    '\ufeff{"data":"abc"}',
    '\u00a0{"data":"abc"}',
    '{"data"\v:"abc"}',
  ])('finds nothing in %j', (text) => {
    expect(soleData(text)).toBeUndefined();
  });

  test('agrees with JSON.parse on every text, however it is damaged', () => {
    const string = fc.string({ unit: fc.constantFrom('a', '/', '\\', '"', '\\/', '\\"', ' ', ':', '}'), maxLength: 6 });
    const text = fc.oneof(
      string.map((inside) => `{"data":"${inside}"}`),
      string.map((inside) => `{"data":${JSON.stringify(inside)}}`),
      fc.tuple(string, string).map(([a, b]) => `{"data":"${a}","data":"${b}"}`),
      fc.string({ unit: fc.constantFrom('{', '}', '"', 'data', ':', ',', '\\', ' '), maxLength: 10 }),
    );
    const found = { some: 0, none: 0 };
    fc.assert(
      fc.property(text, (text) => {
        const data = soleData(text);
        found[data === undefined ? 'none' : 'some'] += 1;
        let parsed: unknown;
        try {
          parsed = JSON.parse(text);
        } catch {
          parsed = undefined;
        }
        // JSON.parse keeps the last of two members with the same name. Without escapes, the text shows whether there is
        // a second one.
        const isSole = parsed !== undefined && !text.replace(/\\./g, '').includes('","data":"');
        expect(data).toEqual(isSole ? (parsed as { data?: unknown }).data : undefined);
      }),
      { numRuns: runs(3000) },
    );
    expect(found.some).toBeGreaterThan(runs(100));
    expect(found.none).toBeGreaterThan(runs(100));
  });

  test('reads a long string of escapes in slices, and in one pass', async () => {
    const text = `{"data":"${'\\/'.repeat(500_000)}"}`;
    const data = soleDataOf(Buffer.from(text));
    expect(data).toBeInstanceOf(Promise);
    expect((await data)?.toString()).toBe('/'.repeat(500_000));
    expect(await soleDataOf(Buffer.from(`{"data":"${'\\"'.repeat(500_000)}`))).toBeUndefined();
  });

  test.each([-2, -1, 0, 1, 2])(
    'finds the same member if a slice ends %d bytes after any position in the body',
    async (offset) => {
      const body = ' {  "d\\u0061ta"  :  "a\\"\\u0062\\\\"  } ';
      for (let at = 0; at < body.length; at += 1) {
        // The white space moves the byte at `at` to the end of the first slice.
        const spaces = ' '.repeat(sliceLength + offset - at);
        expect((await soleDataOf(Buffer.from(spaces + body)))?.toString()).toBe('a"b\\');
        expect(await soleDataOf(Buffer.from(`${spaces}${body},`))).toBeUndefined();
      }
    },
  );
});

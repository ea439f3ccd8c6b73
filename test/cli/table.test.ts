import { expect, test } from 'vitest';
import { table } from '../../src/cli/table.ts';

test('a table replaces each character that would control the terminal with a harmless one', () => {
  const odd = ['\u001B[2Jevil', 'a\r\nb', '\u009B1A', '\u2028', '\u202Eabc', '\u2066', '\u007F'];
  expect(table([['NAME'], ...odd.map((text) => [text])])).toBe(
    'NAME\n\uFFFD[2Jevil\na\uFFFD\uFFFDb\n\uFFFD1A\n\uFFFD\n\uFFFDabc\n\uFFFD\n\uFFFD\n',
  );
  expect(table([['NAME'], ['Zoë 👩‍🚀']])).toBe('NAME\nZoë 👩‍🚀\n');
});

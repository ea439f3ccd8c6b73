import { expect, test } from 'vitest';
import { stringMember } from '../../src/envelope/json/members.ts';
import { sliceLength } from '../../src/slices.ts';

const found = async (json: string): Promise<string | undefined> =>
  (await stringMember(Buffer.from(json), 'encrypted_data'))?.toString();

test.each([
  ['{"encrypted_data":"ab"}', 'ab'],
  ['{"a":{"encrypted_data":"x"},"encrypted_data" : "ab","b":["encrypted_data"]}', 'ab'],
  ['{"encrypted_data":"first","encrypted_data":"last"}', 'last'],
  [String.raw`{"\u0065ncrypted_data":"a\/b\u0063\"\\"}`, 'a/bc"\\'],
  ['{"encrypted_data":""}', ''],
  ['{"encrypted_data":1}', undefined],
  ['{"data":"ab"}', undefined],
  ['["encrypted_data","ab"]', undefined],
])('%s has the string %j', async (json, value) => {
  expect(await found(json)).toBe(value);
});

test('a string is found whole wherever slices begin and end in it', async () => {
  for (const length of [sliceLength - 60, sliceLength - 20, sliceLength, 3 * sliceLength]) {
    for (let shift = 0; shift < 24; shift += 1) {
      const value = `${'x'.repeat(length + shift)}"\\/${'y'.repeat(9)}"`;
      expect((await found(JSON.stringify({ encrypted_data: value, after: '"' }))) === value).toBe(true);
    }
  }
});

test('a long string is found, and its escapes are resolved, in turns of the event loop', async () => {
  const json = Buffer.from(JSON.stringify({ encrypted_data: '"'.repeat(2 * sliceLength) }));
  let turns = 0;
  let isOver = false;
  const count = (): void => {
    turns += 1;
    if (!isOver) setImmediate(count);
  };
  setImmediate(count);
  expect((await stringMember(json, 'encrypted_data'))?.length).toBe(2 * sliceLength);
  isOver = true;
  // The string takes four slices. They are read to find the member, to find its end, and to resolve its escapes.
  expect(turns).toBeGreaterThanOrEqual(10);
});

import { expect, test } from 'vitest';
import { readTextLines } from '../../../src/accounts/transfer/lines.ts';
import { Folder } from '../../support/folder.ts';

function lines(content: string): Promise<(string | undefined)[]> {
  return Array.fromAsync(readTextLines(new Folder({ file: content }).file('file')));
}

test.each([
  ['', []],
  ['a', ['a']],
  ['a\n', ['a']],
  ['a\r\n\r\nb', ['a', '', 'b']],
  ['\uFEFFa\nb\rc', ['a', 'b\rc']],
])('%j is split into lines', async (content, expected) => {
  expect(await lines(content)).toEqual(expected);
});

test.each(['\n', '\r\n'])('a line longer than the limit is skipped, the others are read: %j', async (newline) => {
  const most = 'x'.repeat(4_194_304);
  const content = ['a', most, `${most}x`, most.repeat(10), 'b', `${most}y`].join(newline);
  expect(await lines(content)).toEqual(['a', most, undefined, undefined, 'b', undefined]);
});

test('a file that is not UTF-8 is refused', async () => {
  const folder = new Folder({});
  folder.writeBytes('file', Buffer.from('caf\u00e9\n', 'latin1'));
  const read = async (): Promise<void> => {
    for await (const line of readTextLines(folder.file('file'))) expect(line).toBeUndefined();
  };
  await expect(read()).rejects.toThrow(TypeError);
});

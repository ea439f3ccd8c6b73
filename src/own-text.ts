/**
 * A copy of a text, to be kept longer than the head of a request that it is a part of: V8's substrings keep the whole head
 * alive, and concatenations all their parts.
 *
 * @param text each character is a byte
 */
export function ownText(text: string): string {
  return Buffer.from(text, 'latin1').toString('latin1');
}

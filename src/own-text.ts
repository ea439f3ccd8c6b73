/**
 * A copy of a string that is part of a request's head, to be kept longer than the head: V8's substrings keep the whole head alive, and its
 * concatenations keep all their parts.
 *
 * @param text each character is a byte
 */
export function ownText(text: string): string {
  return Buffer.from(text, 'latin1').toString('latin1');
}

/**
 * Copies a string that is part of a request's head, so that the copy can be kept longer than the head. Otherwise the whole head would stay
 * in memory, because V8's substrings refer to the string that they were taken from, and its concatenated strings refer to all their parts.
 *
 * @param text each character is a byte
 */
export function ownText(text: string): string {
  return Buffer.from(text, 'latin1').toString('latin1');
}

/**
 * Copies a string that is part of a request's head, so that it can be kept longer than the head. The copy is needed because V8's substrings
 * keep the whole head alive, and its concatenations keep all their parts.
 *
 * @param text each character is a byte
 */
export function ownText(text: string): string {
  return Buffer.from(text, 'latin1').toString('latin1');
}

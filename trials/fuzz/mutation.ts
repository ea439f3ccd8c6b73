import * as fc from 'fast-check';

/** A change to some bytes of a string. */
interface Mutation {
  readonly kind: 'cut' | 'remove' | 'flip' | 'insert' | 'repeat' | 'replace';
  readonly at: number;
  readonly length: number;
  readonly bytes: string;
}

/** Bytes that are significant to parsers. */
const telling = [
  ['\r', '\n', '\r\n', '\n\n', '\r\r', '\r\n\r\n', '\0', '\t', ' ', '\v', '\x7f', '\x80', '\xff', '\xef\xbb\xbf'],
  ['"', '\\', '\\u0000', '\\ud800', '{', '}', '[', ']', ':', ',', ';', '/', '%', '=', '+', '-', '0', 'f', 'data'],
  ['\xc0\x80', '\xed\xa0\x80', '\xf4\x90\x80\x80', '\xc3', '\xc4\xb0', '\xa0', '\x85'],
].flat();

const mutation: fc.Arbitrary<Mutation> = fc.record({
  kind: fc.constantFrom('cut', 'remove', 'flip', 'insert', 'repeat', 'replace'),
  at: fc.nat(65_535),
  length: fc.oneof({ weight: 4, arbitrary: fc.integer({ min: 1, max: 4 }) }, fc.integer({ min: 1, max: 64 })),
  bytes: fc.constantFrom(...telling),
});

/** A few mutations, most often none. */
export const mutations: fc.Arbitrary<readonly Mutation[]> = fc.oneof(
  { weight: 3, arbitrary: fc.constant([]) },
  { weight: 2, arbitrary: fc.array(mutation, { minLength: 1, maxLength: 3 }) },
);

/** The string with these mutations applied. */
export function mutated(text: string, changes: readonly Mutation[]): string {
  return changes.reduce(mutate, text);
}

function mutate(text: string, { kind, at: position, length, bytes }: Mutation): string {
  const at = position % (text.length + 1);
  const [before, part, after] = [text.slice(0, at), text.slice(at, at + length), text.slice(at + length)];
  switch (kind) {
    case 'cut':
      return before;
    case 'remove':
      return before + after;
    case 'flip':
      return before + String.fromCharCode((text.charCodeAt(at) || 0) ^ (1 << (length % 8))) + text.slice(at + 1);
    case 'insert':
      return before + bytes + part + after;
    case 'repeat':
      return before + part + part + after;
    default:
      return before + bytes + text.slice(at + 1);
  }
}

/** Splits a string at these positions. */
export function pieces(text: string, cuts: readonly number[]): string[] {
  const places = [0, ...cuts.map((cut) => cut % (text.length + 1)).toSorted((a, b) => a - b), text.length];
  return places.slice(1).flatMap((end, index) => {
    const piece = text.slice(places[index], end);
    return piece === '' ? [] : [piece];
  });
}

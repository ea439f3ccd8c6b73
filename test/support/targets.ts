import fc from 'fast-check';

/** Mostly `usual`, sometimes one of the others. */
function mostly<T>(weight: number, usual: T, ...others: readonly T[]): fc.Arbitrary<T> {
  return fc.oneof({ weight, arbitrary: fc.constant(usual) }, { weight: 1, arbitrary: fc.constantFrom(...others) });
}

const hex = (char: string): string => char.charCodeAt(0).toString(16).padStart(2, '0');

/** Ways to write an ASCII character so that only some programs decode it. */
const encodings: readonly ((char: string) => string)[] = [
  (char) => `%${hex(char)}`,
  (char) => `%${hex(char).toUpperCase()}`,
  (char) => `%25${hex(char)}`,
  (char) => `%2525${hex(char)}`,
  (char) => `%u00${hex(char)}`,
  // Overlong forms in UTF-8, of two and of three bytes.
  (char) => `%${(0xc0 | (char.charCodeAt(0) >> 6)).toString(16)}%${(0x80 | (char.charCodeAt(0) & 0x3f)).toString(16)}`,
  (char) =>
    `%e0%${(0x80 | (char.charCodeAt(0) >> 6)).toString(16)}%${(0x80 | (char.charCodeAt(0) & 0x3f)).toString(16)}`,
  // The full-width form, which some programs fold into ASCII.
  (char) => encodeURIComponent(String.fromCharCode(char.charCodeAt(0) + 0xfee0)),
];

/** Letters that some programs treat as `k`, `i` or `s` if they ignore letter case. */
const foldedLetters: Readonly<Record<string, string>> = { k: '%E2%84%AA', i: '%C4%B0', s: '%C5%BF' };

/** The segment with the `at`th of its letters `k`, `i` and `s` replaced by a letter that folds to it. */
function unfolded(segment: string, at: number): string {
  const places = [...segment.matchAll(/[kis]/gi)].map(({ index }) => index);
  const place = places[at % places.length];
  if (place === undefined) return `${segment}%C4%B1`;
  return segment.slice(0, place) + foldedLetters[segment.charAt(place).toLowerCase()] + segment.slice(place + 1);
}

/** The segment with one of its characters encoded. */
function encoded(segment: string, at: number, encode: (char: string) => string): string {
  if (segment === '') return '';
  const place = at % segment.length;
  return segment.slice(0, place) + encode(segment.charAt(place)) + segment.slice(place + 1);
}

type Letters = 'of ASCII' | 'beyond ASCII';

/** A segment unchanged, in another letter case, or with one character encoded or replaced. */
function spelt(segment: string, letters: Letters): fc.Arbitrary<string> {
  const other = [
    fc.constantFrom(segment.toUpperCase(), segment.slice(0, 1).toUpperCase() + segment.slice(1)),
    fc.tuple(fc.nat(), fc.constantFrom(...encodings)).map(([at, encode]) => encoded(segment, at, encode)),
  ];
  if (letters === 'beyond ASCII') other.push(fc.nat().map((at) => unfolded(segment, at)));
  return fc.oneof({ weight: 24, arbitrary: fc.constant(segment) }, { weight: 1, arbitrary: fc.oneof(...other) });
}

const dots = ['.', '..', '%2e', '%2E%2e', '.%2e', '%252e%252e', '%c0%ae%c0%ae', '...', '..;', '..%00', '%2e%2e%2f'];
/** Segments that routes do not have: dots, an empty one, and harmless and other characters. */
const odd = [
  ...dots,
  ...dots,
  '',
  '~a',
  'a:b@c',
  "!$&'()*+,=",
  'a%20b',
  '%e2%82%ac',
  '%3b%23%3f',
  'caf\xc3\xa9',
  '\xe9',
];
const separators = ['//', '%2f', '%2F', '%252f', '\\', '%5c', '%255C', ';/', ';v=1/', '/;/', '%3b/', '/./', '/%2e/'];
const deepSeparators = ['/..;/', '%c0%af', '%e0%80%af', '%ef%bc%8f', '%00/', '\0/', '#/', '?/', '%23/', '%3f/', ' /'];
const ends = [
  '/',
  '/',
  '//',
  '/.',
  '/..',
  '.',
  '%20',
  '%00',
  '%0a',
  '%7f',
  ';',
  ';.js',
  '.json',
  '%2f',
  '#',
  '%',
  '%zz',
];
const queries = [
  '?',
  '?x=1',
  '?x=1',
  '??',
  '?/../../',
  '?a=%2e%2e%2f',
  '?a=b?c',
  '?a;b',
  '?a#b',
  '?\\',
  '?\xe9',
  '?%00',
];
const fronts = [
  'http://localhost',
  'HTTP://evil.example',
  '//evil.example',
  '/\\evil.example',
  'http:',
  'evil.example:80',
];
const moreFronts = ['user@evil.example', '*', '?', '.', '/.', '/..;', '/%2e%2e', '/%2f'];

/**
 * Request targets that equal or almost equal these paths, as they are and in spellings that different programs are known to read
 * differently. Each character is a byte.
 *
 * @param letters with `beyond ASCII`, some targets have letters that Unicode folds into letters of the paths
 */
export function targetsAround(paths: readonly string[], letters: Letters = 'of ASCII'): fc.Arbitrary<string> {
  const path = fc.constantFrom(...paths).map((text) => text.split('/').slice(1));
  const names = paths.flatMap((text) => text.split('/').slice(1));
  // A path or its start, something in between, and the end of another path.
  const crossed = fc
    .tuple(path, fc.nat(4), fc.array(fc.constantFrom(...odd, ...names), { maxLength: 3 }), path, fc.nat(4))
    .map(([from, end, between, to, begin]) => from.slice(0, end).concat(between, to.slice(begin)));
  const segments = fc.oneof({ weight: 2, arbitrary: path }, { weight: 1, arbitrary: crossed });
  const spelled = segments.chain((list) =>
    fc.tuple(
      ...list.map((segment) => fc.tuple(mostly(24, '/', ...separators, ...deepSeparators), spelt(segment, letters))),
    ),
  );
  return fc
    .tuple(mostly(12, '', ...fronts, ...moreFronts), spelled, mostly(4, '', ...ends), mostly(3, '', ...queries))
    .map(([front, list, end, query]) => front + (list.flat().join('') || '/') + end + query);
}

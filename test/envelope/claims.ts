/** The parts that a merchant's code can get wrong. `form` is how the bytes are written and wrapped. */
export type Part = 'key' | 'iv' | 'mode' | 'padding' | 'plaintext' | 'form';

/** Sentences in hints, by part. A sentence that matches states that the part is wrong. */
const claims: readonly (readonly [Part, RegExp])[] = [
  ['key', /\bthe key (?:is|was|and the IV were)\b|before the key:|\bAES-(?:128|192) was used/],
  [
    'iv',
    /\bthe IV (?:is|was|were|stands|had)\b|before the IV:|the IV were (?:used|swapped)|an IV (?:and a MAC|stands)|has an IV/,
  ],
  ['mode', /\bthe mode is [A-Z]/],
  ['padding', /\bthe padding is\b|\bpadded twice\b|\bother padding\b/],
  ['plaintext', /\bthe plaintext (?:is(?! padded)|begins)\b|before the JSON/],
  ['form', /\bthe string is\b|\blooks like (?:hex|base64|url-safe)\b|neither hex nor base64|not encrypted/],
];

/** The parts that a hint says are wrong. */
export function namedIn(hint: string): readonly Part[] {
  // What a hint quotes is not a statement of its own.
  const said = hint.replace(/"(?:[^"\\]|\\.)*"/g, '""');
  return claims.filter(([, claim]) => claim.test(said)).map(([part]) => part);
}

/** The parts that a hint wrongly says are wrong. */
export function falseIn(hint: string, wrong: readonly Part[]): readonly Part[] {
  return namedIn(hint).filter((part) => !wrong.includes(part));
}

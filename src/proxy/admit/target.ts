/**
 * Guards against ambiguous request targets. A path decides which keys suffice and whether an envelope is required. If the sidecar and the
 * upstream read a path differently, that decision could be bypassed. An ambiguous path is refused, never normalised, because rewriting a
 * path only adds another way to read it.
 */

/** Paths with only one spelling: segments of RFC 3986 `pchar` except `;`, none of them empty and none of them `.` or `..`. */
const plainPath = /^\/(?:(?!\.\.?(?:\/|$))[\w.~!$&'()*+,=:@%-]+(?:\/(?!\.\.?(?:\/|$))[\w.~!$&'()*+,=:@%-]+)*\/?)?$/;

/** Printable ASCII except `#`, which ends the target for some readers, and `\`, which some readers take for `/`. */
const plainQuery = /^[!"$-[\]-~]*$/;

/**
 * Ambiguous percent-encodings. They stand for a character that a path may contain unencoded, a separator (`/` or `\`), a control character,
 * or `%`, which some readers decode twice.
 */
export const ambiguousOctet = /%(?:[01][0-9a-f]|2[5def]|3[0-9]|4[1-9a-f]|5[0-9acf]|6[1-9a-f]|7[0-9aef])/i;

/** The path of an origin-form target (RFC 9112 §3.2.1), without its query; undefined if the target is ambiguous. */
export function readPath(target: string): string | undefined {
  const mark = target.indexOf('?');
  const path = mark === -1 ? target : target.slice(0, mark);
  if (mark !== -1 && !plainQuery.test(target.slice(mark + 1))) return undefined;
  if (!plainPath.test(path)) return undefined;
  return path.includes('%') && !isPlainlyEncoded(path) ? undefined : path;
}

function isPlainlyEncoded(path: string): boolean {
  return !ambiguousOctet.test(path) && isUtf8(path);
}

/** Whether the percent-encodings in a string are complete, and are UTF-8 without overlong forms. The string must not be empty. */
export function isUtf8(text: string): boolean {
  try {
    // The result must be used, because bundlers would otherwise regard the call as pure and remove it.
    return decodeURIComponent(text) !== '';
  } catch {
    return false;
  }
}

/** The two endpoints with which merchants test their code. */
export type CipherTest = 'encrypt' | 'decrypt';

/** The paths of the two test endpoints. Both have the same length. */
export const cipherTestPaths = {
  encrypt: '/api/s2s/aes-encrypt',
  decrypt: '/api/s2s/aes-decrypt',
} as const satisfies Readonly<Record<CipherTest, string>>;

const { length } = cipherTestPaths.encrypt;

/** The test endpoint at a path, ignoring case and a trailing slash, as routes do. */
export function cipherTestAt(path: string): CipherTest | undefined {
  // Most paths have a different length, so they need not be copied.
  if (path.length !== length && !(path.length === length + 1 && path.endsWith('/'))) return undefined;
  switch (path.slice(0, length).toLowerCase()) {
    case cipherTestPaths.encrypt:
      return 'encrypt';
    case cipherTestPaths.decrypt:
      return 'decrypt';
    default:
      return undefined;
  }
}

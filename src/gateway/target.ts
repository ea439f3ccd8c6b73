/**
 * The request target's guard. The routes decide whether a key suffices and whether an envelope is asked for; a path that
 * the sidecar and the upstream read differently would slip past that decision. What could be read in two ways is refused,
 * never normalised: a rewritten path is one more reading.
 */

/** Whether the path is its own only spelling. Segments of RFC 3986 `pchar` without `;`, no empty and no dot segments. */
const plainPath = /^\/(?:(?!\.\.?(?:\/|$))[\w.~!$&'()*+,=:@%-]+(?:\/(?!\.\.?(?:\/|$))[\w.~!$&'()*+,=:@%-]+)*\/?)?$/;

/** Printable ASCII without `#`, which ends the target for some readers, and `\`, which others take for `/`. */
const plainQuery = /^[!"$-[\]-~]*$/;

/**
 * Percent-encodings that decode to what a path may carry in the clear, to what separates (`/`, `\`), to what is decoded
 * twice by some (`%`), or to a control character.
 */
const ambiguousOctet = /%(?:[01][0-9a-f]|2[5def]|3[0-9]|4[1-9a-f]|5[0-9acf]|6[1-9a-f]|7[0-9aef])/i;

/**
 * Splits an origin-form target (RFC 9112 §3.2.1) off its query.
 *
 * @returns the path, or undefined where the target is ambiguous
 */
export function pathOf(target: string): string | undefined {
  const mark = target.indexOf('?');
  const path = mark === -1 ? target : target.slice(0, mark);
  if (mark !== -1 && !plainQuery.test(target.slice(mark + 1))) return undefined;
  if (!plainPath.test(path)) return undefined;
  return path.includes('%') && !isPlainlyEncoded(path) ? undefined : path;
}

function isPlainlyEncoded(path: string): boolean {
  if (ambiguousOctet.test(path)) return false;
  try {
    // Also refuses incomplete triplets and what is not UTF-8, overlong forms among it.
    decodeURIComponent(path);
    return true;
  } catch {
    return false;
  }
}

const quoted = /^(?:"([^"\\]*)"|'([^']*)')$/;
const plain = /^[\p{L}0-9/_](?:[^:#\p{C}\u2028\u2029]|:(?=[^\s:#\p{C}]))*$/u;
const keyword = /^(?:null|true|false)$/i;
/** Without a sign or an exponent, and few enough digits to be exact. */
const decimal = /^(?:0|[1-9][0-9]{0,14})(?:\.[0-9]{1,6})?$/;

/** Thrown for input that is not of the simple form. */
export class NotSimple extends Error {}

/** The value of a text on one line, as the core schema of YAML 1.2 has it. @throws NotSimple */
export function scalarOf(written: string): unknown {
  const [, double, single] = quoted.exec(written) ?? [];
  if (double !== undefined) return double;
  if (single !== undefined) return single;
  if (written === 'true') return true;
  if (written === 'false') return false;
  if (decimal.test(written)) return Number(written);
  if (!isPlainScalar(written)) throw new NotSimple();
  return written;
}

/** Whether a text may be written without quotes, and is then read as itself. */
export function isPlainScalar(text: string): boolean {
  return plain.test(text) && !text.endsWith(' ') && !keyword.test(text) && Number.isNaN(Number(text));
}

/** A text without the spaces at its end; other white space belongs to it. */
export function withoutSpaces(text: string): string {
  let end = text.length;
  while (text[end - 1] === ' ') end -= 1;
  return text.slice(0, end);
}

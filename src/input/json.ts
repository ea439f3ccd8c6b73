/** Thrown for JSON in which an object has two members of the same name. */
export class DuplicateMember extends Error {}

/** The members of an object in JSON, with values of any type; none if the text is anything else. */
export function readMembers(text: string): Readonly<Record<string, unknown>> {
  try {
    return Object(JSON.parse(text)) as Readonly<Record<string, unknown>>;
  } catch {
    return {};
  }
}

const strings = /"(?:[^"\\]|\\.)*"/g;

/**
 * Like JSON.parse, but refuses two members of the same name, of which JSON.parse takes the last. Names are the same if their values are,
 * however they are escaped.
 *
 * @throws SyntaxError if the text is not JSON
 * @throws DuplicateMember
 */
export function parseJson(text: string): unknown {
  const value: unknown = JSON.parse(text);
  // Each member has one colon outside strings.
  const written = text.replaceAll(strings, '').split(':').length - 1;
  if (membersIn(value) !== written) throw new DuplicateMember('duplicate member');
  return value;
}

/** The number of members of all objects in a JSON value. Not recursive: a value may be nested deeply. */
function membersIn(value: unknown): number {
  let members = 0;
  const values = [value];
  for (const each of values) {
    if (typeof each !== 'object' || each === null) continue;
    const inner: unknown[] = Object.values(each);
    if (!Array.isArray(each)) members += inner.length;
    for (const one of inner) values.push(one);
  }
  return members;
}

/** Thrown for JSON in which an object has two members with the same name. */
export class DuplicateMember extends Error {}

/** Reads the members of a JSON object, whose values may have any type. Returns no members if the text is anything else. */
export function readMembers(text: string): Readonly<Record<string, unknown>> {
  try {
    return Object(JSON.parse(text)) as Readonly<Record<string, unknown>>;
  } catch {
    return {};
  }
}

const strings = /"(?:[^"\\]|\\.)*"/g;

/**
 * Like JSON.parse, but refuses an object with two members of the same name. JSON.parse would take the last one. Names are compared after
 * their escapes have been decoded.
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

/** The number of members of all objects in a JSON value. The function is not recursive, because a value may be deeply nested. */
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

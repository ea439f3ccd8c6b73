/** The position of a member: names of members and indexes of list items, from the root of the file. */
export type MemberPath = readonly (string | number)[];

/** Formats a path as in `routes[1].methods[0]`, or as `.` for the file as a whole. */
export function formatPath(path: MemberPath): string {
  let text = '';
  for (const step of path) {
    if (typeof step === 'number') text += `[${step}]`;
    else text += `${text === '' ? '' : '.'}${isPrintable(step) ? step : '?'}`;
  }
  return text || '.';
}

/** The message for a member that is not in the schema. */
export function unknownMember(name: string, known: readonly string[]): string {
  const unknown = isPrintable(name) ? `unknown member "${name}"` : 'unknown member';
  const nearest = nearestName(name, known);
  return nearest === undefined ? `${unknown}: expected ${known.join(', ')}` : `${unknown}: did you mean "${nearest}"?`;
}

/**
 * Whether a name may be shown. If the `name:` before a secret is missing, the secret is parsed as a name, so only text that looks like a
 * name is shown.
 */
function isPrintable(name: string): boolean {
  return /^[A-Za-z_-]{1,20}[0-9]{0,3}$/.test(name);
}

/** The known name that was probably meant. At most two letters, and at most half of the letters, may differ. */
function nearestName(name: string, known: readonly string[]): string | undefined {
  let nearest: string | undefined;
  let least = Math.min(2, Math.floor(name.length / 2)) + 1;
  for (const candidate of known) {
    if (Math.abs(name.length - candidate.length) >= least) continue;
    const distance = editDistance(name.toLowerCase(), candidate.toLowerCase());
    if (distance < least) [nearest, least] = [candidate, distance];
  }
  return nearest;
}

/** The Levenshtein distance: how many letters must be inserted, deleted or replaced. */
function editDistance(a: string, b: string): number {
  let row = Array.from({ length: b.length + 1 }, (_, j) => j);
  for (let i = 0; i < a.length; i++) {
    const next = [i + 1];
    for (let j = 0; j < b.length; j++) {
      const [left = 0, above = 0, diagonal = 0] = [next[j], row[j + 1], row[j]];
      next.push(Math.min(left + 1, above + 1, diagonal + (a[i] === b[j] ? 0 : 1)));
    }
    row = next;
  }
  return row[b.length] ?? 0;
}

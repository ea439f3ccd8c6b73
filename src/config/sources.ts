import { formatPath, type MemberPath } from '../input/member-path.ts';

/** The source of each member, such as `operators.tokens[0].token`: `file PATH`, `variable NAME`, or `inline`. */
export type Sources = Readonly<Record<string, string>>;

/** Members whose text is the path of a PEM file, unless the text is PEM itself. */
const pemMembers: ReadonlySet<string | number | undefined> = new Set(['cert', 'key', 'ca', 'clientCa']);

/** Finds the source of each value in a valid file. The result does not contain the values. */
export function findSources(value: unknown): Sources {
  const sources: Record<string, string> = {};
  collect(value, [], sources);
  return sources;
}

function collect(value: unknown, path: MemberPath, into: Record<string, string>): void {
  const source = describeSource(value, path.at(-1));
  if (source !== undefined) {
    into[formatPath(path)] = source;
    return;
  }
  const isList = Array.isArray(value);
  for (const [name, member] of Object.entries(value ?? {})) {
    collect(member, [...path, isList ? Number(name) : name], into);
  }
}

/** The source of a value; undefined if the value has members. */
function describeSource(value: unknown, member: string | number | undefined): string | undefined {
  if (typeof value === 'object' && value !== null) {
    const { file } = value as { readonly file?: unknown };
    return typeof file === 'string' && Object.keys(value).length === 1 && member !== 'accounts'
      ? `file ${file}`
      : undefined;
  }
  if (typeof value !== 'string') return 'inline';
  const variable = /^\$\{([^{}]*)\}$/.exec(value)?.[1];
  if (variable !== undefined) return `variable ${variable}`;
  return pemMembers.has(member) && !value.startsWith('-----BEGIN') ? `file ${value}` : 'inline';
}

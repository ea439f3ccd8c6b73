import { z } from 'zod';
import { unknownMember, type MemberPath } from './member-path.ts';

/** A value of which any part may be missing. */
export type Partly<T> = T extends readonly (infer Item)[]
  ? readonly (Partly<Item> | undefined)[]
  : T extends object
    ? { readonly [Name in keyof T]?: Partly<T[Name]> | undefined }
    : T;

/** Input to be validated: a file, or the members of a request. */
export interface Input {
  /** Plain values as parsed; undefined if the parser has reported that there are none. */
  readonly value: unknown;
  /** Records a mistake in the member at `path`, or in its name. */
  report(path: MemberPath, message: string, part?: 'name' | 'value'): void;
}

/** A mistake in the member at `path`, or in its name. */
interface Mistake {
  readonly path: MemberPath;
  readonly message: string;
  readonly part?: 'name';
}

/**
 * Validates input against a schema and reports every mistake. Returns the valid parts. Each missing part has been reported, so further
 * checks can skip it.
 *
 * @param once whether the schema is used for this input only, and the input has no long list. Generating code for the schema, as zod does
 *   by default, would then take more time than it saves
 */
export function validate<S extends z.ZodType>(input: Input, schema: S, once = false): Partly<z.output<S>> | undefined {
  if (input.value === undefined) return undefined;
  const result = schema.safeParse(input.value, { error: messageOf, jitless: once });
  if (result.success) return result.data as Partly<z.output<S>>;

  let seen: unknown;
  // Refine the schema only after a mistake, because refining creates a new schema, which takes longer than validating a small input.
  schema.refine((value) => ((seen = value), true), { when: () => true }).safeParse(input.value);
  for (const issue of result.error.issues) {
    for (const { path, message, part } of mistakesIn(issue, [])) input.report(path, message, part);
    if (issue.code !== 'unrecognized_keys') seen = without(seen, issue.path);
  }
  return seen as Partly<z.output<S>>;
}

/**
 * Validates a value that is useful only as a whole. A mistake is described only when it is read, because anyone may send a value with many
 * mistakes.
 */
export function validateWhole<S extends z.ZodType>(
  sent: unknown,
  schema: S,
): { readonly value: z.output<S> } | { readonly mistakes: Iterable<Mistake> } {
  const result = schema.safeParse(sent, { error: messageOf });
  if (result.success) return { value: result.data };
  return { mistakes: listMistakes(result.error.issues, []) };
}

function* listMistakes(issues: readonly z.core.$ZodIssue[], parent: MemberPath): Generator<Mistake> {
  for (const issue of issues) yield* mistakesIn(issue, parent);
}

function* mistakesIn(issue: z.core.$ZodIssue, parent: MemberPath): Generator<Mistake> {
  const path = [...parent, ...(issue.path as MemberPath)];
  if (issue.code === 'unrecognized_keys') {
    // `messageOf` has put the known names into the message.
    const known = issue.message.split(',');
    for (const name of issue.keys) yield { path: [...path, name], message: unknownMember(name, known), part: 'name' };
    return;
  }
  const ways = issue.code === 'invalid_union' ? issue.errors.filter((errors) => !errors.some(isWrongType)) : [];
  // If an alternative has the right form and fails only when the value is read, that alternative was meant.
  const meant = ways.find((errors) => errors.every(({ code }) => code === 'custom')) ?? (ways.length === 1 && ways[0]);
  if (!meant) yield { path, message: issue.message };
  else yield* listMistakes(meant, path);
}

/** Whether the value has a different type from the one that this alternative expects, such as text instead of members. */
function isWrongType({ code, path }: z.core.$ZodIssue): boolean {
  return path.length === 0 && ['invalid_type', 'invalid_value', 'invalid_union'].includes(code);
}

/** Removes the part at `path` from a value that the schema has built. */
function without(value: unknown, path: readonly PropertyKey[]): unknown {
  const last = path.at(-1);
  if (last === undefined) return undefined;
  let parent = value;
  for (const step of path.slice(0, -1)) parent = (parent as Record<PropertyKey, unknown> | undefined)?.[step];
  if (typeof parent === 'object' && parent !== null) (parent as Record<PropertyKey, unknown>)[last] = undefined;
  return value;
}

const typeNames: Readonly<Record<string, string>> = {
  object: 'members ("name: value")',
  array: 'a list',
  boolean: 'true or false',
  int: 'a whole number',
  number: 'a whole number',
  string: 'text',
};

const messageOf: z.core.$ZodErrorMap = (issue) => {
  // The message contains only the known names, because comparing an unknown name with each of them takes a long time.
  if (issue.code === 'unrecognized_keys')
    return issue.inst instanceof z.ZodObject ? Object.keys(issue.inst.shape).join(',') : '';
  if (issue.code === 'invalid_type') {
    const expected = `expected ${typeNames[issue.expected] ?? issue.expected}`;
    return issue.input === undefined ? `missing: ${expected}` : expected;
  }
  if (issue.code === 'too_small') {
    return issue.origin === 'array' ? 'expected at least one item' : `expected ${issue.minimum} or more`;
  }
  return issue.code === 'too_big' ? `expected ${issue.maximum} or less` : undefined;
};

/** What `z.toJSONSchema` says of one member, as far as the tables need it. */
export interface JsonSchema {
  readonly type?: string;
  readonly title?: string;
  readonly description?: string;
  readonly default?: unknown;
  readonly properties?: Readonly<Record<string, JsonSchema>>;
  readonly required?: readonly string[];
  readonly items?: JsonSchema;
  readonly anyOf?: readonly JsonSchema[];
}

/** The tables of a schema in Markdown: one for each object, in the order of the file, under headings with its path. */
export function tables(schema: JsonSchema, path = '', level = 3): string {
  const members = Object.entries(schema.properties ?? {});
  const rows = members.map(([name, member]) => {
    const presence = schema.required?.includes(name) === true ? 'required' : defaultOf(member);
    return `| \`${name}\` | ${typeOf(member)} | ${presence} | ${(member.description ?? '').replaceAll('|', '\\|')} |`;
  });
  const table = ['| Member | Type | Default | Meaning |', '| --- | --- | --- | --- |', ...rows].join('\n');
  const sections = bySchema(members).map(([names, object, suffix]) => {
    const paths = names.map((name) => `${path}${name}`);
    const heading = paths.map((each) => `\`${each}\``).join(', ');
    // Objects that look alike share a table, under the name of the first.
    return `${'#'.repeat(level)} ${heading}\n\n${tables(object, `${paths[0]}${suffix}.`, level + 1)}`;
  });
  return [table, ...sections].join('\n\n');
}

/** The members that are objects, or lists of them; those with the same members together. */
function bySchema(members: readonly [string, JsonSchema][]): [names: string[], object: JsonSchema, suffix: string][] {
  const groups = new Map<string, [string[], JsonSchema, string]>();
  for (const [name, member] of members) {
    const isList = member.items !== undefined;
    const object = objectIn(member.items ?? member);
    if (object === undefined) continue;
    const group = groups.get(JSON.stringify(object.properties));
    if (group === undefined) groups.set(JSON.stringify(object.properties), [[name], object, isList ? '[]' : '']);
    else group[0].push(name);
  }
  return [...groups.values()];
}

function objectIn(schema: JsonSchema): JsonSchema | undefined {
  return schema.properties === undefined ? schema.anyOf?.find((way) => way.properties !== undefined) : schema;
}

function typeOf({ type, title, items, anyOf, properties }: JsonSchema): string {
  if (items !== undefined) return `list: ${typeOf(items)}`;
  if (title !== undefined) return title;
  if (properties !== undefined) return 'members';
  if (anyOf !== undefined) return anyOf.map(typeOf).join(' or ');
  return { boolean: '`true`, `false`', integer: 'whole number' }[type ?? ''] ?? type ?? '';
}

function defaultOf(member: JsonSchema): string {
  const { default: value } = member;
  if (value === undefined || objectIn(member.items ?? member) !== undefined) return '';
  return `\`${Array.isArray(value) ? `[${value.join(', ')}]` : JSON.stringify(value).replaceAll('"', '')}\``;
}

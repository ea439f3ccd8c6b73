/** The parts of `z.toJSONSchema` for one member that the page uses. */
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

/**
 * The members of a schema in Markdown: a list for each object, in the order of the file, under a heading with its path.
 *
 * @param listed the paths of the objects that already have a list, by their members
 */
export function memberLists(schema: JsonSchema, path = '', level = 3, listed = new Map<string, string>()): string {
  const members = Object.entries(schema.properties ?? {});
  const list = members.map(([name, member]) => {
    const presence = schema.required?.includes(name) === true ? 'required' : defaultOf(member);
    const facts = [typeOf(member), presence].filter((fact) => fact !== '').join('; ');
    return `- \`${name}\`${facts === '' ? '' : ` (${facts})`}: ${member.description ?? ''}`;
  });
  const sections = bySchema(members).map(([names, object, suffix]) => {
    const paths = names.map((name) => `${path}${name}`);
    const heading = paths.map((each) => `\`${each}\``).join(', ');
    const key = JSON.stringify(object.properties);
    const same = listed.get(key);
    listed.set(key, same ?? `${paths[0]}`);
    // Objects with the same members share one list, under the name of the first object.
    const members =
      same === undefined ? memberLists(object, `${paths[0]}${suffix}.`, level + 1, listed) : `As \`${same}\`.`;
    return `${'#'.repeat(level)} ${heading}\n\n${members}`;
  });
  return [list.join('\n'), ...sections].join('\n\n');
}

/** The members that are objects or lists of objects, grouped by the members of those objects. */
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
  if (items !== undefined) return typeOf(items) === '' ? 'list' : `list: ${typeOf(items)}`;
  if (title !== undefined) return title;
  if (properties !== undefined) return '';
  if (anyOf !== undefined) return anyOf.map((way) => typeOf(way) || 'members').join(' or ');
  return { boolean: '`true`, `false`', integer: 'whole number' }[type ?? ''] ?? type ?? '';
}

function defaultOf(member: JsonSchema): string {
  const { default: value } = member;
  if (value === undefined || objectIn(member.items ?? member) !== undefined) return '';
  return `default \`${Array.isArray(value) ? `[${value.join(', ')}]` : JSON.stringify(value).replaceAll('"', '')}\``;
}

/** Hop-by-hop headers (RFC 9110 §7.6.1) that are dropped in both directions. */
const hopByHop = 'keep-alive proxy-connection proxy-authenticate proxy-authorization te trailer';

/** Headers that describe the bytes of a plain body. They do not apply to an envelope, whose bytes are different. */
const byteHeaders = 'etag digest content-digest repr-digest content-md5 accept-ranges';

/**
 * What happens to a client's header: the sidecar reads it (`read`), drops it (`dropped`), forwards it only with plain traffic (`plain`), or
 * forwards it only from a trusted proxy (`client`).
 */
type RequestRole = 'read' | 'dropped' | 'plain' | 'client';

const requestRoles = indexRoles<RequestRole>({
  // Headers that the sidecar itself reads. Some of them are forwarded in a different form.
  read:
    'host authorization connection content-length transfer-encoding expect upgrade x-request-id content-encoding origin ' +
    'access-control-request-method traceparent envelope-credentials',
  // Headers that only the sidecar sends to the upstream, hop-by-hop headers, and headers with which some frameworks replace the method or
  // path that the sidecar has checked. Some programs take the value of `Proxy` for the proxy to use in their own requests (httpoxy).
  dropped:
    `x-account-id x-api-key-id x-api-key-kind x-environment http2-settings ${hopByHop} ` +
    'proxy x-http-method-override x-http-method x-method-override x-original-url x-rewrite-url',
  plain: `content-type accept-encoding range ${byteHeaders}`,
  // Upstreams take the client's address from these headers, and from all headers that begin with `x-forwarded-`.
  client:
    'x-forwarded-for x-forwarded-proto x-forwarded-host x-forwarded forwarded forwarded-for x-original-forwarded-for ' +
    'x-real-ip true-client-ip cf-connecting-ip cf-connecting-ipv6 client-ip x-client-ip x-cluster-client-ip ' +
    'fastly-client-ip',
});

/** The names of headers that have a role, by length. */
const namesByLength = Map.groupBy([...requestRoles.keys(), 'envelope'], ({ length }) => length);

/** How names begin that have a role whatever follows. */
const prefixes = ['if-', 'x-forwarded-', 'envelope-'];

const unusual = /[^a-z0-9-]/;

/** What happens to an upstream's header: it is dropped (`dropped`), or forwarded only with a plain body (`body`). */
type ResponseRole = 'dropped' | 'body';

const responseRoles = indexRoles<ResponseRole>({
  dropped: `connection transfer-encoding upgrade x-request-id ${hopByHop}`,
  // Includes the headers that control caching of the body.
  body:
    `content-length content-type content-encoding content-range ${byteHeaders} ` +
    'cache-control expires last-modified age pragma surrogate-control cdn-cache-control',
});

/** A header's name in lower case, and its role. A header without a role is forwarded. */
interface NamedRole<Role extends string> {
  readonly lower: string;
  readonly role: Role | undefined;
}

function requestRole(lower: string): RequestRole | undefined {
  const role = lower.startsWith('if-') ? 'plain' : requestRoles.get(lower);
  if (role !== undefined) return role;
  if (isOwn(lower) || isDisguised(lower)) return 'dropped';
  return lower.startsWith('x-forwarded-') ? 'client' : undefined;
}

function responseRole(lower: string): ResponseRole | undefined {
  return isOwn(lower) ? 'dropped' : responseRoles.get(lower);
}

/** Common headers that have no role. */
const forwarded = 'accept accept-language user-agent date server vary'.split(' ');

/** The role of a client's header. */
export const roleInRequest = roleReader([...requestRoles.keys(), ...forwarded], requestRole);

/** The role of an upstream's header. */
export const roleInResponse = roleReader([...responseRoles.keys(), ...forwarded], responseRole);

/**
 * Returns a function that finds the role of a header.
 *
 * @param usualNames common names in lower case. A header with one of these names, spelt in lower case or `Like-This`, is looked up in a
 *   map, so that few names have to be examined.
 */
function roleReader<Role extends string>(
  usualNames: readonly string[],
  roleOf: (lower: string) => Role | undefined,
): (name: string) => NamedRole<Role> {
  const usual = new Map<string, NamedRole<Role>>();
  for (const lower of usualNames) {
    const role = { lower, role: roleOf(lower) };
    usual.set(lower, role).set(capitalised(lower), role);
  }
  return (name) => {
    const known = usual.get(name);
    if (known !== undefined) return known;
    const lower = name.toLowerCase();
    return { lower, role: roleOf(lower) };
  };
}

/** Spells a header's name `Like-This`. */
export function capitalised(lower: string): string {
  return lower.replaceAll(/(?<=^|-)[a-z]/g, (initial) => initial.toUpperCase());
}

/** `Connection` values that nominate no header. */
const nominatesNothing = /^(?:keep-alive|close)$/i;

/** The names that `Connection` nominates. Headers with these names are hop-by-hop (RFC 9110 §7.6.1). */
export function nominatedBy(connection: string): ReadonlySet<string> {
  if (nominatesNothing.test(connection)) return noNames;
  const names = new Set<string>();
  for (const name of connection.toLowerCase().split(',')) names.add(name.trim());
  return names;
}

const noNames: ReadonlySet<string> = new Set();

/** Returns a flat list of headers, except those with these names. @param names in lower case */
export function without(names: ReadonlySet<string>, headers: string[]): string[] {
  if (names.size === 0 || headers.length === 0) return headers;
  const others: string[] = [];
  for (let i = 0; i + 1 < headers.length; i += 2) {
    const name = headers[i] as string;
    if (!names.has(name.toLowerCase())) others.push(name, headers[i + 1] as string);
  }
  return others;
}

/** The value of a header that was sent in several fields. */
export function joined(before: string | undefined, value: string): string {
  return before === undefined ? value : `${before}, ${value}`;
}

function indexRoles<Role extends string>(names: Readonly<Record<Role, string>>): ReadonlyMap<string, Role> {
  const roles = new Map<string, Role>();
  for (const role in names) for (const name of names[role].split(' ')) roles.set(name, role);
  return roles;
}

/**
 * Whether a header's name could be read as the name of a header that has a role. CGI-like upstreams turn every unusual character of a name
 * into `_`, so they would take `X_Account_Id` for `X-Account-Id`. No honest client sends such a name.
 */
function isDisguised(lower: string): boolean {
  if (!unusual.test(lower)) return false;
  // Names are compared in place, because a client may send a hundred of them in each head.
  const names = namesByLength.get(lower.length) ?? [];
  return names.some((name) => beginsLike(lower, name)) || prefixes.some((prefix) => beginsLike(lower, prefix));
}

/** Whether a name begins with these characters, if each unusual character stands for `-`. */
function beginsLike(lower: string, characters: string): boolean {
  for (let i = 0; i < characters.length; i += 1) {
    const character = lower.charAt(i);
    if (character === characters.charAt(i)) continue;
    if (characters.charAt(i) !== '-' || !unusual.test(character)) return false;
  }
  return true;
}

/** Whether only the sidecar may send a header, in either direction. */
function isOwn(lower: string): boolean {
  return lower === 'envelope' || lower.startsWith('envelope-');
}

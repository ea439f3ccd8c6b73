import { Refusal } from '../../errors.ts';
import type { RequestHead as HttpHead } from '../../http1/parse/request-reader.ts';
import { capitalised } from './fields.ts';
import { maxConnection, singleFields } from './head.ts';
import type { GatewaySnapshot, ServedEnvironment } from './snapshot.ts';
import { ambiguousOctet, isUtf8 } from './target.ts';

/** Refuses a head that can be read in two ways. The refusal has a hint if the first `Host` belongs to the test environment. */
export function ambiguousHead(http: HttpHead, snapshot: GatewaySnapshot): Refusal {
  const at = http.fields.findIndex((name, i) => i % 2 === 0 && name.toLowerCase() === 'host');
  const host = at === -1 ? undefined : http.fields[at + 1];
  return ambiguousBecause(() => hintForHead(http), snapshot.findEnvironment(host ?? ''));
}

/** Like `ambiguousHead`, for a head that the parser refused. @param text the part of the head that was read */
export function ambiguousText(text: string, snapshot: GatewaySnapshot): Refusal {
  // The pattern does not skip white space before the host, because its running time would then grow with the square of the number of
  // spaces.
  const [, host = ''] = /\r\nhost:([^\r]*)/i.exec(text) ?? [];
  return ambiguousBecause(() => hintForText(text), snapshot.findEnvironment(host.trim()));
}

/** @param hint creates the hint. It is called only for the test environment, because anyone can send such requests, and hints take time */
export function ambiguousBecause(hint: () => string, environment: ServedEnvironment | undefined): Refusal {
  return new Refusal('ambiguous_request', environment?.name === 'test' ? { hint: hint() } : {});
}

const notAPath = 'the request line has no path that begins with "/": do not send a whole URL or "*"';

/**
 * Says what makes a head ambiguous, and where, for merchants in test. The hint repeats at most a few characters of the target, and never
 * the value of a header.
 */
function hintForHead({ target, fields, minor }: HttpHead): string {
  const path = target.split('?', 1)[0] ?? '';
  if (!path.startsWith('/')) return notAPath;
  for (const [pattern, what] of faults) {
    const found = pattern.exec(path);
    if (found !== null) return `the path has ${what(found[0])} at byte ${found.index}`;
  }
  if (path.includes('%') && !isUtf8(path)) {
    const at = notUtf8At(path);
    return `the path has percent-encoded bytes that are not UTF-8 ${at === undefined ? `after byte ${maxSearched}` : `at byte ${at}`}`;
  }
  const inQuery = /[^!"$-[\]-~]/.exec(target.slice(path.length + 1));
  if (inQuery !== null)
    return `the query has a character that must be percent-encoded at byte ${path.length + 1 + inQuery.index}`;
  return hintForFields(fields, minor);
}

/** Faults in a path, in the order in which they are reported. */
const faults: readonly (readonly [RegExp, (found: string) => string])[] = [
  [/\/\//, () => '"//", perhaps because your base URL ends in a slash,'],
  [/\/\.\.?(?=\/|$)/, () => 'a segment "." or ".."'],
  [ambiguousOctet, (found) => `"${found}", which can be read in two ways,`],
  [/%(?![0-9a-f]{2})/i, () => 'a "%" without two hex digits'],
  [/[;#\\]/, (found) => `"${found}"`],
  [/[^\w.~!$&'()*+,=:@%/-]/, () => 'a character that must be percent-encoded'],
];

/** How many bytes of a path are searched for percent-encoded bytes that are not UTF-8. Each run of such bytes takes microseconds. */
const maxSearched = 1_000;

/** Where the first run of percent-encoded bytes begins that is not UTF-8; undefined if it is too far behind. */
function notUtf8At(path: string): number | undefined {
  for (const { 0: run, index } of path.matchAll(/(?:%[89a-f][0-9a-f])+/gi)) {
    if (index >= maxSearched) return undefined;
    if (!isUtf8(run)) return index;
  }
  return undefined;
}

function hintForFields(fields: readonly string[], minor: number): string {
  const names = fields.filter((_, i) => i % 2 === 0).map((name) => name.toLowerCase());
  const twice = ['host', ...singleFields.keys()].find((name) => names.indexOf(name) !== names.lastIndexOf(name));
  if (twice !== undefined) return `there are two ${capitalised(twice)} headers: send one`;
  if (minor > 0 && !names.includes('host')) return 'there is no Host header';
  const connection = fields.filter((_, i) => i % 2 === 1 && names[(i - 1) / 2] === 'connection');
  if (connection.join(',').length > maxConnection)
    return `the Connection headers have more than ${maxConnection} characters`;
  return 'the Host header is not a host name with an optional port';
}

/** Like `hintForHead`, for a head that the parser refused (see `RequestFault`). */
function hintForText(text: string): string {
  const [line = '', ...fields] = text.split('\r\n');
  const [method = '', target = '', version] = line.split(' ');
  if (version === undefined) return 'the request line has no version: end it with HTTP/1.1';
  const [, minor] = /^HTTP\/1\.([01])$/.exec(version) ?? [];
  if (minor === undefined) return `the request line has the version ${version}: send HTTP/1.1`;
  if (method === 'CONNECT') return 'the method CONNECT is for proxies: send the request itself';
  if (!target.startsWith('/')) return notAPath;
  const odd = /[^!-~]/.exec(target);
  if (odd !== null) {
    return `the ${target.slice(0, odd.index).includes('?') ? 'query' : 'path'} has a character that must be percent-encoded at byte ${odd.index}`;
  }
  const codings = fields.filter((field) => /^transfer-encoding:/i.test(field));
  if (codings.length > 1) return 'there are two Transfer-Encoding headers: send one';
  if (minor === '0') return 'HTTP/1.0 has no Transfer-Encoding: send Content-Length, or HTTP/1.1';
  if (codings.some((field) => /:[ \t]*chunked[ \t]*$/i.test(field)))
    return 'there is a tab in the Transfer-Encoding header: remove it';
  return 'Transfer-Encoding must be just "chunked": send the body without other codings';
}

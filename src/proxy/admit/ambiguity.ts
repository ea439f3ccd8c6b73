import type { RequestHead as HttpHead } from '../../http1/request-reader.ts';

/** What makes a head ambiguous and where, for merchants in test. It repeats a few characters of a target at most, never a value. */
export function hintForHead({ target, fields, minor }: HttpHead): string {
  const path = target.split('?', 1)[0] ?? '';
  if (!path.startsWith('/')) return 'the request line has no path that begins with "/": do not send a whole URL or "*"';
  for (const [pattern, what] of faults) {
    const found = pattern.exec(path);
    if (found !== null) return `the path has ${what(found[0])} at byte ${found.index}`;
  }
  const inQuery = /[^!"$-[\]-~]/.exec(target.slice(path.length + 1));
  if (inQuery !== null) return `the query has a character to percent-encode at byte ${path.length + 1 + inQuery.index}`;
  return hintForFields(fields, minor);
}

/** In the order in which they are told. */
const faults: readonly (readonly [RegExp, (found: string) => string])[] = [
  [/\/\//, () => '"//", perhaps because your base URL ends in a slash,'],
  [/\/\.\.?(?=\/|$)/, () => 'a segment "." or ".."'],
  [
    /%(?:[01][0-9a-f]|2[5def]|3[0-9]|4[1-9a-f]|5[0-9acf]|6[1-9a-f]|7[0-9aef])/i,
    (found) => `"${found}", which is read in two ways,`,
  ],
  [/%(?![0-9a-f]{2})/i, () => 'a "%" without two hex digits'],
  [/[;#\\]/, (found) => `"${found}"`],
  [/[^\w.~!$&'()*+,=:@%/-]/, () => 'a character to percent-encode'],
  [/(?:%[89a-f][0-9a-f])+/i, () => 'percent-encoded bytes that are not UTF-8'],
];

/** Fields that may stand once. */
const single = [
  'Host',
  'Authorization',
  'Expect',
  'Upgrade',
  'Content-Encoding',
  'Origin',
  'Access-Control-Request-Method',
  'Envelope-Credentials',
];

function hintForFields(fields: readonly string[], minor: number): string {
  const names = fields.filter((_, i) => i % 2 === 0).map((name) => name.toLowerCase());
  const twice = single.find((name) => names.filter((each) => each === name.toLowerCase()).length > 1);
  if (twice !== undefined) return `there are two ${twice} headers: send one`;
  if (minor > 0 && !names.includes('host')) return 'there is no Host header';
  return 'the Host header is not a host name with an optional port';
}

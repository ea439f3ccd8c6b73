import fc from 'fast-check';

/** Spellings of a host name, and strings that look like one. */
const spellings: readonly ((host: string) => string)[] = [
  (host) => host,
  (host) => host,
  (host) => host,
  (host) => host.toUpperCase(),
  (host) => host.replace('p', 'P'),
  (host) => `${host}:80`,
  (host) => `${host}:8443`,
  (host) => `${host}:0`,
  (host) => `${host}:99999`,
  (host) => `${host}:`,
  (host) => `${host}:80:80`,
  (host) => `${host}:x`,
  (host) => `${host}:+80`,
  (host) => `${host}.`,
  (host) => `${host}..`,
  (host) => `${host}.:80`,
  (host) => `.${host}`,
  (host) => `${host}/`,
  (host) => `${host}?`,
  (host) => `${host}#`,
  (host) => `${host}\\`,
  (host) => `${host};`,
  (host) => `${host}\0`,
  (host) => `${host}%00`,
  (host) => `${host}\xa0`,
  (host) => `${host} `,
  (host) => `\t${host}\t`,
  (host) => `"${host}"`,
  (host) => `[${host}]`,
  (host) => `http://${host}`,
  (host) => `//${host}`,
  (host) => host.replaceAll('.', '%2e'),
  (host) => host.replaceAll('.', '\xe3\x80\x82'),
  (host) => host.replace('.', '..'),
  (host) => host.replace('a', '\xc3\xa1'),
  (host) => host.replace('.', '_'),
];

/** Ways to put two hosts into one value. */
const pairs: readonly ((one: string, other: string) => string)[] = [
  (one, other) => `${one}@${other}`,
  (one, other) => `${one}:80@${other}`,
  (one, other) => `${one},${other}`,
  (one, other) => `${one}, ${other}`,
  (one, other) => `${one} ${other}`,
  (one, other) => `${one};${other}`,
  (one, other) => `${one}/${other}`,
  (one, other) => `${one}\\${other}`,
  (one, other) => `${one}#${other}`,
  (one, other) => `${one}?${other}`,
  (one, other) => `${one}\0${other}`,
  (one, other) => `${one}\n${other}`,
  (one, other) => `${one}\r\n ${other}`,
  (one, other) => `${one}.${other}`,
];

/**
 * Builders of heads that name the host `one`, mostly in `Host`. Some also name `other`, for example in the target, in a second `Host` or in
 * `X-Forwarded-Host`.
 */
const heads: readonly ((one: string, other: string) => { line: string; headers: readonly string[] })[] = [
  ...['GET / HTTP/1.1', 'GET / HTTP/1.1', 'GET / HTTP/1.1', 'GET / HTTP/1.0'].map((line) => (one: string) => ({
    line,
    headers: [`Host: ${one}`],
  })),
  (one) => ({ line: 'GET / HTTP/1.1', headers: [`hOST:${one}`] }),
  (one) => ({ line: 'GET / HTTP/1.1', headers: [`Host:\t ${one}`] }),
  (one) => ({ line: 'GET / HTTP/1.1', headers: [`Host : ${one}`] }),
  (one) => ({ line: 'GET / HTTP/1.1', headers: [` Host: ${one}`] }),
  (one) => ({ line: 'GET / HTTP/1.1', headers: ['Host:', ` ${one}`] }),
  (one, other) => ({ line: 'GET / HTTP/1.1', headers: [`Host: ${one}`, `Host: ${other}`] }),
  (one, other) => ({ line: 'GET / HTTP/1.1', headers: [`Host: ${one}`, `host : ${other}`] }),
  (one, other) => ({ line: 'GET / HTTP/1.1', headers: [`Host: ${one}`, ` ${other}`] }),
  (one, other) => ({ line: 'GET / HTTP/1.1', headers: [`X: y\nHost: ${other}`, `Host: ${one}`] }),
  (one, other) => ({ line: `GET http://${other}/ HTTP/1.1`, headers: [`Host: ${one}`] }),
  (one, other) => ({ line: `GET //${other}/ HTTP/1.1`, headers: [`Host: ${one}`] }),
  (one, other) => ({ line: `GET @${other}/ HTTP/1.1`, headers: [`Host: ${one}`] }),
  (one) => ({ line: `GET http://${one}/ HTTP/1.0`, headers: [] }),
  (one) => ({ line: 'GET / HTTP/1.0', headers: [`X-Forwarded-Host: ${one}`] }),
  ...['X-Forwarded-Host', 'X-Host', 'X-Original-Host', 'X-HTTP-Host-Override', 'X-Forwarded-Server', 'Host_'].map(
    (name) => (one: string, other: string) => ({
      line: 'GET / HTTP/1.1',
      headers: [`${name}: ${other}`, `Host: ${one}`],
    }),
  ),
  (one, other) => ({ line: 'GET / HTTP/1.1', headers: [`Forwarded: host=${other}`, `Host: ${one}`] }),
  (one, other) => ({
    line: 'GET / HTTP/1.1',
    headers: [`Connection: Host, X-Environment`, `Host: ${one}`, `X: ${other}`],
  }),
];

/** Request heads that name these hosts, in all ways that different servers are known to read differently. */
export function headsNaming(hosts: readonly string[]): fc.Arbitrary<string> {
  const spelt = fc.tuple(fc.constantFrom(...hosts), fc.constantFrom(...spellings)).map(([host, spell]) => spell(host));
  const value = fc.oneof(
    { weight: 4, arbitrary: spelt },
    {
      weight: 1,
      arbitrary: fc.tuple(spelt, fc.constantFrom(...pairs), spelt).map(([one, pair, other]) => pair(one, other)),
    },
  );
  return fc
    .tuple(fc.constantFrom(...heads), value, value)
    .map(([head, one, other]) => head(one, other))
    .map(({ line, headers }) => [line, ...headers].join('\r\n'));
}

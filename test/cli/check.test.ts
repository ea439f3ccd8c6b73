import { execFileSync } from 'node:child_process';
import { join, relative } from 'node:path';
import { describe, expect, test } from 'vitest';
import { check } from '../../src/cli/check.ts';
import type { Env } from '../../src/yaml/values.ts';
import { filesIn, minimal, newCertificate, noAccounts } from '../config/files.ts';
import { collect, keyringOf } from '../support/cli.ts';

async function run(configFile: string, env: Env = {}): Promise<{ code: number; stdout: string }> {
  const { output, bytes } = collect();
  const code = await check({ stdout: output, env, clock: Date.now, keyring: keyringOf }, { config: configFile });
  return { code, stdout: bytes().toString() };
}

interface Files {
  readonly sidecar?: string;
  readonly accounts?: string;
  readonly [name: string]: string | Buffer | undefined;
}

/** Returns the exit code of `check` for these files, and the lines that it prints, without their directory. */
async function outcome({ sidecar = minimal, accounts = noAccounts, ...more }: Files, env?: Env): Promise<string[]> {
  const directory = filesIn({
    ...(more as Record<string, string>),
    'sidecar.yaml': sidecar,
    'accounts.yaml': accounts,
  });
  const { code, stdout } = await run(join(directory, 'sidecar.yaml'), env);
  return [String(code), ...stdout.replaceAll(`${directory}/`, '').trimEnd().split('\n')];
}

/** An accounts file with one account that has these additional lines. */
const acmeWith = (lines: string): string => `accounts:\n  - id: acme\n    name: Acme\n${lines}`;
const hash = 'ab'.repeat(32);
const aes = '0123456789abcdefghijklmnopqrstuv';
const iv = 'ABCDEFGHIJKLMNOP';

describe('a valid configuration', () => {
  test('can be the shipped one', async () => {
    const { code, stdout } = await run('config/sidecar.yaml');
    expect(code).toBe(0);
    expect(stdout).toMatch(/^\S+ {2}accounts {2}warning: 1 account has credentials in the clear: .*\nOK\n$/);
  });

  test('needs only three members', async () => {
    expect(await outcome({})).toEqual(['0', 'OK']);
  });

  test('prints its warnings and passes', async () => {
    const encryption = `    encryption: { test: { enabled: true, key: ${aes}, iv: ${iv} } }\n`;
    const accounts = `${acmeWith(encryption)}  - id: globex\n    name: Globex\n${encryption}`;
    expect(await outcome({ accounts })).toEqual([
      '0',
      'accounts.yaml:2:3  accounts  warning: 2 accounts have credentials in the clear: set accounts.masterKey, then run "accounts rekey --new-master-key-file FILE" with the file of the master key',
      'accounts.yaml:7:47  accounts[1].encryption.test.key  warning: the same key as accounts[0].encryption.test.key',
      'OK',
    ]);
  });
});

const token = 'operators-token-of-a-test-0123456789';
const tokenForm = '32 to 256 letters, digits or "-._~+/"';
const identifier = '1 to 64 letters, digits, ".", "_" or "-", but not an API key';
const upstreamForms = 'http://host:port, https://host:port or unix:/path.sock, without a path, query or user';
const date = 'a date such as 2026-11-01 or 2026-11-01T09:30:00Z';
const durationRange = 'a duration such as 250ms, 30s, 5m, 12h or 7d, from 1ms to 24d';
const pathForm =
  '"/" and segments of letters, digits, "-", ".", "_", "~", or ":parameter"; "/*" at the end covers everything below';

describe('an invalid configuration', () => {
  test.each<[string, Files, string[]]>([
    ['an empty file', { sidecar: '' }, ['sidecar.yaml:1:1  .  the file is empty']],
    ['a file of comments', { sidecar: '# later\n' }, ['sidecar.yaml:1:1  .  the file is empty']],
    ['a list in place of members', { sidecar: '- a\n' }, ['sidecar.yaml:1:1  .  expected members ("name: value")']],
    [
      'a bracket that is not closed',
      { sidecar: `${minimal}routes: [ { path: /a }\n` },
      ['sidecar.yaml:5:1  .  wrong indentation, or an unclosed quote, bracket or brace before it'],
    ],
    [
      'text in the accounts file that must stand in quotes, and problems of the other file',
      { sidecar: `${minimal}log: { level: all }\n`, accounts: 'accounts:\n  - id: acme\n    name: @Acme\n' },
      [
        'sidecar.yaml:4:15  log.level  expected one of fatal, error, warn, info, debug, trace, silent',
        'accounts.yaml:3:11  .  text that begins with this character must be in quotes',
      ],
    ],
    [
      'a tab in the indentation',
      { sidecar: 'listen:\n\tport: 8080\n' },
      ['sidecar.yaml:2:1  .  a tab in the indentation: use spaces'],
    ],
    [
      'a duplicate member, and other mistakes',
      { sidecar: `${minimal}limits: { inFlight: 1, inFlight: 2, header: 1 }\nlisten: { port: 1 }\n` },
      [
        'sidecar.yaml:4:24  limits.inFlight  duplicate member',
        'sidecar.yaml:4:45  limits.header  expected a size such as 512B, 64KiB, 1MiB or 2GiB, from 1KiB to 1MiB',
        'sidecar.yaml:5:1  listen  duplicate member',
      ],
    ],
    [
      'a second document and a tag',
      { sidecar: `${minimal}log: { level: !secret info }\n---\nlisten: {}\n` },
      [
        'sidecar.yaml:4:15  .  a tag (!name): put text that begins with ! in quotes',
        'sidecar.yaml:5:1  .  a second document begins here: a file holds only one',
      ],
    ],
    [
      'aliases that fill the memory',
      {
        sidecar: `a: &a [1,1,1,1,1,1,1,1,1,1]
b: &b [*a,*a,*a,*a,*a,*a,*a,*a,*a,*a]
c: &c [*b,*b,*b,*b,*b,*b,*b,*b,*b,*b]
d: &d [*c,*c,*c,*c,*c,*c,*c,*c,*c,*c]
`,
      },
      ['sidecar.yaml:1:1  .  aliases (*name) expand to too much: write the values out'],
    ],
    [
      'an alias of nothing',
      { sidecar: `${minimal}routes: *all\n` },
      ['sidecar.yaml:4:9  routes  an alias without its anchor before it: put text that begins with * in quotes'],
    ],
    [
      'members that are unknown, with the nearest known one',
      { sidecar: `${minimal}timeout: { connect: 1s }\nlog: { lvel: info }\ncolour: blue\n` },
      [
        'sidecar.yaml:4:1  timeout  unknown member "timeout": did you mean "timeouts"?',
        'sidecar.yaml:5:8  log.lvel  unknown member "lvel": did you mean "level"?',
        'sidecar.yaml:6:1  colour  unknown member "colour": expected listen, admin, operators, environments, accounts, kms, audit, keys, routes, cipherTest, trustedProxies, limits, timeouts, report, tracing, documentation, log',
      ],
    ],
    [
      'operators that are not one each',
      {
        sidecar: `${minimal}operators:
  host: 10.0.0.1
  token: ${token}
  hosts: ["a:80"]
  console: maybe
  tokens:
    - { name: ana, role: owner, token: ${token} }
    - { name: ana, account: a/b, token: ${token} }
    - { name: ana maria, token: short }
    - {}
`,
      },
      [
        'sidecar.yaml:4:1  operators.tls  missing: keys and credentials would leave this machine in the clear',
        'sidecar.yaml:7:11  operators.hosts[0]  expected a host name without a port, such as api.pay.example',
        'sidecar.yaml:8:12  operators.console  expected true or false',
        'sidecar.yaml:10:5  operators.tokens  cannot be combined with "token": remove one of them',
        'sidecar.yaml:10:26  operators.tokens[0].role  expected one of viewer, operator, admin, core',
        'sidecar.yaml:11:15  operators.tokens[1].name  the same name as operators.tokens[0].name',
        `sidecar.yaml:11:29  operators.tokens[1].account  expected ${identifier}`,
        'sidecar.yaml:11:41  operators.tokens[1].token  the same token as operators.tokens[0].token',
        `sidecar.yaml:12:15  operators.tokens[2].name  expected ${identifier}`,
        `sidecar.yaml:12:33  operators.tokens[2].token  expected ${tokenForm}, without a name`,
        `sidecar.yaml:13:7  operators.tokens[3].name  missing: expected ${identifier}`,
        `sidecar.yaml:13:7  operators.tokens[3].token  missing: expected ${tokenForm}, without a name`,
      ],
    ],
    [
      'operators without one',
      { sidecar: `${minimal}operators: { tokens: [] }\n` },
      ['sidecar.yaml:4:22  operators.tokens  expected at least one item'],
    ],
    [
      'reporting, traces, documentation and an upstream that are not as expected',
      {
        sidecar: `${minimal.replace('"http://127.0.0.1:3000"', '{ url: "http://a", authorization: keep }')}report: [invalid_api_key]
tracing: { otlp: "127.0.0.1:4318", sample: 2 }
documentation: docs/errors.md
limits: { connections: 0, headers: 9 }
`,
      },
      [
        'sidecar.yaml:2:69  environments.test.upstream.authorization  expected forward',
        'sidecar.yaml:4:10  report[0]  expected one of key_not_permitted, method_not_allowed, encryption_not_supported',
        'sidecar.yaml:5:18  tracing.otlp  expected http://host:port or https://host:port, with a path if there is one, without a query, fragment or user',
        'sidecar.yaml:5:44  tracing.sample  expected 1 or less',
        'sidecar.yaml:6:16  documentation  expected an absolute https URL such as https://docs.example/errors, without a query, fragment or user',
        'sidecar.yaml:7:24  limits.connections  expected 1 or more',
        'sidecar.yaml:7:36  limits.headers  expected 10 or more',
      ],
    ],
    [
      'a share of traces that is no number, and one without a receiver',
      { sidecar: `${minimal}tracing: { sample: all }\n` },
      [
        'sidecar.yaml:4:1  tracing.otlp  missing: expected http://host:port or https://host:port, with a path if there is one, without a query, fragment or user',
        'sidecar.yaml:4:20  tracing.sample  expected a number from 0 to 1',
      ],
    ],
    [
      'members that are missing, at their parents',
      { sidecar: 'environments:\n  test:\n    hosts: [a]\nroutes:\n  - methods: [GET]\n' },
      [
        'sidecar.yaml:1:1  listen  missing: expected members ("name: value")',
        'sidecar.yaml:1:1  accounts  missing: expected members ("name: value")',
        `sidecar.yaml:2:3  environments.test.upstream  expected ${upstreamForms}, or a mapping that contains "url"`,
        `sidecar.yaml:5:5  routes[0].path  missing: expected ${pathForm}`,
      ],
    ],
    [
      'members without a value',
      { sidecar: `${minimal}admin:\nlog: { level: }\nroutes:\n  - path:\n` },
      [
        'sidecar.yaml:4:1  admin  expected members ("name: value")',
        'sidecar.yaml:5:8  log.level  expected one of fatal, error, warn, info, debug, trace, silent',
        `sidecar.yaml:7:5  routes[0].path  expected ${pathForm}`,
      ],
    ],
    [
      'values of the wrong type or out of range',
      {
        sidecar: `${minimal}admin: { host: 1, port: 65536 }
limits: { requestBody: 2MiB, buffered: 1MiB, header: 1023B, inFlight: 0, failedKeys: 20 }
timeouts: { connect: 25d, header: 0s, idle: 30 }
trustedProxies: [10.0.0.0/33, proxy, 10.0.0.1]
cipherTest: { environments: [sandbox] }
`,
      },
      [
        'sidecar.yaml:4:16  admin.host  expected an IP address or a host name: put it in quotes',
        'sidecar.yaml:4:25  admin.port  expected 65535 or less',
        'sidecar.yaml:5:40  limits.buffered  expected at least as much as limits.requestBody',
        'sidecar.yaml:5:54  limits.header  expected a size such as 512B, 64KiB, 1MiB or 2GiB, from 1KiB to 1MiB',
        'sidecar.yaml:5:71  limits.inFlight  expected 1 or more',
        'sidecar.yaml:5:86  limits.failedKeys  expected a number of attempts and a duration such as 20/1m',
        `sidecar.yaml:6:22  timeouts.connect  expected ${durationRange}`,
        `sidecar.yaml:6:35  timeouts.header  expected ${durationRange}`,
        `sidecar.yaml:6:45  timeouts.idle  expected ${durationRange}`,
        'sidecar.yaml:7:18  trustedProxies[0]  expected an IP address or a network such as 10.0.0.0/8',
        'sidecar.yaml:7:31  trustedProxies[1]  expected an IP address or a network such as 10.0.0.0/8',
        'sidecar.yaml:8:30  cipherTest.environments[0]  expected one of test, live',
      ],
    ],
    [
      'environments that cannot be told apart',
      {
        sidecar: `listen: {}
environments:
  test: { hosts: [API.example], upstream: "http://a/b" }
  live: { hosts: [x, "api.EXAMPLE", "a:80"], upstream: { url: "http://a", ca: none.pem, crt: x } }
accounts: { file: accounts.yaml }
`,
      },
      [
        `sidecar.yaml:3:43  environments.test.upstream  expected ${upstreamForms}`,
        'sidecar.yaml:4:22  environments.live.hosts[1]  the same host as environments.test.hosts[0]',
        'sidecar.yaml:4:37  environments.live.hosts[2]  expected a host name without a port, such as api.pay.example',
        'sidecar.yaml:4:79  environments.live.upstream.ca  cannot read the file: it does not exist',
        'sidecar.yaml:4:89  environments.live.upstream.crt  unknown member "crt": did you mean "cert"?',
      ],
    ],
    [
      'two environments without hosts',
      {
        sidecar:
          'listen: {}\naccounts: { file: accounts.yaml }\nenvironments:\n  test: { upstream: "http://a" }\n  live: { upstream: "http://b" }\n',
      },
      [
        'sidecar.yaml:4:3  environments.test.hosts  missing: with two environments, the host selects the environment',
        'sidecar.yaml:5:3  environments.live.hosts  missing: with two environments, the host selects the environment',
      ],
    ],
    [
      'no environment at all',
      { sidecar: 'listen: {}\naccounts: { file: accounts.yaml }\nenvironments: {}\n' },
      ['sidecar.yaml:3:15  environments  expected test, live or both'],
    ],
    [
      'one port for two listeners',
      { sidecar: minimal.replace('{}', '{ host: 127.0.0.1, port: 9090 }') },
      ['sidecar.yaml:1:1  admin.port  the same port as listen.port: expected a different port'],
    ],
    [
      'routes that overlap or contradict themselves',
      {
        sidecar: `${minimal}routes:
  - { path: /a, methods: [GET] }
  - { path: /A/, methods: [HEAD, POST, get] }
  - { path: "/x/:a/*" }
  - { path: "/X/:b/*", upgrade: true, envelope: true }
  - { path: "/b/../c", methods: [POST], upgrade: true, keys: [] }
  - { path: /a b, methods: GET, envelope: yes }
  - { path: "*", keys: [private] }
  - { path: /d, methods: [] }
documentation: http://docs.example/errors
`,
      },
      [
        'sidecar.yaml:6:13  routes[1].path  the same path and method as routes[0]',
        'sidecar.yaml:6:40  routes[1].methods[2]  expected one of GET, HEAD, POST, PUT, PATCH, DELETE, OPTIONS',
        'sidecar.yaml:8:13  routes[3].path  the same path and method as routes[2]',
        'sidecar.yaml:8:33  routes[3].upgrade  cannot be combined with "envelope": WebSocket messages are not sealed',
        'sidecar.yaml:9:13  routes[4].path  expected a path without the segments "." and ".."',
        'sidecar.yaml:9:33  routes[4].methods  expected GET: a WebSocket handshake is a GET',
        'sidecar.yaml:9:62  routes[4].keys  expected at least one item',
        `sidecar.yaml:10:13  routes[5].path  expected ${pathForm}`,
        'sidecar.yaml:10:28  routes[5].methods  expected a list',
        'sidecar.yaml:10:43  routes[5].envelope  expected true or false',
        `sidecar.yaml:11:13  routes[6].path  expected ${pathForm}`,
        'sidecar.yaml:11:25  routes[6].keys[0]  expected one of public, secret',
        'sidecar.yaml:12:26  routes[7].methods  expected at least one item',
        'sidecar.yaml:13:16  documentation  expected an absolute https URL such as https://docs.example/errors, without a query, fragment or user',
      ],
    ],
    [
      'an accounts file that is not there',
      { sidecar: minimal.replace('accounts.yaml', 'none.yaml') },
      ['sidecar.yaml:3:19  accounts.file  cannot read the file: it does not exist'],
    ],
    ['an accounts file that is empty', { accounts: '\n' }, ['accounts.yaml:1:1  .  the file is empty']],
    [
      'problems of both files, schema and cross checks together',
      {
        sidecar: `${minimal}routes: [ { path: /a }, { path: /a } ]\nlog: { levl: info }\n`,
        accounts: 'accounts: [ { id: a, name: A }, { id: a, nam: B } ]\n',
      },
      [
        'sidecar.yaml:4:33  routes[1].path  the same path and method as routes[0]',
        'sidecar.yaml:5:8  log.levl  unknown member "levl": did you mean "level"?',
        'accounts.yaml:1:33  accounts[1].name  missing: expected 1 to 200 characters without control characters',
        'accounts.yaml:1:39  accounts[1].id  the same id as accounts[0].id',
        'accounts.yaml:1:42  accounts[1].nam  unknown member "nam": did you mean "name"?',
      ],
    ],
    [
      'API keys',
      {
        accounts: acmeWith(`    keys:
      - { id: a, key: sk_test_short, createdAt: 2026-02-30 }
      - { id: a, key: sk_test_0123456789abcdef, sha256: ${hash}, createdAt: 2026-11-01 }
      - { id: b, prefix: sk_test_, sha256: ${hash.toUpperCase()}, createdAt: 2026-11-01T00:00:00 }
      - { id: c, sha256: ${hash}, createdAt: 2026-11-01 }
      - { id: d, key: sk_test_0123456789abcdef, prefix: sk_test_ }
      - { id: e/f, createdAt: 2026-11-01 }
`),
      },
      [
        'accounts.yaml:5:23  accounts[0].keys[0].key  expected pk_test_, pk_live_, sk_test_ or sk_live_ and 16 to 200 letters, digits, "_" or "-"',
        'accounts.yaml:5:49  accounts[0].keys[0].createdAt  expected a date that exists',
        'accounts.yaml:6:15  accounts[0].keys[1].id  the same id as accounts[0].keys[0].id',
        'accounts.yaml:6:57  accounts[0].keys[1].sha256  cannot be combined with "key": remove one of them',
        'accounts.yaml:7:44  accounts[0].keys[2].sha256  expected 64 hex digits in lower case',
        `accounts.yaml:7:121  accounts[0].keys[2].createdAt  expected ${date}`,
        'accounts.yaml:8:9  accounts[0].keys[3].prefix  missing: required for a key stored as "sha256"',
        `accounts.yaml:9:9  accounts[0].keys[4].createdAt  missing: expected ${date}`,
        'accounts.yaml:9:23  accounts[0].keys[4].key  the same key as accounts[0].keys[1].key',
        'accounts.yaml:9:57  accounts[0].keys[4].prefix  cannot be combined with "key": remove one of them',
        'accounts.yaml:10:9  accounts[0].keys[5].key  missing: expected "key", or "sha256" with "prefix"',
        'accounts.yaml:10:15  accounts[0].keys[5].id  expected 1 to 64 letters, digits, ".", "_" or "-", but not an API key',
      ],
    ],
    [
      'credentials',
      {
        accounts: acmeWith(`    encryption:
      test: { enabled: true, key: ${aes}x, iv: short }
      live: { enabled: true, iv: ${iv}, format: utf8, previous: { key: ${aes} } }
  - id: 42
    name: ""
    active: no
`),
      },
      [
        'accounts.yaml:5:35  accounts[0].encryption.test.key  must be 32 bytes of UTF-8',
        'accounts.yaml:5:74  accounts[0].encryption.test.iv  must be 16 bytes of UTF-8 in its first 16 characters',
        'accounts.yaml:6:7  accounts[0].encryption.live.key  missing: expected the AES key',
        'accounts.yaml:6:60  accounts[0].encryption.live.format  expected one of text, base64',
        `accounts.yaml:6:66  accounts[0].encryption.live.previous.until  missing: expected ${date}`,
        'accounts.yaml:6:66  accounts[0].encryption.live.previous.iv  missing: expected the IV',
        'accounts.yaml:7:9  accounts[1].id  expected 1 to 64 letters, digits, ".", "_" or "-", but not an API key: put it in quotes',
        'accounts.yaml:8:11  accounts[1].name  expected 1 to 200 characters without control characters',
        'accounts.yaml:9:13  accounts[1].active  expected true or false',
      ],
    ],
    [
      'one key for test and live, previous and disabled ones included',
      {
        accounts: acmeWith(`    encryption:
      test: { enabled: true, key: ${aes}, iv: ${iv} }
      live:
        enabled: false
        key: ${aes}
        iv: ABCDEFGHIJKLMNOPQ
        previous: { key: ${aes}, iv: ${iv}, until: 2020-01-01 }
`),
      },
      [
        'accounts.yaml:8:14  accounts[0].encryption.live.key  the same key as accounts[0].encryption.test.key: live needs its own',
        'accounts.yaml:10:26  accounts[0].encryption.live.previous.key  the same key as accounts[0].encryption.test.key: live needs its own',
      ],
    ],
  ])('is refused with the place of each problem: %s', async (_, files, lines) => {
    expect(await outcome(files)).toEqual(['78', ...lines]);
  });
});

describe('references', () => {
  const accounts = acmeWith(`    keys:
      - { id: a, key: "\${ACME_KEY}", createdAt: { file: created } }
      - { id: b, key: { file: none }, createdAt: "\${not a name}" }
`);

  test('to missing variables and files are problems', async () => {
    const files = { accounts, created: '2026-11-01\n\n' };
    expect(await outcome(files)).toEqual([
      '78',
      'accounts.yaml:5:23  accounts[0].keys[0].key  the environment variable ACME_KEY is not set',
      `accounts.yaml:5:49  accounts[0].keys[0].createdAt  expected ${date}`,
      'accounts.yaml:6:23  accounts[0].keys[1].key  cannot read the file: it does not exist',
      'accounts.yaml:6:50  accounts[0].keys[1].createdAt  expected the name of a variable in "${…}"',
    ]);
  });

  test('to the same API key are a problem', async () => {
    const files = { accounts, created: '2026-11-01\n', none: 'sk_test_0123456789abcdef\n' };
    expect(await outcome(files, { ACME_KEY: 'sk_test_0123456789abcdef' })).toEqual([
      '78',
      'accounts.yaml:6:23  accounts[0].keys[1].key  the same key as accounts[0].keys[0].key',
      'accounts.yaml:6:50  accounts[0].keys[1].createdAt  expected the name of a variable in "${…}"',
    ]);
  });

  test('with members other than "file" are a problem', async () => {
    const sidecar = `${minimal}log: { level: { file: a, encoding: utf8 } }\nadmin: { host: { fil: a } }\n`;
    expect(await outcome({ sidecar })).toEqual([
      '78',
      'sidecar.yaml:4:15  log.level  cannot read the file: it does not exist',
      'sidecar.yaml:4:26  log.level.encoding  unknown member "encoding": expected file',
      'sidecar.yaml:5:10  admin.host.file  missing: expected text',
      'sidecar.yaml:5:18  admin.host.fil  unknown member "fil": did you mean "file"?',
    ]);
  });
});

describe('TLS', () => {
  const sidecar = minimal.replace('{}', '{ tls: { cert: cert.pem, key: key.pem } }');

  test('accepts files in PEM', async () => {
    const { cert, key } = newCertificate();
    expect(await outcome({ sidecar, 'cert.pem': `${cert}${newCertificate().cert}`, 'key.pem': key })).toEqual([
      '0',
      'OK',
    ]);
  });

  test('accepts PEM text from a reference', async () => {
    const { cert, key } = newCertificate();
    const references = sidecar.replace('cert.pem', '{ file: cert.pem }').replace('key.pem', '"${KEY}"');
    expect(await outcome({ sidecar: references, 'cert.pem': cert }, { KEY: key })).toEqual(['0', 'OK']);
  });

  test.each([
    ['the key of another certificate', {}, 'key', 'does not belong to the certificate in "cert"'],
    ['a certificate in place of the key', { key: 'cert' }, 'key', 'no private key in PEM found'],
    ['a key in place of the certificate', { cert: 'key' }, 'cert', 'no certificate in PEM found'],
    ['a certificate that is damaged', { cert: 'damaged' }, 'cert', 'a certificate that cannot be read'],
    ['a key with a passphrase', { key: 'encrypted' }, 'key', 'the private key has a passphrase: remove the passphrase'],
  ] as const)('refuses %s', async (_, use: { cert?: string; key?: string }, member, message) => {
    const { cert, key } = newCertificate();
    const encrypted = execFileSync('openssl', ['pkcs8', '-topk8', '-passout', 'pass:x'], { input: key }).toString();
    const pem: Record<string, string> = { cert, key, encrypted, damaged: cert.replace('MII', 'AAA') };
    const files = { 'cert.pem': pem[use.cert ?? 'cert'], 'key.pem': pem[use.key ?? ''] ?? newCertificate().key };
    const column = member === 'cert' ? 24 : 39;
    expect(await outcome({ sidecar, ...files })).toEqual([
      '78',
      `sidecar.yaml:1:${column}  listen.tls.${member}  ${message}`,
    ]);
  });

  test('refuses a key that is too short for a listener', async () => {
    const { cert, key } = newCertificate(['rsa:1024']);
    expect(await outcome({ sidecar, 'cert.pem': cert, 'key.pem': key })).toEqual([
      '78',
      'sidecar.yaml:1:24  listen.tls.cert  OpenSSL rejects it: ee key too small',
    ]);
  });

  test('is accepted for the upstream if it is complete and the URL is https', async () => {
    const { cert, key } = newCertificate();
    const long = (url: string, members: string): string =>
      minimal.replace('"http://127.0.0.1:3000"', `{ url: "${url}", ${members} }`);
    const files = { 'cert.pem': cert, 'key.pem': key };
    const whole = 'ca: cert.pem, cert: cert.pem, key: key.pem';
    expect(await outcome({ ...files, sidecar: long('https://core', whole) })).toEqual(['0', 'OK']);
    expect(await outcome({ ...files, sidecar: long('https://core', 'cert: cert.pem') })).toEqual([
      '78',
      'sidecar.yaml:2:25  environments.test.upstream.key  missing: "cert" needs its private key',
    ]);
    expect(await outcome({ ...files, sidecar: long('https://core', 'key: key.pem') })).toEqual([
      '78',
      'sidecar.yaml:2:25  environments.test.upstream.cert  missing: "key" needs its certificate',
    ]);
    expect(await outcome({ ...files, sidecar: long('unix:/core.sock', 'ca: cert.pem') })).toEqual([
      '78',
      'sidecar.yaml:2:65  environments.test.upstream.ca  allowed only for an upstream with https://',
    ]);
  });
});

test('no problem repeats a secret, whichever member contains it', async () => {
  const secret = 'sk_live_5ecretSecretSecretSecret';
  const places = [
    `{ id: ${secret}/, key: ${secret}!, createdAt: ${secret} }`,
    `{ id: a, ${secret} }`,
    `{ id: a, key: [${secret}], sha256: { ${secret}: ${secret} } }`,
    `{ id: a, key: { file: ${secret} } }`,
    `{ id: a, key: "\${${secret}!}" }`,
    secret,
    `!${secret} x`,
    `*${secret}`,
    `"${secret}`,
    `${secret}: ${secret}: ${secret}`,
    `"\\${secret}"`,
  ];
  for (const place of places) {
    const [code, ...lines] = await outcome({
      accounts: acmeWith(`    keys:\n      - ${place}\n`),
      sidecar: `${minimal}routes: [ { path: "${secret}", methods: [${secret}] }, ${place.replace('"', '')} ]\n`,
    });
    expect(code).toBe('78');
    expect(lines.join('\n')).not.toContain('5ecret');
  }
});

describe('paths in the problems', () => {
  test('are relative to the working directory if they are below it', async () => {
    expect((await run('config/none.yaml')).stdout).toBe(
      'config/none.yaml:1:1  .  cannot read the file: it does not exist\n',
    );
    expect((await run(join(process.cwd(), 'config'))).stdout).toBe(
      'config:1:1  .  cannot read the file: it is a directory\n',
    );
  });

  test('are absolute otherwise', async () => {
    const directory = filesIn({ 'sidecar.yaml': minimal, 'accounts.yaml': 'accounts: 1\n' });
    const path = relative('', join(directory, 'sidecar.yaml'));
    expect(await run(path)).toEqual({
      code: 78,
      stdout: `${directory}/accounts.yaml:1:11  accounts  expected a list\n`,
    });
    const latin1 = filesIn({ 'sidecar.yaml': Buffer.from('# \xe9', 'latin1') });
    expect((await run(`${latin1}/sidecar.yaml`)).stdout).toBe(
      `${latin1}/sidecar.yaml:1:1  .  cannot read the file: it is not UTF-8\n`,
    );
  });
});

import { join, resolve } from 'node:path';
import { describe, expect, test } from 'vitest';
import type { Config } from '../../src/config/config.ts';
import { loadConfig } from '../../src/config/load.ts';
import type { Env } from '../../src/yaml/values.ts';
import { filesIn, minimal, newCertificate, noAccounts } from './files.ts';

function load(sidecar: string, files: Readonly<Record<string, string>> = {}, env: Env = {}): Config {
  const directory = filesIn({ 'sidecar.yaml': sidecar, 'accounts.yaml': noAccounts, ...files });
  const result = loadConfig(join(directory, 'sidecar.yaml'), env);
  if (!result.ok) throw new Error(JSON.stringify(result.problems));
  return result.config;
}

/** Whether the smallest valid file is still valid with these additional lines. */
function accepts(lines: string): boolean {
  const directory = filesIn({ 'sidecar.yaml': minimal + lines, 'accounts.yaml': noAccounts });
  return loadConfig(join(directory, 'sidecar.yaml'), {}).ok;
}

test.each([
  [1_000, []],
  [1_001, ['warning: 1001 accounts: every start and every change reads them all; keep more than 1000 in PostgreSQL']],
])('a file of %i accounts is read, with a warning from 1,001 on', (count, messages) => {
  const accounts = Array.from({ length: count }, (_, i) => ({ id: `a${i}`, name: 'A' }));
  const directory = filesIn({ 'sidecar.yaml': minimal, 'accounts.yaml': JSON.stringify({ accounts }) });
  const result = loadConfig(join(directory, 'sidecar.yaml'), {});
  if (!result.ok) throw new Error(JSON.stringify(result.problems));
  expect(result.config.accounts).toHaveLength(count);
  expect(result.warnings.map(({ message }) => message)).toEqual(messages);
});

test.each([
  [5_000, []],
  [5_001, ['warning: 5001 API keys: every start and every change reads them all; keep more than 5000 in PostgreSQL']],
])('a file with %i API keys is read, with a warning from 5,001 on', (count, messages) => {
  const keys = Array.from({ length: count }, (_, i) => ({
    id: `k${i}`,
    prefix: 'sk_test_',
    sha256: i.toString(16).padStart(64, '0'),
    createdAt: '2026-11-01',
  }));
  const accounts = [{ id: 'a', name: 'A', keys }];
  const directory = filesIn({ 'sidecar.yaml': minimal, 'accounts.yaml': JSON.stringify({ accounts }) });
  const result = loadConfig(join(directory, 'sidecar.yaml'), {});
  if (!result.ok) throw new Error(JSON.stringify(result.problems));
  expect(result.warnings.map(({ message }) => message)).toEqual(messages);
});

test('the id of an account may not be an API key, because ids are logged', () => {
  const idOf = (id: string) => {
    const accounts = JSON.stringify({ accounts: [{ id, name: 'A' }] });
    return loadConfig(join(filesIn({ 'sidecar.yaml': minimal, 'accounts.yaml': accounts }), 'sidecar.yaml'), {}).ok;
  };
  expect(idOf('sk_live_0123456789abcdef')).toBe(false);
  expect(idOf('pk_test_0123456789abcdefgh')).toBe(false);
  expect(idOf('sk_live_0123456789abcde')).toBe(true);
  expect(idOf('rk_live_0123456789abcdef')).toBe(true);
});

test('a missing member gets its default', () => {
  expect(load(minimal)).toEqual({
    listen: { host: '0.0.0.0', port: 8080, tls: undefined },
    admin: { host: '0.0.0.0', port: 9090 },
    environments: [
      {
        name: 'test',
        hosts: [],
        upstream: {
          origin: 'http://127.0.0.1:3000',
          socketPath: undefined,
          ca: undefined,
          cert: undefined,
          key: undefined,
          forwardsAuthorization: false,
        },
      },
    ],
    operators: undefined,
    store: { type: 'file', file: expect.stringMatching(/\/accounts\.yaml$/) as string, masterKeys: [], auditKeys: [] },
    accounts: [],
    routes: [],
    cipherTest: { environments: ['test'] },
    trustedProxies: [],
    limits: {
      requestBody: 1024 ** 2,
      buffered: 48 * 1024 ** 2,
      header: 16 * 1024,
      headers: 100,
      connections: 4096,
      inFlight: 1024,
      failedKeys: { attempts: 20, window: 60_000 },
      account: 0.5,
    },
    timeouts: { connect: 2000, header: 10_000, request: 60_000, upstream: 30_000, idle: 75_000, drain: 25_000 },
    report: [],
    tracing: undefined,
    documentation: undefined,
    log: { level: 'info', client: 'truncated' },
    sources: { 'environments.test.upstream': 'inline', 'accounts.file': 'inline' },
  });
});

test('configured values replace the defaults', () => {
  const { cert, key } = newCertificate();
  const config = load(
    `listen: { host: "::1", port: 0, tls: { cert: tls.crt, key: "\${TLS_KEY}", clientCa: { file: ca } } }
admin: { port: 1 }
environments:
  live: { hosts: [API.pay.example, "[::1]"], upstream: { url: "https://Core.internal:443", ca: tls.crt, authorization: forward } }
  test: { hosts: [sandbox.pay.example], upstream: "unix:/run/core.sock" }
accounts: { file: "\${ACCOUNTS}" }
routes:
  - { path: /a, methods: [POST, GET], keys: [public, secret] }
  - { path: "/b/:id/*", envelope: true }
  - { path: /ws, upgrade: true }
cipherTest: { environments: [] }
trustedProxies: [10.0.0.0/8, "2001:db8::/32", 192.0.2.1]
limits: { requestBody: 64KiB, buffered: "\${BUFFERED}", header: 1024, headers: 10, connections: 1, inFlight: 1, failedKeys: 5/10s, account: 25% }
timeouts: { connect: 1ms, header: 24d, drain: { file: drain } }
report: [encryption_not_supported, key_not_permitted]
tracing: { otlp: "http://127.0.0.1:4318/" }
documentation: https://Docs.example/errors
log: { level: silent }
`,
    { 'tls.crt': cert, ca: cert, drain: '1m\n', 'others.yaml': noAccounts },
    { TLS_KEY: key, ACCOUNTS: 'others.yaml', BUFFERED: '64KiB' },
  );
  expect(config).toEqual({
    listen: { host: '::1', port: 0, tls: { cert, key, clientCa: cert.trimEnd() } },
    admin: { host: '0.0.0.0', port: 1 },
    operators: undefined,
    store: { type: 'file', file: expect.stringMatching(/\/others\.yaml$/) as string, masterKeys: [], auditKeys: [] },
    environments: [
      {
        name: 'test',
        hosts: ['sandbox.pay.example'],
        upstream: {
          origin: 'http://localhost',
          socketPath: '/run/core.sock',
          ca: undefined,
          cert: undefined,
          key: undefined,
          forwardsAuthorization: false,
        },
      },
      {
        name: 'live',
        hosts: ['api.pay.example', '[::1]'],
        upstream: {
          origin: 'https://core.internal',
          socketPath: undefined,
          ca: cert,
          cert: undefined,
          key: undefined,
          forwardsAuthorization: true,
        },
      },
    ],
    accounts: [],
    routes: [
      { path: '/a', methods: ['POST', 'GET'], keys: ['public', 'secret'], envelope: false, upgrade: false },
      { path: '/b/:id/*', methods: [], keys: ['secret'], envelope: true, upgrade: false },
      { path: '/ws', methods: [], keys: ['secret'], envelope: false, upgrade: true },
    ],
    cipherTest: { environments: [] },
    trustedProxies: ['10.0.0.0/8', '2001:db8::/32', '192.0.2.1'],
    limits: {
      requestBody: 65_536,
      buffered: 65_536,
      header: 1024,
      headers: 10,
      connections: 1,
      inFlight: 1,
      failedKeys: { attempts: 5, window: 10_000 },
      account: 0.25,
    },
    timeouts: { connect: 1, header: 24 * 86_400_000, request: 60_000, upstream: 30_000, idle: 75_000, drain: 60_000 },
    report: ['encryption_not_supported', 'key_not_permitted'],
    tracing: { otlp: 'http://127.0.0.1:4318', sample: 0.01 },
    documentation: 'https://docs.example/errors',
    log: { level: 'silent', client: 'truncated' },
    sources: expect.objectContaining({
      'listen.tls.cert': 'file tls.crt',
      'listen.tls.key': 'variable TLS_KEY',
      'listen.tls.clientCa': 'file ca',
      'accounts.file': 'variable ACCOUNTS',
      'limits.header': 'inline',
      'timeouts.drain': 'file drain',
      'routes[1].path': 'inline',
    }) as Config['sources'],
  });
});

describe('the files that a load read or tried to read', () => {
  const sidecar = `${minimal}log: { level: { file: level } }\ntimeouts: { idle: { file: idle } }\n`;
  const names = ['sidecar.yaml', 'level', 'idle', 'accounts.yaml'];

  test('are returned for a valid configuration', () => {
    const directory = filesIn({ 'sidecar.yaml': sidecar, 'accounts.yaml': noAccounts, level: 'info', idle: '1s' });
    const { ok, files } = loadConfig(join(directory, 'sidecar.yaml'), {});
    expect({ ok, files: [...files.keys()].toSorted() }).toEqual({
      ok: true,
      files: names.map((name) => join(directory, name)).toSorted(),
    });
  });

  test('include a missing one, so that its creation is noticed', () => {
    const directory = filesIn({ 'sidecar.yaml': sidecar, level: 'info' });
    const { ok, files } = loadConfig(join(directory, 'sidecar.yaml'), {});
    expect({ ok, files: [...files.keys()].toSorted() }).toEqual({
      ok: false,
      files: names.map((name) => join(directory, name)).toSorted(),
    });
  });

  test('are absolute paths', () => {
    expect([...loadConfig('config/none.yaml', {}).files.keys()]).toEqual([resolve('config/none.yaml')]);
  });
});

describe('the bounds of a member', () => {
  test.each<[member: string, accepted: readonly string[], refused: readonly string[]]>([
    ['limits: { header: … }', ['1024B', '1MiB'], ['1023B', '1048577']],
    ['limits: { requestBody: … }', ['1', '256MiB, buffered: 256MiB'], ['0', '268435457, buffered: 1GiB', '49MiB']],
    ['limits: { requestBody: …, buffered: 1000 }', ['1000'], ['1001']],
    ['limits: { headers: … }', ['10', '10000'], ['9', '10001']],
    ['limits: { connections: … }', ['1', '1000000'], ['0', '1000001']],
    ['limits: { inFlight: … }', ['1'], ['0', '1.5']],
    ['limits: { failedKeys: … }', ['1/1ms', '999999999/24d'], ['0/1m', '1/0s', '1000000000/1m', '20/25d', '20']],
    ['limits: { account: … }', ['1%', '100%'], ['0%', '101%', '50']],
    ['timeouts: { idle: … }', ['1ms', '2073600000ms'], ['0s', '2073600001ms']],
    ['tracing: { otlp: "http://a", sample: … }', ['0', '1'], ['-0.001', '1.001']],
    ['tracing: …', [], ['{}']],
    [
      'documentation: …',
      ['https://a', 'https://a/b'],
      ['"https://a/b#c"', 'https://a/b?c', 'https://a@b', 'ftp://a', 'a.md'],
    ],
    ['report: …', ['[]'], ['[invalid_api_key]']],
    ['admin: { port: … }', ['0', '65535'], ['-1', '65536', '8080', '8080, host: 127.0.0.1']],
    ['admin: { host: … }', [], ['""']],
    [
      'trustedProxies: [ … ]',
      ['0.0.0.0/0', '10.0.0.0/32', '"::/128"'],
      ['10.0.0.0/33', '"::/129"', '10.0.0/8', '10.0.0.0/', 'localhost'],
    ],
  ])('of %s are respected: %j are accepted, %j are refused', (member, accepted, refused) => {
    const lines = (value: string): string => `${member.replace('…', value)}\n`;
    expect(accepted.filter((value) => !accepts(lines(value)))).toEqual([]);
    expect(refused.filter((value) => accepts(lines(value)))).toEqual([]);
  });

  test('listeners may not share a port on one address, but both may use port 0', () => {
    const on = (listen: string, admin: string): boolean => {
      const sidecar = `${minimal.replace('{}', listen)}admin: ${admin}\n`;
      const directory = filesIn({ 'sidecar.yaml': sidecar, 'accounts.yaml': noAccounts });
      return loadConfig(join(directory, 'sidecar.yaml'), {}).ok;
    };
    expect(on('{ port: 0 }', '{ port: 0 }')).toBe(true);
    expect(on('{ host: 127.0.0.1, port: 1 }', '{ host: 127.0.0.2, port: 1 }')).toBe(true);
    expect(on('{ host: 127.0.0.1, port: 1 }', '{ host: 127.0.0.1, port: 1 }')).toBe(false);
    expect(on('{ host: 127.0.0.1, port: 1 }', '{ host: "::", port: 1 }')).toBe(false);
  });
});

describe('hosts', () => {
  test.each([
    ['a', true],
    ['api.pay.example', true],
    ['API_1-x.example', true],
    ['127.0.0.1', true],
    ['"[2001:db8::1]"', true],
    ['"2001:db8::1"', false],
    ['a:80', false],
    ['"*.example"', false],
    ['a..b', false],
    ['.a', false],
    ['a.', false],
    ['a/b', false],
    ['""', false],
  ])('a host %s is accepted: %s', (host, valid) => {
    const sidecar = minimal.replace('{ upstream', `{ hosts: [${host}], upstream`);
    const directory = filesIn({ 'sidecar.yaml': sidecar, 'accounts.yaml': noAccounts });
    expect(loadConfig(join(directory, 'sidecar.yaml'), {}).ok).toBe(valid);
  });

  test('a list of hosts may not be empty', () => {
    const sidecar = minimal.replace('{ upstream', '{ hosts: [], upstream');
    const directory = filesIn({ 'sidecar.yaml': sidecar, 'accounts.yaml': noAccounts });
    expect(loadConfig(join(directory, 'sidecar.yaml'), {}).ok).toBe(false);
  });
});

describe('upstreams', () => {
  function targetOf(upstream: string): string | undefined {
    const sidecar = minimal.replace('"http://127.0.0.1:3000"', upstream);
    const directory = filesIn({ 'sidecar.yaml': sidecar, 'accounts.yaml': noAccounts });
    const result = loadConfig(join(directory, 'sidecar.yaml'), {});
    const target = result.ok ? result.config.environments[0]?.upstream : undefined;
    return target && `${target.origin} ${target.socketPath}`;
  }

  test.each([
    ['http://127.0.0.1:3000', 'http://127.0.0.1:3000 undefined'],
    ['http://Core', 'http://core undefined'],
    ['https://core.internal:8443', 'https://core.internal:8443 undefined'],
    ['"http://[::1]:3000"', 'http://[::1]:3000 undefined'],
    ['{ url: http://core:1 }', 'http://core:1 undefined'],
    ['unix:/run/core.sock', 'http://localhost /run/core.sock'],
    ['{ url: unix:/run/core.sock }', 'http://localhost /run/core.sock'],
  ])('%s is parsed as %s', (written, target) => {
    expect(targetOf(written)).toBe(target);
  });

  test.each([
    'http://core/',
    'http://core/api',
    '"http://core?a"',
    '"http://core#a"',
    'http://user@core',
    'http://user:word@core',
    'http://core:65536',
    'http://core:',
    '"http://${CORE}:3000"',
    '"http://a b"',
    'http:core',
    'http://',
    'ftp://core',
    'core:3000',
    'unix:core.sock',
    'unix:',
    '{}',
    '[]',
    '3000',
  ])('%s is refused', (written) => {
    expect(targetOf(written)).toBeUndefined();
  });
});

describe('the path of a route', () => {
  test.each([
    ['/', true],
    ['/*', true],
    ['/a', true],
    ['/a/', true],
    ['/a/b-c._~9', true],
    ['/:id', true],
    ['/:id_1/a/*', true],
    ['/...', true],
    ['/.a/b.', true],
    ['*', false],
    ['', false],
    ['a', false],
    ['//', false],
    ['/a//b', false],
    ['/.', false],
    ['/..', false],
    ['/a/./b', false],
    ['/a/../b', false],
    ['/a/..', false],
    ['/:', false],
    ['/:a-b', false],
    ['/a:b', false],
    ['/a*', false],
    ['/*/a', false],
    ['/a b', false],
    ['/%61', false],
    ['/a;b', false],
    ['/a?b', false],
    ['/ä', false],
    ['/a\\n', false],
  ])('%s is accepted: %s', (path, valid) => {
    expect(accepts(`routes: [ { path: "${path}" } ]\n`)).toBe(valid);
  });
});

describe('two routes', () => {
  test.each([
    ['/a', '/a', false],
    ['/a', '/A', false],
    ['/a', '/a/', false],
    ['/a/:x', '/a/:y/', false],
    ['/a/*', '/A/*', false],
    ['/a', '/b', true],
    ['/a', '/a/*', true],
    ['/a/:x', '/a/x', true],
    ['/a/:x', '/a/:x/:y', true],
    ['/', '/*', true],
  ])('%s and %s may both be configured: %s', (one, other, valid) => {
    expect(accepts(`routes: [ { path: "${one}" }, { path: "${other}" } ]\n`)).toBe(valid);
  });

  test.each([
    ['methods: [GET]', 'methods: [POST]', true],
    ['methods: [GET]', 'methods: [POST, GET]', false],
    ['methods: [GET]', 'methods: [HEAD]', false],
    ['methods: [HEAD]', 'methods: [POST]', true],
    ['', 'methods: [POST]', false],
    ['methods: [OPTIONS]', '', false],
  ])('of one path with "%s" and "%s" may both be configured: %s', (one, other, valid) => {
    expect(accepts(`routes: [ { path: /a, ${one} }, { path: /a, ${other} } ]\n`)).toBe(valid);
  });

  test('an upgrade route needs GET', () => {
    const upgrade = (methods: string): boolean => accepts(`routes: [ { path: /a, upgrade: true, ${methods} } ]\n`);
    expect(['', 'methods: [GET]', 'methods: [POST]', 'methods: [HEAD]'].map(upgrade)).toEqual([
      true,
      true,
      false,
      false,
    ]);
  });
});

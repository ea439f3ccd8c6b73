import type { EnvelopeCodec, OpenContext } from '../../src/envelope/codec.ts';
import type { Encoding } from '../../src/envelope/encoding.ts';
import { Writable } from 'node:stream';
import { Registry } from 'prom-client';
import { onTestFinished } from 'vitest';
import { App } from '../../src/app.ts';
import type { Account, Encryption, EncryptionOn } from '../../src/accounts/account.ts';
import { readPrefix, type ApiKey } from '../../src/accounts/api-key.ts';
import type { Config, OperatorsListener, OperatorsToken, Route, UpstreamTarget } from '../../src/config/config.ts';
import type { Credentials } from '../../src/envelope/credentials.ts';
import { createCodec as codecFor, parseCredentials } from '../../src/envelope/formats.ts';
import { createLogger } from '../../src/telemetry/logger.ts';
import type { Defer } from './file-wide.ts';
import { sha256Hex } from '../../src/cryptography.ts';

/** The keys and credentials of tests. */
export const keys = {
  /** Keys of `acme`, which encrypts in test. */
  acme: 'sk_test_acmeacmeacmeacmeacmeacme',
  acmePublic: 'pk_test_acmeacmeacmeacmeacmeacme',
  acmeLive: 'sk_live_acmeacmeacmeacmeacmeacme',
  /** Keys of `globex`, which does not encrypt. */
  globex: 'sk_test_globexglobexglobexglobex',
  globexPublic: 'pk_test_globexglobexglobexglobex',
} as const;

export const acmeTest = { key: 'k7Jq2vXw9RtB4mNz8LpC1sDfG5hYeU3a', iv: 'Zx9Qw3Er7Ty1Ui5O' } as const;
export const acmeLive = { key: 'p4Wn6bVc2KsH8dTf0QaZ5xJm3GyRu7Le', iv: 'Bn4Mx8Cz1Vl6Kj3H' } as const;

export function credentialsOf({ key, iv }: { key: string; iv: string }): Credentials {
  const credentials = parseCredentials(key, iv, 'text');
  if (Array.isArray(credentials)) throw new Error('bad credentials in a test');
  return credentials;
}

export function apiKey(key: string, more: Partial<ApiKey> = {}): ApiKey {
  const id = `${key.slice(0, 7)}-${key.slice(8, 14)}`;
  return {
    id,
    prefix: readPrefix(key),
    hash: sha256Hex(key),
    createdAt: 0,
    expiresAt: undefined,
    revokedAt: undefined,
    ...more,
  };
}

export function codecOf(credentials: { key: string; iv: string }, encoding: Encoding = 'hex'): EnvelopeCodec {
  return codecFor(credentialsOf(credentials), encoding);
}

export function encryptionOf(
  credentials: { key: string; iv: string },
  { encoding, ...more }: Partial<EncryptionOn> & { readonly encoding?: Encoding } = {},
): EncryptionOn {
  return { type: 'on', current: codecOf(credentials, encoding), createdAt: undefined, grace: undefined, ...more };
}

/** A context for formats that remember nothing. */
export const noMemory: OpenContext = { clock: () => 0, memory: () => new Map() };

/** Returns `encryption`, which must be enabled. */
export function enabledOf(encryption: Encryption | undefined): EncryptionOn {
  if (encryption?.type !== 'on') throw new Error('encryption is not enabled');
  return encryption;
}

export const acme: Account = {
  id: 'acme',
  name: 'Acme Stores',
  active: true,
  keys: [apiKey(keys.acme), apiKey(keys.acmePublic), apiKey(keys.acmeLive)],
  encryption: { test: encryptionOf(acmeTest), live: encryptionOf(acmeLive) },
};

export const globex: Account = {
  id: 'globex',
  name: 'Globex',
  active: true,
  keys: [apiKey(keys.globex), apiKey(keys.globexPublic)],
  encryption: {},
};

export function route(path: string, more: Partial<Route> = {}): Route {
  return { path, methods: [], keys: ['secret'], envelope: false, upgrade: false, ...more };
}

export const routes: readonly Route[] = [
  route('/api/v1/transactions/initialize', { methods: ['POST'], keys: ['public', 'secret'] }),
  route('/api/s2s/*', { envelope: true }),
];

/** An upstream at `origin`, with further settings. */
export function targetOf(origin: string, more: Partial<UpstreamTarget> = {}): UpstreamTarget {
  return {
    origin,
    socketPath: undefined,
    ca: undefined,
    cert: undefined,
    key: undefined,
    forwardsAuthorization: false,
    ...more,
  };
}

/** An operator with all rights. */
export function admin(name: string, token: string): OperatorsToken {
  return { name, role: 'admin', account: undefined, hash: sha256Hex(token) };
}

/** The operators' listener on a free port, with further settings. */
export function operatorsOf(
  tokens: readonly OperatorsToken[],
  more: Partial<OperatorsListener> = {},
): OperatorsListener {
  return { host: '127.0.0.1', port: 0, tokens, hosts: [], console: true, tls: undefined, ...more };
}

/** A configuration with free ports and this upstream (an origin). Limits and timeouts are merged member by member. */
export function configOf(
  upstream: string,
  more: Partial<Omit<Config, 'limits' | 'timeouts'>> & {
    limits?: Partial<Config['limits']>;
    timeouts?: Partial<Config['timeouts']>;
  } = {},
): Config {
  const { limits, timeouts, ...rest } = more;
  return {
    listen: { host: '127.0.0.1', port: 0, tls: undefined },
    admin: { host: '127.0.0.1', port: 0 },
    environments: [
      {
        name: 'test',
        hosts: [],
        upstream: targetOf(upstream),
      },
    ],
    operators: undefined,
    store: { type: 'file', file: '/nowhere/accounts.yaml', masterKeys: [], auditKeys: [] },
    accounts: [acme, globex],
    routes,
    cipherTest: { environments: ['test'] },
    trustedProxies: [],
    limits: {
      requestBody: 1_048_576,
      buffered: 50_331_648,
      header: 16_384,
      headers: 100,
      connections: 4_096,
      inFlight: 1_024,
      failedKeys: { attempts: 20, window: 60_000 },
      // One account may use each limit in full. Shares have tests of their own.
      account: 1,
      ...limits,
    },
    timeouts: {
      connect: 2_000,
      header: 10_000,
      request: 60_000,
      upstream: 30_000,
      idle: 75_000,
      // A test ends only when its sidecar has stopped, so requests that nobody answers must not hold it up.
      drain: 2_000,
      ...timeouts,
    },
    report: [],
    tracing: undefined,
    documentation: undefined,
    log: { level: 'info', client: 'truncated' },
    sources: {},
    ...rest,
  };
}

/** A sidecar in this process, stopped when the test is over. */
export interface TestSidecar {
  readonly app: App;
  readonly url: string;
  readonly port: number;
  readonly adminUrl: string;
  /** All metrics as they are now. Those of the admin listener may be a second old. */
  readonly registry: Registry;
  /** The log's lines so far, parsed. */
  readonly log: readonly Record<string, unknown>[];
  /** The access lines so far. */
  accessLines(): Record<string, unknown>[];
}

/** The token with which sidecars in this process accept `POST /drain`. */
export const drainToken = 'drain-token-of-the-tests';

export async function startSidecar(
  config: Config,
  clock: () => number = Date.now,
  defer: Defer = onTestFinished,
): Promise<TestSidecar> {
  const log: Record<string, unknown>[] = [];
  const destination = new Writable({
    write(line: Buffer, _encoding, done) {
      log.push(JSON.parse(line.toString()) as Record<string, unknown>);
      done();
    },
  });
  const registry = new Registry();
  const app = new App(config, {
    log: createLogger(config.log.level, destination),
    clock,
    version: '0.0.0',
    env: {},
    drainToken,
    registry,
    digests: {},
  });
  await app.start();
  defer(() => app.stop());
  return {
    app,
    registry,
    port: app.addresses.merchants.port,
    url: `http://127.0.0.1:${app.addresses.merchants.port}`,
    adminUrl: `http://127.0.0.1:${app.addresses.admin.port}`,
    log,
    accessLines: () => log.filter(({ msg }) => msg === 'request'),
  };
}

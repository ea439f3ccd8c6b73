import { createSecretKey, randomBytes } from 'node:crypto';
import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import { join } from 'node:path';
import { tmpdir } from 'node:os';
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { AccountsError } from '../../src/accounts/accounts-error.ts';
import { readAccounts } from '../../src/accounts/file/read.ts';
import { createMasterKey } from '../../src/accounts/master-key.ts';
import { PostgresStore } from '../../src/accounts/postgres/store.ts';
import { Importer } from '../../src/accounts/transfer/importer.ts';
import { Vault } from '../../src/accounts/vault.ts';
import { Files } from '../../src/yaml/files.ts';
import { YamlFile } from '../../src/yaml/yaml-file.ts';
import { createAuthority, type Certificate } from '../../test/support/certificates.ts';
import type { Contents } from '../../test/support/folder.ts';
import { startPostgres } from '../../test/support/postgres.ts';
import type { Defer } from './stage.ts';

/** The services, on loopback, that a sidecar with every feature on needs. */
export interface Backing {
  /** The authority that issued all certificates, in PEM. */
  readonly ca: string;
  /** The certificate of every listener, including the core's. */
  readonly server: Certificate;
  /** The certificate of merchants and operators, and of the sidecar as a client of the core. */
  readonly client: Certificate;
  /** The base URL of the trace collector. */
  readonly otlp: string;
  /** The number of trace batches that the collector has received. */
  readonly traceBatches: () => number;
  /** Creates a database with the accounts of an accounts file, and returns its URL. */
  databaseOf(accounts: Contents): Promise<string>;
}

export const operatorsToken = 'operators-token-of-a-trial-0123456789';
const viewersToken = 'viewers-token-of-a-trial-9876543210';
const masterKey = randomBytes(32);

export async function startBacking(defer: Defer): Promise<Backing> {
  const authority = createAuthority();
  let batches = 0;
  // PostgreSQL is started only when needed, because some trials have their accounts in a file.
  let postgres: ReturnType<typeof startPostgres> | undefined;
  const receiver = createServer((req, res) => {
    batches += 1;
    req.resume().on('end', () => res.writeHead(200, { 'Content-Type': 'application/x-protobuf' }).end());
  });
  await new Promise<void>((resolve) => void receiver.listen(0, '127.0.0.1', resolve));
  defer(() => {
    receiver.closeAllConnections();
    receiver.close();
  });
  return {
    ca: authority.cert,
    server: authority.issue('IP:127.0.0.1', 'DNS:localhost'),
    client: authority.issue('DNS:client.example'),
    otlp: `http://127.0.0.1:${(receiver.address() as AddressInfo).port}`,
    traceBatches: () => batches,
    databaseOf: async (accounts) => {
      const url = await (await (postgres ??= startPostgres(defer))).createDatabase();
      await importInto(url, accounts);
      return url;
    },
  };
}

/** The options that differ between sidecars with every feature on. */
export interface FeatureOptions {
  /** The core's origin. With `https:`, both sides present certificates. */
  readonly core: string;
  /** The source of the accounts. `file` stands for `accounts.yaml` in the folder of the configuration. */
  readonly accounts: { readonly database: string } | 'file';
  /** Whether merchants speak TLS. */
  readonly tls: boolean;
  readonly timeouts: Readonly<Record<'connect' | 'header' | 'request' | 'upstream' | 'idle' | 'drain', string>>;
  /** The refusals that are only reported, not enforced. */
  readonly report?: readonly string[];
}

/** A configuration with every member set, on free loopback ports. */
export function everyFeature(backing: Backing, options: FeatureOptions): Contents {
  const { core, accounts, tls, timeouts, report = [] } = options;
  const listenerTls = { ...backing.server, clientCa: backing.ca };
  const upstreamTls = core.startsWith('https:') ? { ca: backing.ca, ...backing.client } : {};
  const masterKeyText = masterKey.toString('base64');
  return {
    listen: { host: '127.0.0.1', port: 0, ...(tls && { tls: listenerTls }) },
    admin: { host: '127.0.0.1', port: 0 },
    operators: {
      host: '127.0.0.1',
      port: 0,
      tokens: [
        { name: 'operator', role: 'admin', token: operatorsToken },
        { name: 'globex', role: 'viewer', account: 'globex', token: viewersToken },
      ],
      hosts: ['operators.pay.example'],
      console: true,
      tls: listenerTls,
    },
    environments: {
      test: {
        hosts: ['sandbox.pay.example', 'localhost', '127.0.0.1'],
        upstream: { url: core, ...upstreamTls },
      },
      live: {
        hosts: ['api.pay.example'],
        upstream: { url: core, ...upstreamTls, authorization: 'forward' },
      },
    },
    accounts:
      accounts === 'file'
        ? { file: 'accounts.yaml', masterKey: masterKeyText }
        : { postgres: { url: accounts.database, masterKey: masterKeyText, cache: 100, staleFor: '1m' } },
    routes: [
      { path: '/api/v1/transactions/initialize', methods: ['POST'], keys: ['public', 'secret'] },
      { path: '/api/s2s/*', envelope: true },
      { path: '/only/post', methods: ['POST'] },
      { path: '/socket', upgrade: true },
    ],
    cipherTest: { environments: ['test'] },
    trustedProxies: ['10.0.0.0/8'],
    limits: {
      requestBody: '1MiB',
      buffered: '48MiB',
      header: '16KiB',
      headers: 100,
      connections: 4_096,
      inFlight: 1_024,
      failedKeys: '20/1m',
      account: '50%',
    },
    timeouts,
    report,
    tracing: { otlp: backing.otlp, sample: 0.1 },
    documentation: 'https://docs.pay.example/errors',
    log: { level: 'info', client: 'full' },
  };
}

/** Imports the accounts of an accounts file into a database. */
async function importInto(url: string, accounts: Contents): Promise<void> {
  const folder = mkdtempSync(join(tmpdir(), 'sidecar-accounts-'));
  const store = new PostgresStore(url);
  try {
    const path = join(folder, 'accounts.yaml');
    // JSON is also valid YAML.
    writeFileSync(path, JSON.stringify(accounts));
    const file = new YamlFile(path, new Files());
    const vault = new Vault([createMasterKey(createSecretKey(masterKey))]);
    const { accounts: stored } = readAccounts(file, {}, vault);
    if (file.problems.length > 0) throw new Error(JSON.stringify(file.problems));
    const importer = new Importer({ store, vault, clock: Date.now }, vault, 'user:trial');
    for (const outcome of await importer.add(stored)) if (outcome instanceof AccountsError) throw outcome;
  } finally {
    await store.close();
    rmSync(folder, { recursive: true, force: true });
  }
}

import { mkdirSync, readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { packageFile } from '../package-file.ts';
import { complain } from './complain.ts';
import { exitCodes, type CliIo } from './io.ts';

const schemas = ['sidecar.schema.json', 'accounts.schema.json'];

/**
 * `init`: writes a commented configuration for a new installation into a folder, with the schemas for editors. Never
 * overwrites a file. Returns the exit code.
 */
export async function init(io: Pick<CliIo, 'stdout' | 'stderr'>, folder: string): Promise<number> {
  const shipped = schemas.map((name) => [name, readFileSync(packageFile(`config/${name}`), 'utf8')] as const);
  const written: string[] = [];
  try {
    mkdirSync(folder, { recursive: true });
    for (const [name, text] of [['sidecar.yaml', sidecarYaml], ['accounts.yaml', accountsYaml], ...shipped] as const) {
      const file = join(folder, name);
      // Accounts will hold keys and credentials.
      writeFileSync(file, text, { flag: 'wx', mode: name === 'accounts.yaml' ? 0o600 : 0o644 });
      written.push(file);
    }
  } catch (error) {
    const { code, path } = error as NodeJS.ErrnoException;
    if (code === undefined) throw error;
    const reason = code === 'EEXIST' ? 'it already exists' : code;
    await complain(io, `init: cannot write ${path ?? folder}: ${reason}\n`);
    return exitCodes.failed;
  }
  await io.stdout.write(`Wrote ${written.join(', ')}.\nNext: sidecar check --config ${join(folder, 'sidecar.yaml')}\n`);
  return exitCodes.done;
}

const sidecarYaml = `# yaml-language-server: $schema=sidecar.schema.json
#
# The configuration of envelope-sidecar. "sidecar check" names every mistake in it; "sidecar check --online" also tries
# the store, the credentials and the upstreams. A running sidecar applies valid changes by itself. Values in comments are examples.

# Merchants' traffic.
listen:
  host: 0.0.0.0
  port: 8080
  # tls: { cert: tls.crt, key: tls.key }

# Health checks and metrics.
admin: { host: 0.0.0.0, port: 9090 }

# The operators' API. Each line of the file is "name: token".
# operators: { host: 127.0.0.1, port: 9091, token: { file: operators-token } }

# Where requests go. If there are two environments, each needs the host names that merchants use for it.
environments:
  test:
    # hosts: [sandbox.pay.example]
    upstream: http://127.0.0.1:3000
  # live: { hosts: [api.pay.example], upstream: https://core.internal }

# Who may send requests: a file, or PostgreSQL if several sidecars share the accounts.
accounts:
  file: accounts.yaml
  # Seals credentials before they are stored: head -c 32 /dev/urandom | base64 > master-key
  # masterKey: { file: master-key }
  # postgres: { url: '\${DATABASE_URL}', masterKey: { file: master-key } }

# The most specific path decides. Paths that are not listed take secret keys and no envelopes.
routes:
  # A browser may call it, with a public key.
  - { path: /api/v1/transactions/initialize, methods: [POST], keys: [public, secret] }
  # From server to server: accounts that encrypt must send envelopes and get envelopes.
  - { path: /api/s2s/*, envelope: true }

# Refusals that are only counted and logged while you find out what merchants send; empty when you have.
# report: [key_not_permitted, method_not_allowed, encryption_not_supported]

# The gateway's addresses: only its X-Forwarded-* headers are believed.
# trustedProxies: [10.0.0.0/8]

# Where merchants can try their encryption. Leave live out: gateways log headers, and the key is in one.
cipherTest: { environments: [test] }
`;

const accountsYaml = `# yaml-language-server: $schema=accounts.schema.json
#
# The accounts. Do not write keys by hand: these commands make them, show them once and store only a hash. They find this file
# by the configuration that --config or the variable SIDECAR_CONFIG names.
#
#   sidecar accounts add acme --name 'Acme Stores'
#   sidecar keys issue acme --environment test --kind secret
#   sidecar encryption enable acme --environment test

accounts: []
`;

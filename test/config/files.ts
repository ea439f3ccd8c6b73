import { execFileSync } from 'node:child_process';
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { onTestFinished } from 'vitest';

/** A sidecar.yaml with only the required members. Lines can be appended. */
export const minimal = `listen: {}
environments: { test: { upstream: "http://127.0.0.1:3000" } }
accounts: { file: accounts.yaml }
`;

/** An accounts file without accounts. */
export const noAccounts = 'accounts: []\n';

/** Writes files into a new directory, which is removed after the test. Returns the path of the directory. */
export function filesIn(files: Readonly<Record<string, string | Buffer>>): string {
  const directory = mkdtempSync(join(tmpdir(), 'config-test-'));
  onTestFinished(() => rmSync(directory, { recursive: true }));
  // Some of the files contain secrets, and `check` warns if every user can read them.
  for (const [name, content] of Object.entries(files)) writeFileSync(join(directory, name), content, { mode: 0o600 });
  return directory;
}

/** Makes a new certificate and its private key with openssl. Both are in PEM, by default on a strong elliptic curve. */
export function newCertificate(algorithm: readonly string[] = ['ec', '-pkeyopt', 'ec_paramgen_curve:P-256']): {
  cert: string;
  key: string;
} {
  const directory = mkdtempSync(join(tmpdir(), 'config-test-'));
  try {
    const [cert, key] = [join(directory, 'cert.pem'), join(directory, 'key.pem')];
    execFileSync(
      'openssl',
      ['req', '-x509', '-newkey', ...algorithm, '-nodes', '-keyout', key, '-out', cert, '-subj', '/CN=localhost'],
      { stdio: 'ignore' },
    );
    return { cert: readFileSync(cert, 'utf8'), key: readFileSync(key, 'utf8') };
  } finally {
    rmSync(directory, { recursive: true });
  }
}

import { execFileSync } from 'node:child_process';
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';

/** A certificate and its private key, in PEM. */
export interface Certificate {
  readonly cert: string;
  readonly key: string;
}

/** A certificate authority, created with the openssl command line. */
export interface Authority extends Certificate {
  /** Issues a certificate for subject alternative names such as `DNS:localhost` and `IP:127.0.0.1`. */
  issue(...names: readonly string[]): Certificate;
}

const newKeys = {
  ec: ['-newkey', 'ec', '-pkeyopt', 'ec_paramgen_curve:prime256v1', '-nodes'],
  rsa: ['-newkey', 'rsa:2048', '-nodes'],
};

/**
 * @param days how long the authority's own certificate is valid
 * @param type the type of the authority's key and of the keys of issued certificates
 */
export function createAuthority(days = 2, type: keyof typeof newKeys = 'ec'): Authority {
  const newKey = newKeys[type];
  const root = inDirectory((openssl) => {
    const request = ['req', '-x509', ...newKey, '-keyout', 'key.pem', '-out', 'cert.pem'];
    openssl(...request, '-days', String(days), '-subj', '/CN=Test CA');
  });
  return {
    ...root,
    issue: (...names) =>
      inDirectory((openssl, write) => {
        write('ca.pem', root.cert);
        write('ca.key', root.key);
        write('extensions', `basicConstraints=CA:FALSE\nsubjectAltName=${names.join(',')}\n`);
        openssl('req', ...newKey, '-keyout', 'key.pem', '-out', 'request.pem', '-subj', '/CN=test');
        const signing = [
          '-CA',
          'ca.pem',
          '-CAkey',
          'ca.key',
          '-CAcreateserial',
          '-days',
          '2',
          '-extfile',
          'extensions',
        ];
        openssl('x509', '-req', '-in', 'request.pem', '-out', 'cert.pem', ...signing);
      }),
  };
}

/** Runs `work` in a temporary folder. Returns the certificate and the key that openssl has written there. */
function inDirectory(
  work: (openssl: (...args: readonly string[]) => void, write: (file: string, text: string) => void) => void,
): Certificate {
  const directory = mkdtempSync(join(tmpdir(), 'certificates-'));
  try {
    work(
      (...args) => void execFileSync('openssl', args, { cwd: directory, stdio: 'pipe' }),
      (file, text) => writeFileSync(join(directory, file), text),
    );
    const read = (file: string): string => readFileSync(join(directory, file), 'utf8');
    return { cert: read('cert.pem'), key: read('key.pem') };
  } finally {
    rmSync(directory, { recursive: true });
  }
}

import { execFileSync, spawn } from 'node:child_process';
import { readFileSync } from 'node:fs';
import { createServer } from 'node:https';
import { expect, onTestFinished, test } from 'vitest';
import { startServe } from '../support/command.ts';
import { describeUnless } from '../support/describe-unless.ts';
import { accountsFile, Folder, globexEntry, sidecarFile } from '../support/folder.ts';
import { listen } from '../support/listen.ts';
import { keys } from '../support/sidecar.ts';
import { missingTools } from '../support/tools.ts';

/** One finding of testssl.sh. */
interface Finding {
  readonly id: string;
  readonly severity: 'OK' | 'INFO' | 'LOW' | 'MEDIUM' | 'HIGH' | 'CRITICAL' | 'WARN' | 'FATAL' | 'DEBUG';
  readonly finding: string;
}

const certificate = { cert: 'cert.pem', key: 'key.pem' } as const;

/** Makes a self-signed certificate with an RSA key, because a listener offers more ciphers with RSA than with ECDSA. */
function makeCertificate(folder: Folder): void {
  const files = ['-keyout', folder.file(certificate.key), '-out', folder.file(certificate.cert)];
  const args = ['req', '-x509', '-newkey', 'rsa:2048', '-nodes', '-days', '2', '-subj', '/CN=localhost', ...files];
  execFileSync('openssl', args, { stdio: 'ignore' });
}

/** Runs the sections of testssl.sh that the options in `sections` select. */
async function findings(folder: Folder, port: number, name: string, ...sections: string[]): Promise<Finding[]> {
  const json = folder.file(name);
  const quiet = ['--quiet', '--color', '0', '--warnings', 'batch', '--nodns', 'none'];
  const child = spawn('testssl', [...sections, ...quiet, '--jsonfile', json, `127.0.0.1:${port}`], {
    stdio: 'ignore',
    // Suppress a warning about an openssl without the GOST engine, which testssl.sh does not need, because it tries ciphers by itself.
    env: { ...process.env, NO_ENGINE: 'true' },
  });
  const ended = new Promise((resolve) => void child.once('close', resolve));
  onTestFinished(async () => {
    child.kill('SIGKILL');
    await ended;
  });
  await ended;
  return JSON.parse(readFileSync(json, 'utf8')) as Finding[];
}

function aboveLow(all: readonly Finding[]): string[] {
  const harmless = new Set<Finding['severity']>(['OK', 'INFO', 'LOW', 'DEBUG']);
  return all.filter(({ severity }) => !harmless.has(severity)).map(({ id }) => id);
}

/** Starts a listener with ciphers that encrypt nothing. @returns its port */
async function startWeakListener(folder: Folder): Promise<number> {
  const server = createServer({
    cert: readFileSync(folder.file(certificate.cert)),
    key: readFileSync(folder.file(certificate.key)),
    maxVersion: 'TLSv1.2',
    ciphers: 'AES128-SHA:NULL-SHA256:@SECLEVEL=0',
  });
  return listen(server);
}

// The check for ROBOT takes as long as all others together. It concerns OpenSSL, not the settings of a listener.
const robot = process.env['TESTSSL'] === 'all' ? ['-BB'] : undefined;
const others = ['-H', '-I', '-T', '-R', '-C', '-B', '-O', '-Z', '-W', '-A', '-L', '-F', '-J', '-D', '-4'];
const protocolsAndCiphers = ['-p', '-s', '-f', '-P'];

describeUnless(missingTools('testssl', 'openssl'), 'testssl.sh', () => {
  test(
    'finds nothing above "low" in protocols, ciphers and vulnerabilities, and does find the faults of a weak listener',
    { timeout: 400_000 },
    async () => {
      const folder = new Folder({});
      makeCertificate(folder);
      folder.write({
        'sidecar.yaml': sidecarFile('http://127.0.0.1:9', {
          listen: { host: '127.0.0.1', port: 0, tls: certificate },
        }),
        'accounts.yaml': accountsFile(globexEntry(keys.globex)),
      });
      const { port } = await startServe(folder.file('sidecar.yaml'));

      const [weak, ...sections] = await Promise.all([
        findings(folder, await startWeakListener(folder), 'weak.json', '-s'),
        findings(folder, port, 'ciphers.json', ...protocolsAndCiphers),
        ...(robot === undefined ? [] : [findings(folder, port, 'robot.json', ...robot)]),
        findings(folder, port, 'others.json', ...others),
      ]);

      const all = sections.flat();
      expect(aboveLow(all)).toEqual([]);
      expect(aboveLow(weak)).toContain('cipherlist_NULL');
      const found = (id: string): string | undefined => all.find((each) => each.id === id)?.finding;
      for (const old of ['SSLv2', 'SSLv3', 'TLS1', 'TLS1_1']) expect(`${old} ${found(old)}`).toBe(`${old} not offered`);
      for (const version of ['TLS1_2', 'TLS1_3']) expect(found(version)).toMatch(/^offered/);
      // These findings show that testssl.sh ran to the end.
      const looked = all.map(({ id }) => id);
      expect(looked).toEqual(
        expect.arrayContaining(['cipherlist_NULL', 'PFS', 'heartbleed', 'LUCKY13', 'RC4', ...(robot ? ['ROBOT'] : [])]),
      );
    },
  );
});

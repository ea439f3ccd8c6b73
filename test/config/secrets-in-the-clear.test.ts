import { generateKeyPairSync } from 'node:crypto';
import { chmodSync } from 'node:fs';
import { expect, test } from 'vitest';
import { createAuthority } from '../support/certificates.ts';
import { runCommand } from '../support/cli.ts';
import { startServe } from '../support/command.ts';
import { acmeEntry, accountsFile, Folder, globexEntry, sidecarFile } from '../support/folder.ts';
import { keys } from '../support/sidecar.ts';

const masterKey = Buffer.alloc(32, 7).toString('base64');
const inTheClear =
  /accounts\.yaml:1:\d+ {2}accounts {2}warning: 1 account has credentials in the clear: set accounts\.masterKey, then run "accounts rekey --new-master-key-file FILE" with the file of the master key/;

function folderWith(account: object, accounts: object = {}, more: object = {}): Folder {
  return new Folder({
    'sidecar.yaml': sidecarFile('http://127.0.0.1:1', { accounts: { file: 'accounts.yaml', ...accounts }, ...more }),
    'accounts.yaml': accountsFile(globexEntry(keys.globex), account as Record<string, unknown>),
    'master-key': masterKey,
    'operators-token': `ana: ${'t'.repeat(32)}\n`,
  });
}

const check = (folder: Folder) => runCommand(['check', '--config', folder.file('sidecar.yaml')]);

test('check and serve warn of credentials in the clear, until a master key has sealed them', async () => {
  const folder = folderWith(acmeEntry);
  const checked = await check(folder);
  expect(checked).toMatchObject({ code: 0, stderr: '' });
  expect(checked.stdout).toMatch(inTheClear);
  expect(checked.stdout).toMatch(/\nOK\n$/);
  const sidecar = await startServe(folder.file('sidecar.yaml'));
  expect(sidecar.log).toContainEqual(
    expect.objectContaining({ level: 'warn', problem: expect.stringMatching(inTheClear) as string }),
  );
  folder.write({
    'sidecar.yaml': sidecarFile('http://127.0.0.1:1', {
      accounts: { file: 'accounts.yaml', masterKey: { file: 'master-key' } },
    }),
  });
  expect((await check(folder)).stdout).toMatch(
    /warning: 1 account has credentials in the clear: run "accounts rekey --new-master-key-file FILE" with the file of the master key\nOK\n$/,
  );
  const config = ['--config', folder.file('sidecar.yaml')];
  const rekeyed = await runCommand([
    'accounts',
    'rekey',
    '--new-master-key-file',
    folder.file('master-key'),
    ...config,
  ]);
  expect(rekeyed).toMatchObject({ code: 0 });
  expect(await check(folder)).toEqual({ code: 0, stdout: 'OK\n', stderr: '' });
});

test('encryption enable warns if it stores credentials in the clear, and does not if there is a master key', async () => {
  const acme = { ...acmeEntry, encryption: {} };
  const enable = (folder: Folder) =>
    runCommand(['encryption', 'enable', 'acme', '--environment', 'test', '--config', folder.file('sidecar.yaml')]);
  const clear = await enable(folderWith(acme));
  expect(clear.code).toBe(0);
  expect(clear.stderr).toContain('"level":"warn"');
  expect(clear.stderr).toContain('the key and the IV are stored in the clear: set accounts.masterKey');
  const sealed = await enable(folderWith(acme, { masterKey: { file: 'master-key' } }));
  expect(sealed.code).toBe(0);
  expect(sealed.stderr).not.toContain('"warn"');
});

test.each([
  ['operators.token', {}, { operators: { token: { file: 'operators-token' } } }, 'operators-token'],
  [
    'operators.tokens[1].token',
    {},
    {
      operators: {
        tokens: [
          { name: 'bea', token: 'b'.repeat(32) },
          { name: 'ana', token: { file: 'token' } },
        ],
      },
    },
    'token',
  ],
  ['accounts.masterKey', { masterKey: { file: 'master-key' } }, {}, 'master-key'],
  ['accounts.masterKey.test', { masterKey: { test: { file: 'master-key' } } }, {}, 'master-key'],
  ['audit.key', {}, { audit: { key: { file: 'audit.pem' } } }, 'audit.pem'],
  ['listen.tls.key', {}, { listen: { tls: { cert: 'tls.crt', key: 'tls.key' } } }, 'tls.key'],
  ['listen.tls.key', {}, { listen: { tls: { cert: 'tls.crt', key: { file: 'tls.key' } } } }, 'tls.key'],
  [
    'operators.tls.key',
    {},
    { operators: { token: { file: 'operators-token' }, tls: { cert: 'tls.crt', key: 'tls.key' } } },
    'tls.key',
  ],
  [
    'environments.test.upstream.key',
    {},
    { environments: { test: { upstream: { url: 'https://core', cert: 'tls.crt', key: 'tls.key' } } } },
    'tls.key',
  ],
])('check warns if %s is in a file that every user can read', async (member, accounts, more, file) => {
  const folder = folderWith({ ...acmeEntry, encryption: {} }, accounts, more);
  const pair = createAuthority().issue('DNS:localhost');
  const auditKey = generateKeyPairSync('ed25519').privateKey.export({ type: 'pkcs8', format: 'pem' });
  folder.write({ token: 'a'.repeat(32), 'audit.pem': auditKey, 'tls.crt': pair.cert, 'tls.key': pair.key });
  for (const [mode, isWarned] of [
    [0o600, false],
    [0o640, false],
    [0o444, true],
    [0o604, true],
  ] as const) {
    chmodSync(folder.file(file), mode);
    const { code, stdout } = await check(folder);
    expect(code).toBe(0);
    expect(stdout.includes(`  ${member}  warning: every user of this machine can read the file`)).toBe(isWarned);
  }
});

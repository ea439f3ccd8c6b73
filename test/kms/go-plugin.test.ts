import { execFile, spawn } from 'node:child_process';
import { createSecretKey, randomBytes } from 'node:crypto';
import { existsSync } from 'node:fs';
import { fileURLToPath } from 'node:url';
import { promisify } from 'node:util';
import { expect, onTestFinished, test } from 'vitest';
import { openedKey, parseMasterKeys } from '../../src/accounts/master-key.ts';
import { kmsKeyring } from '../../src/kms/kms-keyring.ts';
import { describeUnless } from '../support/describe-unless.ts';
import { eventually } from '../support/eventually.ts';
import { Folder } from '../support/folder.ts';

// Debian's Go packages have no module versions, so they are looked up in this folder.
const packages = '/usr/share/gocode';
const isInstalled = existsSync(`${packages}/src/google.golang.org/grpc`);
const source = fileURLToPath(new URL('go-plugin/main.go', import.meta.url));
const missing = isInstalled ? undefined : 'it needs what scripts/install-test-tools.sh installs';

describeUnless(missing, 'a KMS plug-in on grpc-go', () => {
  test('wraps and unwraps, and gets its annotations back', { timeout: 300_000 }, async () => {
    const folder = new Folder({});
    const env = { ...process.env, GO111MODULE: 'off', GOPATH: packages, GOFLAGS: '' };
    await promisify(execFile)('go', ['build', '-o', folder.file('plugin'), source], { env });
    const socket = folder.file('kms.sock');
    const child = spawn(folder.file('plugin'), [socket], { stdio: ['ignore', 'pipe', 'inherit'] });
    const ended = new Promise((resolve) => void child.once('close', resolve));
    onTestFinished(async () => {
      child.kill('SIGKILL');
      await ended;
    });
    let output = '';
    child.stdout.on('data', (text: Buffer) => (output += text.toString()));
    await eventually('the plug-in is ready', () => output.includes('ready\n'));

    const keyring = kmsKeyring({ socket, timeout: 3_000 }, Date.now);
    expect(await keyring.status()).toEqual({ healthy: true, keyId: 'go-1' });
    const key = createSecretKey(randomBytes(32));
    const [wrapped] = parseMasterKeys(await keyring.wrap(key)) ?? [];
    if (wrapped?.wrapped === undefined) throw new Error('not a line');
    expect(wrapped.wrapped.annotations).toMatchObject({ 'empty.go.example': '' });
    expect(openedKey(await keyring.unwrap(wrapped)).equals(key)).toBe(true);
    const other = { ...wrapped.wrapped, key_id: 'go-2', ciphertext: '', annotations: {} };
    // The plug-in's error has no specific gRPC status.
    await expect(keyring.unwrap({ ...wrapped, wrapped: other })).rejects.toMatchObject({ code: 'kms_unavailable' });
  });
});

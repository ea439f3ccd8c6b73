import { expect, test } from 'vitest';
import { acmeTest } from '../support/sidecar.ts';
import { startServe } from '../support/command.ts';
import { eventually } from '../support/eventually.ts';
import { Folder, globexEntry, accountsFile, sidecarFile } from '../support/folder.ts';
import { occurrences } from '../support/memory.ts';

test('reloads leave no further copies of secrets in the memory of the process', { timeout: 240_000 }, async () => {
  const masterKey = Buffer.from(Array.from({ length: 32 }, (_, i) => (i * 37 + 11) % 256));
  const texts = {
    'master-key': masterKey.toString('base64'),
    token: `operators-token-${'q7Zx'.repeat(8)}`,
    'api-key': `sk_test_${'Vw93'.repeat(6)}`,
  };
  const entry = {
    ...globexEntry(),
    keys: [{ id: 'k', key: { file: 'api-key' }, createdAt: '2026-11-01' }],
    // The account encrypts, so the loading thread also transfers an IV, as bytes.
    encryption: { test: { enabled: true, ...acmeTest } },
  };
  const folder = new Folder({
    'sidecar.yaml': sidecarFile('http://127.0.0.1:1', {
      accounts: { file: 'accounts.yaml', masterKey: { file: 'master-key' } },
      operators: { port: 0, token: { file: 'token' } },
    }),
    'accounts.yaml': accountsFile(entry),
    ...texts,
  });
  const sidecar = await startServe(folder.file('sidecar.yaml'), {
    // With this option, as in the image, Node returns the memory of a thread to the system when the thread ends.
    nodeOptions: ['--no-memory-pool-share-memory-on-teardown'],
  });
  for (let reloads = 1; reloads <= 20; reloads += 1) {
    sidecar.signal('SIGHUP');
    await sidecar.untilEntries('configuration reloaded', reloads);
  }
  const count = () =>
    occurrences(sidecar.process.pid ?? 0, {
      bytes: masterKey,
      ...Object.fromEntries(Object.entries(texts).map(([name, text]) => [name, Buffer.from(text)])),
    });
  // One copy of the master key remains in use. There are more copies until the loading thread ends, which first waits five seconds for
  // another change.
  await eventually('one copy of the master key remains', () => count()['bytes'] === 1, { timeout: 20_000 });
  const counts = count();
  // If each reload left a copy, there would be 20.
  expect(Object.entries(counts).filter(([, count]) => count > 8)).toEqual([]);
});

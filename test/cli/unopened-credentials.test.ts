import { expect, test, vi } from 'vitest';
import { parseMasterKeys } from '../../src/accounts/master-key.ts';
import { Vault } from '../../src/accounts/vault.ts';
import { runCommand } from '../support/cli.ts';
import { envelopeOf, send } from '../support/client.ts';
import { startServe } from '../support/command.ts';
import { accountsFile, Folder, sidecarFile } from '../support/folder.ts';
import { acmeTest, keys } from '../support/sidecar.ts';
import { settle } from '../support/turns.ts';
import { startUpstream } from '../support/upstream.ts';

const masterKey = Buffer.alloc(32, 7).toString('base64');
const olderKey = Buffer.alloc(32, 6).toString('base64');
const otherKey = Buffer.alloc(32, 8).toString('base64');

/** An account whose credentials are sealed with this master key. */
function entry(id: string, sealedWith: string, apiKey: string): Record<string, unknown> {
  const vault = new Vault(parseMasterKeys(sealedWith) ?? []);
  const sealed = (member: 'key' | 'iv'): string =>
    vault.wrap(acmeTest[member], { account: id, environment: 'test', member });
  return {
    id,
    name: id,
    keys: [{ id: `${id}-1`, key: apiKey, createdAt: '2026-11-01' }],
    encryption: { test: { enabled: true, key: sealed('key'), iv: sealed('iv') } },
  };
}

async function folderWith(...accounts: readonly Record<string, unknown>[]) {
  const upstream = await startUpstream();
  const settings = { accounts: { file: 'accounts.yaml', masterKey: { file: 'master-key' } } };
  const routes = [{ path: '/api/s2s/*', envelope: true }];
  const folder = new Folder({
    'sidecar.yaml': sidecarFile(upstream.origin, { ...settings, routes }),
    'accounts.yaml': accountsFile(...accounts),
    'master-key': `${masterKey}\n${olderKey}`,
  });
  return { folder, upstream, config: folder.file('sidecar.yaml') };
}

const good = entry('acme', masterKey, keys.acme);
const bad = entry('globex', otherKey, keys.globex);

test('check fails if sealed credentials do not open, although others do', async () => {
  const { folder, config } = await folderWith(good, bad);
  const checked = await runCommand(['check', '--config', config]);
  expect(checked.code).toBe(78);
  expect(checked.stdout).toMatch(/accounts\.yaml:\d+:\d+ {2}accounts\[1\]\.encryption\.test\.key {2}does not open: /);
  expect(checked.stdout).not.toContain('OK');
  folder.write({ 'accounts.yaml': accountsFile(good) });
  expect(await runCommand(['check', '--config', config])).toMatchObject({ code: 0, stdout: 'OK\n' });
});

test('a start serves the other accounts, and logs an error and the refused account', async () => {
  const { upstream, config } = await folderWith(good, bad);
  const sidecar = await startServe(config);
  const post = (key: string) => send(sidecar, 'POST /api/s2s/x', { key, body: envelopeOf(acmeTest, '{}') });
  expect((await post(keys.acme)).status).toBe(200);
  expect((await post(keys.globex)).status).toBe(503);
  expect(upstream.seen).toHaveLength(1);
  expect(sidecar.log).toContainEqual(
    expect.objectContaining({
      level: 'warn',
      problem: expect.stringContaining('accounts[1].encryption.test.key') as string,
    }),
  );
  expect(sidecar.entries('not all sealed credentials open with the master key')).toMatchObject([{ level: 'error' }]);
});

test.each([
  ['the accounts', { 'accounts.yaml': accountsFile(good, bad) }, 'accounts'],
  ['the master keys', { 'master-key': masterKey }, 'sidecar'],
])('a reload of %s is refused if it would break an account that works', async (_, change, file) => {
  const { folder, config } = await folderWith(good, entry('globex', olderKey, keys.globex));
  const sidecar = await startServe(config);
  const post = (key: string) => send(sidecar, 'POST /api/s2s/x', { key, body: envelopeOf(acmeTest, '{}') });
  folder.replace(change);
  const problems = await sidecar.untilEntries('configuration is invalid: the current one is kept');
  expect(new Set(problems.map((problem) => problem['file']))).toEqual(new Set([file]));
  for (const key of [keys.acme, keys.globex]) expect((await post(key)).status).toBe(200);
  await settle();
  expect(sidecar.entries('configuration reloaded')).toEqual([]);
});

test('of refused accounts, only revocations and deactivations are applied', async () => {
  const other = (id: string, more: object): Record<string, unknown> => {
    const keys = [{ id: `${id}-1`, key: `sk_test_${id.repeat(6)}`, createdAt: '2026-11-01', ...more }];
    return { id, name: id, keys };
  };
  const before = [good, other('zeta', {}), other('kilo', {})];
  const { folder, config } = await folderWith(...before, entry('globex', olderKey, keys.globex));
  const sidecar = await startServe(config);
  const status = async (key: string): Promise<number> => (await send(sidecar, 'GET /api/v1/balance', { key })).status;
  const inactive = { ...other('zeta', {}), active: false };
  const revoked = other('kilo', { revokedAt: '2026-11-02' });
  // The key of acme is missing, which does not revoke it, because the file may be that of another sidecar.
  folder.replace({ 'accounts.yaml': accountsFile({ ...good, keys: [] }, inactive, revoked, other('nova', {}), bad) });
  await sidecar.untilEntries('configuration is invalid: the current one is kept');
  expect(await status(keys.acme)).toBe(200);
  expect(await status(keys.globex)).toBe(200);
  expect(await status(`sk_test_${'nova'.repeat(6)}`)).toBe(401);
  await vi.waitFor(async () => expect(await status(`sk_test_${'zeta'.repeat(6)}`)).toBe(403));
  expect(await status(`sk_test_${'kilo'.repeat(6)}`)).toBe(401);
});

test('a reload that leaves an account broken is applied, and so is one that repairs it', async () => {
  const { folder, config } = await folderWith(good, bad);
  const sidecar = await startServe(config);
  folder.replace({ 'accounts.yaml': accountsFile(good, bad, entry('new', masterKey, 'sk_test_newnewnewnewnewnew')) });
  expect(await sidecar.untilEntries('configuration reloaded')).toMatchObject([{ files: ['accounts'] }]);
  folder.replace({ 'accounts.yaml': accountsFile(good, entry('globex', masterKey, keys.globex)) });
  await sidecar.untilEntries('configuration reloaded', 2);
  const response = await send(sidecar, 'POST /api/s2s/x', { key: keys.globex, body: envelopeOf(acmeTest, '{}') });
  expect(response.status).toBe(200);
});

test('the first log line contains the version, the configuration, the environments, the store and the number of accounts', async () => {
  const { folder, config } = await folderWith(good);
  const sidecar = await startServe(config);
  expect(sidecar.log[0]).toMatchObject({
    level: 'info',
    msg: 'starting',
    version: expect.stringMatching(/^\d+\.\d+\.\d+/) as string,
    node: process.version,
    configuration: config,
    environments: ['test'],
    store: folder.file('accounts.yaml'),
    accounts: 1,
  });
});

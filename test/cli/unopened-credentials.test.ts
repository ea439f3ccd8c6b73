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

/** The API key of an account that does not encrypt. */
const keyOf = (id: string): string => `sk_test_${id.repeat(6)}`;

/** An account that does not encrypt, and further members of its key. */
function plain(id: string, ofKey: object = {}): Record<string, unknown> {
  return { id, name: id, keys: [{ id: `${id}-1`, key: keyOf(id), createdAt: '2026-11-01', ...ofKey }] };
}

const refusal = 'configuration is invalid: the current one is kept';

test('an account whose credentials no longer open keeps its current ones; all other changes in the file are applied', async () => {
  const healthy = plain('lima');
  const before = [good, plain('zeta'), plain('kilo'), healthy, entry('globex', olderKey, keys.globex)];
  const { folder, config, upstream } = await folderWith(...before);
  const sidecar = await startServe(config);
  const get = async (key: string): Promise<number> => (await send(sidecar, 'GET /api/v1/balance', { key })).status;
  const post = (key: string, body: string) => send(sidecar, 'POST /api/s2s/x', { key, body });
  expect((await post(keyOf('lima'), '{}')).status).toBe(200);
  const second = { id: 'globex-2', key: 'sk_test_second_key_of_globex', createdAt: '2026-11-02' };
  folder.replace({
    'accounts.yaml': accountsFile(
      { ...good, keys: [] },
      { ...plain('zeta'), active: false },
      plain('nova'),
      { ...healthy, encryption: entry('lima', masterKey, keyOf('lima'))['encryption'] },
      { ...bad, keys: [second] },
    ),
  });
  const [problem] = await sidecar.untilEntries(refusal);
  expect(problem).toMatchObject({
    file: 'accounts',
    problem: expect.stringMatching(
      /account globex in test does not open.*; its current credentials are kept$/,
    ) as string,
  });
  await vi.waitFor(async () => expect(await get(keyOf('nova'))).toBe(200));
  expect(await get(keyOf('zeta'))).toBe(403);
  // The keys of acme, the account kilo, and a key of the account whose credentials do not open are missing.
  for (const key of [keys.acme, keyOf('kilo'), keys.globex]) expect(await get(key)).toBe(401);
  expect((await post(second.key, envelopeOf(acmeTest, '{}'))).headers['envelope']).toBe('sealed');
  const seen = upstream.seen.length;
  expect((await post(keyOf('lima'), '{}')).status).toBe(400);
  expect(upstream.seen).toHaveLength(seen);
  expect((await post(keyOf('lima'), envelopeOf(acmeTest, '{}'))).status).toBe(200);
  expect(sidecar.entries('configuration reloaded')).toEqual([]);
});

test.each<[string, Record<string, unknown>]>([
  ['a variable that is not set', { ...bad, name: '${NOT_SET}' }],
  ['a key that is not valid', { ...bad, keys: [{ id: 'globex-1', prefix: 'sk_test_' }] }],
])('of a file refused for %s, only what ends access is applied', async (_, wrong) => {
  const before = [good, ...['zeta', 'kilo', 'lima', 'oscar'].map((id) => plain(id))];
  const { folder, config } = await folderWith(...before);
  const sidecar = await startServe(config);
  const status = async (key: string): Promise<number> => (await send(sidecar, 'GET /api/v1/balance', { key })).status;
  const ended = [
    { ...plain('zeta'), active: false },
    plain('kilo', { revokedAt: '2026-11-02' }),
    plain('lima', { expiresAt: '2026-11-03' }),
    // The same key again, which is not valid.
    { ...plain('lima'), id: 'mike' },
    plain('oscar', { createdAt: 'yesterday', revokedAt: '2026-11-02' }),
  ];
  // The key of acme is missing, which does not revoke it, because the file may be half of a file.
  folder.replace({ 'accounts.yaml': accountsFile({ ...good, keys: [] }, ...ended, plain('nova'), wrong) });
  await sidecar.untilEntries(refusal);
  expect(await status(keys.acme)).toBe(200);
  expect(await status(keyOf('nova'))).toBe(401);
  await vi.waitFor(async () => expect(await status(keyOf('zeta'))).toBe(403));
  for (const id of ['kilo', 'lima', 'oscar']) expect(await status(keyOf(id))).toBe(401);
});

test('a sidecar without a master key applies a file with sealed credentials, except for these', async () => {
  const { folder, config, upstream } = await folderWith(plain('zeta'), plain('kilo'));
  folder.write({ 'sidecar.yaml': sidecarFile(upstream.origin, { accounts: { file: 'accounts.yaml' } }) });
  const sidecar = await startServe(config);
  const status = async (key: string): Promise<number> => (await send(sidecar, 'GET /api/v1/balance', { key })).status;
  const sealed = { ...plain('zeta'), encryption: entry('zeta', masterKey, keyOf('zeta'))['encryption'] };
  folder.replace({ 'accounts.yaml': accountsFile(sealed, plain('kilo', { revokedAt: '2026-11-02' }), good) });
  const [problem] = await sidecar.untilEntries(refusal);
  expect(problem?.['problem']).toMatch(
    /account zeta in test needs the master key.*; its current credentials are kept$/,
  );
  await vi.waitFor(async () => expect(await status(keyOf('kilo'))).toBe(401));
  expect(await status(keyOf('zeta'))).toBe(200);
  expect(await status(keys.acme)).toBe(503);
});

test('a file is refused if none of its credentials open and none of its keys is known', async () => {
  const { folder, config } = await folderWith(good);
  const sidecar = await startServe(config);
  // The other sidecar has an account with the same id.
  const other = { ...entry('acme', otherKey, 'sk_test_of_another_sidecar'), active: false };
  folder.replace({ 'accounts.yaml': accountsFile(bad, other, plain('zeta')) });
  const [refused] = await sidecar.untilEntries(refusal);
  expect(refused).toMatchObject({ file: 'accounts' });
  expect((await send(sidecar, 'GET /api/v1/balance', { key: keys.acme })).status).toBe(200);
});

test('while an account keeps its current credentials, settings are applied, even those of the store', async () => {
  const { folder, config, upstream } = await folderWith(good, plain('kilo'));
  const sidecar = await startServe(config);
  folder.replace({ 'accounts.yaml': accountsFile(entry('acme', otherKey, keys.acme), plain('kilo')) });
  await sidecar.untilEntries(refusal);
  const settings = { accounts: { file: 'accounts.yaml', masterKey: { file: 'master-key' } }, keys: { maxAge: '400d' } };
  folder.replace({ 'sidecar.yaml': sidecarFile(upstream.origin, settings) });
  expect(await sidecar.untilEntries('configuration reloaded')).toMatchObject([{ files: ['sidecar'] }]);
  folder.replace({ 'master-key': `${masterKey}\n${olderKey}\n${Buffer.alloc(32, 5).toString('base64')}` });
  expect((await sidecar.untilEntries('configuration reloaded', 2))[1]).toMatchObject({ files: ['sidecar'] });
  const status = async (key: string): Promise<number> => (await send(sidecar, 'GET /api/v1/balance', { key })).status;
  expect(await status(keys.acme)).toBe(200);
  folder.replace({
    'accounts.yaml': accountsFile(entry('acme', otherKey, keys.acme), plain('kilo', { revokedAt: '2026-11-02' })),
  });
  await vi.waitFor(async () => expect(await status(keyOf('kilo'))).toBe(401), { timeout: 5_000 });
  expect(await status(keys.acme)).toBe(200);
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

import { setTimeout as delay } from 'node:timers/promises';
import { expect, test } from 'vitest';
import { pollInterval } from '../../src/config/reload.ts';
import { runCommand } from '../support/cli.ts';
import { envelopeOf, send } from '../support/client.ts';
import { startServe, type Serving } from '../support/command.ts';
import { accountsFile, Folder, globexEntry, sidecarFile } from '../support/folder.ts';
import { describeWithPostgres, usePostgres } from '../support/postgres.ts';
import { keys } from '../support/sidecar.ts';
import { startUpstream } from '../support/upstream.ts';

const [masterKey, otherKey] = [7, 8].map((byte) => Buffer.alloc(32, byte).toString('base64'));
const refusal = 'configuration is invalid: the current one is kept';

/** The reasons why `sidecar.yaml` was refused, one for each time that it was logged. */
const reasons = (sidecar: Serving): string[] => sidecar.entries(refusal).map(({ problem }) => String(problem));

describeWithPostgres('a reload that names', () => {
  const postgres = usePostgres();

  /** Starts a sidecar with an encrypting merchant in a database. */
  async function startEncrypting() {
    const url = await postgres.createDatabase();
    const proxy = await postgres.proxy(url);
    const upstream = await startUpstream();
    const routes = [{ path: '/api/s2s/*', envelope: true }];
    const configure = (more: object, store: object = {}) => {
      const accounts = { postgres: { url: { file: 'url' }, masterKey: { file: 'master-key' }, ...store } };
      return { 'sidecar.yaml': sidecarFile(upstream.origin, { accounts, routes, ...more }) };
    };
    const folder = new Folder({
      ...configure({}),
      'master-key': `${masterKey}`,
      url: proxy.url,
    });
    const config = folder.file('sidecar.yaml');
    const run = async (line: string): Promise<{ key: string; iv: string }> => {
      const { stdout } = await runCommand([...line.split(' '), '--json', '--config', config]);
      return JSON.parse(stdout) as { key: string; iv: string };
    };
    await run('accounts add acme --name Acme');
    const { key } = await run('keys issue acme --environment test --kind secret');
    const credentials = await run('encryption enable acme --environment test');
    const sidecar = await startServe(config);
    const charge = async ({ key: secret, iv } = credentials): Promise<number> => {
      const body = envelopeOf({ key: secret, iv }, '{}');
      return (await send(sidecar, 'POST /api/s2s/charge', { key, body })).status;
    };
    expect(await charge()).toBe(200);
    return { folder, sidecar, charge, run, proxy, url, configure };
  }

  test('a master key that does not open credentials in use is refused until these have been replaced', async () => {
    const { folder, sidecar, charge, run } = await startEncrypting();
    folder.replace({ 'master-key': `${otherKey}` });
    await sidecar.untilEntries(refusal);
    expect(reasons(sidecar)).toEqual([
      expect.stringMatching(/ {2}accounts {2}not applied; .*: the sealed key of account acme in test does not open/),
    ]);
    expect(await charge()).toBe(200);
    const replaced = await run('encryption enable acme --environment test --replace');
    // The next poll tries the new master key again.
    await sidecar.untilEntries('configuration reloaded');
    expect(await charge(replaced)).toBe(200);
    expect(reasons(sidecar)).toHaveLength(1);
  });

  test.each([
    ['one more master key', { 'master-key': `${masterKey}\n${otherKey}` }],
    ['another size of the cache', { cache: 20_000 }],
  ])('%s is applied once the database is back, and keys in the cache work until then', async (_, change) => {
    const { folder, sidecar, proxy, charge, configure } = await startEncrypting();
    proxy.cut();
    folder.replace('cache' in change ? configure({}, change) : change);
    await sidecar.untilEntries(refusal);
    expect(reasons(sidecar)).toEqual([expect.stringContaining('the database cannot be reached')]);
    expect(await charge()).toBe(200);
    proxy.mend();
    await sidecar.untilEntries('configuration reloaded');
    expect(await charge()).toBe(200);
  });

  test('the same store is applied although the database cannot be reached, and keys in the cache work', async () => {
    const { folder, sidecar, proxy, charge, configure } = await startEncrypting();
    proxy.cut();
    folder.replace(configure({ log: { level: 'debug' } }));
    await sidecar.untilEntries('configuration reloaded');
    expect(reasons(sidecar)).toEqual([]);
    expect(await charge()).toBe(200);
  });

  test('a file in which an account cannot be unwrapped is refused, and so is a database that contains it', async () => {
    const { folder, sidecar, charge, configure, run, url } = await startEncrypting();
    await run('accounts add other --name Other');
    await run('encryption enable other --environment test');
    const exported = async (): Promise<object> => {
      const { stdout } = await runCommand(['accounts', 'export', '--config', folder.file('sidecar.yaml')]);
      const lines = stdout.trim().split('\n');
      return { 'accounts.yaml': { accounts: lines.map((line) => JSON.parse(line) as object) } };
    };
    const good = await exported();
    await postgres.psql(
      url,
      `UPDATE envelope_sidecar.encryption SET key = regexp_replace(key, '.$', CASE right(key, 1) WHEN 'A' THEN 'B' ELSE 'A' END)
        WHERE account_id = 'other'`,
    );
    const inFile = configure({ accounts: { file: 'accounts.yaml', masterKey: { file: 'master-key' } } });
    folder.replace({ ...(await exported()), ...inFile });
    await sidecar.untilEntries(refusal);
    expect(reasons(sidecar)).toContainEqual(expect.stringContaining('account other'));
    expect(await charge()).toBe(200);

    folder.replace({ ...good, ...inFile });
    await sidecar.untilEntries('configuration reloaded');
    const before = reasons(sidecar).length;
    folder.replace(configure({}));
    await sidecar.untilEntries(refusal, before + 1);
    expect(reasons(sidecar).at(-1)).toContain('account other');
    expect(await charge()).toBe(200);
  });

  test('another database that cannot be used is refused until a reload is requested, because it may be half a copy', async () => {
    const { folder, sidecar, charge, configure } = await startEncrypting();
    const next = await postgres.createDatabase();
    await postgres.psql(next, 'ALTER SCHEMA envelope_sidecar RENAME TO away');
    folder.replace({ url: next });
    await sidecar.untilEntries(refusal);
    expect(reasons(sidecar)).toEqual([expect.stringContaining('the schema is at version 0, but version ')]);
    expect(await charge()).toBe(200);
    await postgres.psql(next, "INSERT INTO away.accounts VALUES ('globex', 'Globex', true)");
    await postgres.psql(next, 'ALTER SCHEMA away RENAME TO envelope_sidecar');
    folder.replace(configure({ log: { level: 'debug' } }));
    await sidecar.untilEntries(refusal, 2);
    // Wait past the next poll.
    await delay(pollInterval + 2_000);
    expect(await charge()).toBe(200);
    expect(reasons(sidecar)).toHaveLength(2);
    sidecar.signal('SIGHUP');
    await sidecar.untilEntries('configuration reloaded');
    expect(await charge()).toBe(401);
  });

  test('a database without accounts is refused, even when a copy in progress has added the first ones', async () => {
    const { folder, sidecar, charge, configure } = await startEncrypting();
    const next = await postgres.createDatabase();
    folder.replace({ url: next });
    await sidecar.untilEntries(refusal);
    expect(reasons(sidecar)).toEqual([
      expect.stringContaining('the database has no accounts: reload once it has some'),
    ]);
    await postgres.psql(next, "INSERT INTO envelope_sidecar.accounts VALUES ('globex', 'Globex', true)");
    const url = new URL(next);
    url.username = 'somebody';
    for (const [index, change] of [
      configure({ log: { level: 'debug' } }),
      { 'master-key': `${masterKey}\n${otherKey}` },
      { url: url.href },
      { url: next },
    ].entries()) {
      folder.replace(change);
      await sidecar.untilEntries(refusal, index + 2);
    }
    // Wait past the next poll.
    await delay(pollInterval + 2_000);
    expect(await charge()).toBe(200);
    expect(sidecar.entries('configuration reloaded')).toEqual([]);
    sidecar.signal('SIGHUP');
    await sidecar.untilEntries('configuration reloaded');
    expect(await charge()).toBe(401);
  });

  test('a file without accounts is refused', async () => {
    const { folder, sidecar, charge, configure } = await startEncrypting();
    const accounts = { file: 'accounts.yaml', masterKey: { file: 'master-key' } };
    folder.replace({ 'accounts.yaml': { accounts: [] }, ...configure({ accounts }) });
    await sidecar.untilEntries(refusal);
    expect(reasons(sidecar)).toEqual([expect.stringContaining('the file has no accounts: reload once it has some')]);
    expect(await charge()).toBe(200);
  });

  test('a database whose notifications do not arrive is refused, and `check --online` says so', async () => {
    const { folder, sidecar, charge, url } = await startEncrypting();
    const pooler = await postgres.proxy(url);
    pooler.swallowNotifications();
    folder.replace({ url: pooler.url });
    await sidecar.untilEntries(refusal);
    const reason = 'notifications from the database do not arrive';
    expect(reasons(sidecar)).toEqual([expect.stringContaining(reason)]);
    expect(await charge()).toBe(200);
    const checked = await runCommand(['check', '--online', '--config', folder.file('sidecar.yaml')]);
    expect(checked.code).toBe(1);
    expect(checked.stdout).toContain(reason);
    pooler.mend();
    sidecar.signal('SIGHUP');
    await sidecar.untilEntries('configuration reloaded');
    expect(await charge()).toBe(200);
  });

  test('a database that does not respond keeps the accounts of the file, in which a key is revoked', async () => {
    const next = await postgres.createDatabase();
    const frozen = await postgres.proxy(next);
    frozen.freeze();
    const upstream = await startUpstream();
    const folder = new Folder({
      'sidecar.yaml': sidecarFile(upstream.origin),
      'accounts.yaml': accountsFile(globexEntry(keys.globex)),
    });
    const sidecar = await startServe(folder.file('sidecar.yaml'));
    const status = async (): Promise<number> => (await send(sidecar, 'GET /', { key: keys.globex })).status;
    expect(await status()).toBe(200);
    const accounts = { postgres: { url: frozen.url, masterKey } };
    folder.replace({ 'sidecar.yaml': sidecarFile(upstream.origin, { accounts }) });
    await sidecar.untilEntries(refusal);
    expect(reasons(sidecar)).toEqual([expect.stringMatching(/the database (cannot be reached|did not respond)/)]);
    expect(await status()).toBe(200);
    folder.replace({ 'accounts.yaml': accountsFile(globexEntry()) });
    await sidecar.untilEntries('configuration reloaded');
    expect(await status()).toBe(401);
    // The reload that revoked the key did not try the database again, so the revocation did not have to wait for it.
    expect(frozen.connections).toBe(1);

    // Wait past the next poll.
    await delay(pollInterval + 2_000);
    expect(frozen.connections).toBe(1);
    frozen.mend();
    await postgres.psql(next, "INSERT INTO envelope_sidecar.accounts VALUES ('globex', 'Globex', true)");
    sidecar.signal('SIGHUP');
    await sidecar.untilEntries('configuration reloaded', 2);
    expect(reasons(sidecar)).toHaveLength(2);
  });
});

import { expect, test } from 'vitest';
import { runCommand } from '../support/cli.ts';
import { envelopeOf, send } from '../support/client.ts';
import { startServe, type Serving } from '../support/command.ts';
import { accountsFile, Folder, globexEntry, sidecarFile } from '../support/folder.ts';
import { describeWithPostgres, usePostgres } from '../support/postgres.ts';
import { keys } from '../support/sidecar.ts';
import { startUpstream } from '../support/upstream.ts';

const [masterKey, otherKey] = [7, 8].map((byte) => Buffer.alloc(32, byte).toString('base64'));
const refusal = 'configuration is invalid: the current one is kept';

/** Why `sidecar.yaml` was refused, each reason as often as it was logged. */
const reasons = (sidecar: Serving): string[] => sidecar.entries(refusal).map(({ problem }) => String(problem));

describeWithPostgres('a reload that names', () => {
  const postgres = usePostgres();

  /** A sidecar with an encrypting merchant in a database. */
  async function startEncrypting() {
    const proxy = await postgres.proxy(await postgres.createDatabase());
    const upstream = await startUpstream();
    const store = { postgres: { url: { file: 'url' }, masterKey: { file: 'master-key' } } };
    const routes = [{ path: '/api/s2s/*', envelope: true }];
    const folder = new Folder({
      'sidecar.yaml': sidecarFile(upstream.origin, { accounts: store, routes }),
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
    return { folder, sidecar, charge, run, proxy };
  }

  test('a master key that does not open credentials which work now is refused, until they were replaced', async () => {
    const { folder, sidecar, charge, run } = await startEncrypting();
    folder.replace({ 'master-key': `${otherKey}` });
    await sidecar.untilEntries(refusal);
    expect(reasons(sidecar)).toEqual([
      expect.stringMatching(/ {2}accounts {2}not applied, .*: the sealed key of account acme in test does not open/),
    ]);
    expect(await charge()).toBe(200);
    const replaced = await run('encryption enable acme --environment test --replace');
    // The next poll.
    await sidecar.untilEntries('configuration reloaded');
    expect(await charge(replaced)).toBe(200);
    expect(reasons(sidecar)).toHaveLength(1);
  });

  test('one more master key is applied although the database is away', async () => {
    const { folder, sidecar, proxy } = await startEncrypting();
    proxy.cut();
    folder.replace({ 'master-key': `${masterKey}\n${otherKey}` });
    await sidecar.untilEntries('configuration reloaded');
    expect(reasons(sidecar)).toEqual([]);
  });

  test('a database that cannot be used is refused until it can', async () => {
    const { folder, sidecar, charge } = await startEncrypting();
    const next = await postgres.createDatabase();
    await postgres.psql(next, 'ALTER SCHEMA envelope_sidecar RENAME TO away');
    folder.replace({ url: next });
    await sidecar.untilEntries(refusal);
    expect(reasons(sidecar)).toEqual([expect.stringContaining('schema is at 0, needs ')]);
    expect(await charge()).toBe(200);
    await postgres.psql(next, 'ALTER SCHEMA away RENAME TO envelope_sidecar');
    await sidecar.untilEntries(refusal, 2);
    expect(reasons(sidecar).at(-1)).toContain('the database has no accounts');
    expect(await charge()).toBe(200);
    await postgres.psql(next, "INSERT INTO envelope_sidecar.accounts VALUES ('globex', 'Globex', true)");
    await sidecar.untilEntries('configuration reloaded');
    expect(await charge()).toBe(401);
    expect(reasons(sidecar)).toHaveLength(2);
  });

  test('a database that does not respond keeps the accounts of the file, in which a key is revoked', async () => {
    const frozen = await postgres.proxy(await postgres.createDatabase());
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
    expect(reasons(sidecar)).toEqual([expect.stringMatching(/the database (cannot be reached|does not respond)/)]);
    expect(await status()).toBe(200);
    folder.replace({ 'accounts.yaml': accountsFile(globexEntry()) });
    await sidecar.untilEntries('configuration reloaded');
    expect(await status()).toBe(401);
  });
});

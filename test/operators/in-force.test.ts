import { readFileSync } from 'node:fs';
import { setTimeout as delay } from 'node:timers/promises';
import { expect, test } from 'vitest';
import { lockFile } from '../../src/accounts/file/lock.ts';
import { Operations } from '../../src/accounts/operations.ts';
import type { Config } from '../../src/config/config.ts';
import { loadConfig } from '../../src/config/load.ts';
import { settings, openStore, vault } from '../accounts/postgres/fixtures.ts';
import { expectPlainRefusal, send } from '../support/client.ts';
import { eventually } from '../support/eventually.ts';
import { listens } from '../support/listen.ts';
import { startServe, type ProcessSetup, type Serving } from '../support/command.ts';
import { accountsFile, Folder, globexEntry, sidecarFile } from '../support/folder.ts';
import { describeWithPostgres, usePostgres } from '../support/postgres.ts';
import { configOf, keys, operatorsOf, startSidecar } from '../support/sidecar.ts';
import { startUpstream } from '../support/upstream.ts';
import { ask, beginRequest, dashboard, startApi, token } from './api.ts';

const revokeGlobex = 'POST /accounts/globex/keys/globex-0/revoke';

/** A module that runs in a sidecar's process and makes accounts.yaml invalid as soon as the sidecar has replaced it. */
const spoilReplaced = `
  import fs from 'node:fs';
  import { syncBuiltinESMExports } from 'node:module';
  const { renameSync } = fs;
  fs.renameSync = (from, to) => {
    renameSync(from, to);
    if (to.endsWith('/accounts.yaml')) fs.writeFileSync(to, '{');
  };
  syncBuiltinESMExports();
`;

/** Starts `serve` with the account globex in its file. Returns it with the URL of its API. */
async function start(setup?: ProcessSetup): Promise<{ folder: Folder; sidecar: Serving; url: string }> {
  const { origin } = await startUpstream();
  const operators = { port: 0, token };
  const folder = new Folder({
    'sidecar.yaml': sidecarFile(origin, { operators }),
    'accounts.yaml': accountsFile(globexEntry(keys.globex)),
  });
  const sidecar = await startServe(folder.file('sidecar.yaml'), setup);
  const { port } = sidecar.entries('listening').find(({ listener }) => listener === 'operators') ?? {};
  return { folder, sidecar, url: `http://127.0.0.1:${String(port)}/api/v1` };
}

test('a change is in force when the response says so, although sidecar.yaml is invalid', async () => {
  const { folder, sidecar, url } = await start();
  folder.replace({ 'sidecar.yaml': '{' });
  expect((await send(sidecar, 'GET /', { key: keys.globex })).status).toBe(200);
  expect((await ask(url, revokeGlobex)).body).toMatchObject({ state: 'revoked', in_force: true });
  expectPlainRefusal(await send(sidecar, 'GET /', { key: keys.globex }), 'invalid_api_key');
});

test('a change that is in progress at SIGTERM is in force when its response says so', async () => {
  const { sidecar, url } = await start();
  const body = '{"environment":"test","kind":"secret"}';
  const client = await beginRequest(url, 'POST /accounts/globex/keys', body);
  sidecar.signal('SIGTERM');
  await sidecar.untilEntries('draining');
  // Wait until no merchants' request is left and the operators' listener closes.
  await eventually('the listener is closed', async () => !(await listens(Number(new URL(url).port))));
  client.send(body.slice(-1));
  expect(await client.untilEnded()).toMatch(/^HTTP\/1\.1 201 [^]*"in_force":true/);
  expect(await sidecar.ended()).toEqual({ code: 0, signal: null });
});

test('a change is not in force if accounts.yaml is made invalid by hand before the sidecar reads it', async () => {
  const nodeOptions = ['--import', `data:text/javascript,${encodeURIComponent(spoilReplaced)}`];
  const { folder, sidecar, url } = await start({ nodeOptions });
  expect((await ask(url, revokeGlobex)).body).toMatchObject({ state: 'revoked', in_force: false });
  expect(readFileSync(folder.file('accounts.yaml'), 'utf8')).toBe('{');
  expect((await send(sidecar, 'GET /', { key: keys.globex })).status).toBe(200);
});

test('a change is not in force in a sidecar that does not see it', async () => {
  const { ask } = await startApi({}, Date.now, 'is deaf');
  expect((await ask('POST /accounts', { body: { id: 'a', name: 'A' } })).body).toMatchObject({ in_force: false });
});

test('a change is not in force if another store came into force while it waited', async () => {
  const { origin } = await startUpstream();
  const globex = accountsFile(globexEntry(keys.globex));
  const folder = new Folder({ 'accounts.yaml': globex, 'other.yaml': globex });
  const configure = (file: string): Config => {
    folder.write({ 'sidecar.yaml': sidecarFile(origin, { accounts: { file }, operators: { port: 0, token } }) });
    const loaded = loadConfig(folder.file('sidecar.yaml'), {});
    if (!loaded.ok) throw new Error('the configuration is invalid');
    return loaded.config;
  };
  const { app } = await startSidecar(configure('accounts.yaml'));
  const release = await lockFile(folder.file('accounts.yaml'), 0);
  const revoked = ask(`http://127.0.0.1:${String(app.addresses.operators?.port)}/api/v1`, revokeGlobex);
  // Wait until the change waits for the lock.
  await delay(500);
  app.apply(configure('other.yaml'));
  release();
  expect((await revoked).body).toMatchObject({ state: 'revoked', in_force: false });
  expect(readFileSync(folder.file('accounts.yaml'), 'utf8')).toContain('revoked');
});

describeWithPostgres('with accounts in a database', () => {
  const postgres = usePostgres();

  test('a change is in force when the response says so, even in a sidecar that gets no notifications', async () => {
    const direct = await postgres.createDatabase();
    const { origin } = await startUpstream();
    const operations = new Operations({ store: openStore(direct), vault, clock: Date.now, audit: () => {} });
    await operations.add('acme', 'Acme', { actor: 'user:test' });
    const issue = { environment: 'test', kind: 'secret', lifetime: undefined } as const;
    const [one, two] = [
      await operations.issueKey('acme', issue, { actor: 'user:test' }),
      await operations.issueKey('acme', issue, { actor: 'user:test' }),
    ];

    const proxy = await postgres.proxy(direct);
    const store = settings(proxy.url, { cache: 10, staleFor: 60_000 });
    const sidecar = await startSidecar(configOf(origin, { accounts: [], store, operators: operatorsOf([dashboard]) }));
    const url = `http://127.0.0.1:${String(sidecar.app.addresses.operators?.port)}/api/v1`;
    for (const { key } of [one, two]) expect((await send(sidecar, 'GET /', { key: key ?? '' })).status).toBe(200);

    expect((await ask(url, `POST /accounts/acme/keys/${one.id}/revoke`)).body).toMatchObject({ in_force: true });
    expectPlainRefusal(await send(sidecar, 'GET /', { key: one.key ?? '' }), 'invalid_api_key');
    expect((await send(sidecar, 'GET /', { key: two.key ?? '' })).status).toBe(200);

    proxy.swallowNotifications();
    expect((await ask(url, `POST /accounts/acme/keys/${two.id}/revoke`)).body).toMatchObject({ in_force: true });
    expectPlainRefusal(await send(sidecar, 'GET /', { key: two.key ?? '' }), 'invalid_api_key');
  });
});

import { readdirSync } from 'node:fs';
import { join } from 'node:path';
import { expect, test } from 'vitest';
import { migrationsFolder } from '../../src/accounts/postgres/migrate.ts';
import { filesIn } from '../config/files.ts';
import { send } from '../support/client.ts';
import { startCommand, startServe, type Command } from '../support/command.ts';
import { describeWithPostgres, usePostgres } from '../support/postgres.ts';
import { startUpstream } from '../support/upstream.ts';
import { masterKey } from '../support/stores.ts';

const migrations = readdirSync(migrationsFolder)
  .map((name) => name.replace('.sql', ''))
  .toSorted();

describeWithPostgres('accounts migrate', () => {
  const postgres = usePostgres();

  async function emptyDatabase(): Promise<string> {
    const url = await postgres.createDatabase();
    await postgres.psql(url, 'DROP SCHEMA envelope_sidecar CASCADE');
    return url;
  }

  function configFor(accounts: object, upstream = 'http://127.0.0.1:1'): string {
    const config = {
      listen: { host: '127.0.0.1', port: 0 },
      admin: { host: '127.0.0.1', port: 0 },
      environments: { test: { upstream } },
      accounts,
    };
    // JSON is also valid YAML.
    return join(filesIn({ 'sidecar.yaml': JSON.stringify(config), 'accounts.yaml': 'accounts: []' }), 'sidecar.yaml');
  }

  const inDatabase = (url: string): object => ({ postgres: { url, masterKey } });

  async function run(config: string, ...args: readonly string[]): Promise<Command & { readonly code: number | null }> {
    const command = startCommand([...args, '--config', config]);
    const { code } = await command.ended();
    return Object.assign(command, { code });
  }

  test('creates the tables, and names the migrations that it applied', async () => {
    const config = configFor(inDatabase(await emptyDatabase()));
    const first = await run(config, 'accounts', 'migrate');
    expect([first.code, first.stdout, first.stderr]).toEqual([0, `Applied ${migrations.join(', ')}.\n`, '']);
    expect((await run(config, 'accounts', 'migrate')).stdout).toBe('The tables are up to date.\n');
    expect((await run(config, 'accounts', 'migrate', '--json')).stdout).toBe('{"migrations":[],"events":0}\n');
  });

  test('prepares an empty database: commands fail and ask for a migration before it, and a merchant is served after it', async () => {
    const upstream = await startUpstream();
    const config = configFor(inDatabase(await emptyDatabase()), upstream.origin);
    const without = await run(config, 'accounts', 'add', 'acme', '--name', 'Acme Stores');
    expect(without.code).toBe(78);
    expect(without.stderr).toContain('run "accounts migrate"');
    await run(config, 'accounts', 'migrate');
    const serving = await startServe(config);
    expect((await run(config, 'accounts', 'add', 'acme', '--name', 'Acme Stores')).code).toBe(0);
    const issued = await run(config, 'keys', 'issue', 'acme', '--environment', 'test', '--kind', 'secret', '--json');
    const { key } = JSON.parse(issued.stdout) as { key: string };
    expect((await send(serving, 'GET /', { key })).status).toBe(200);
    expect(await serving.signal('SIGTERM').ended()).toEqual({ code: 0, signal: null });
  });

  test('lets the first log line state the number of accounts, or why it is unknown', async () => {
    const url = await emptyDatabase();
    const proxy = await postgres.proxy(url);
    const firstLine = async (at: string): Promise<object | undefined> => {
      const serving = await startServe(configFor(inDatabase(at)));
      await serving.signal('SIGKILL').ended();
      return serving.log[0];
    };
    expect(await firstLine(url)).toMatchObject({
      msg: 'starting',
      store: 'postgres',
      accounts_unknown: expect.stringContaining('run "accounts migrate"') as string,
    });
    const config = configFor(inDatabase(url));
    await run(config, 'accounts', 'migrate');
    for (const id of ['acme', 'globex']) await run(config, 'accounts', 'add', id, '--name', id);
    const counted = await firstLine(url);
    expect(counted).toMatchObject({ msg: 'starting', store: 'postgres', accounts: 2 });
    expect(counted).not.toHaveProperty('accounts_unknown');
    expect(await firstLine('postgres://u:hunter2@127.0.0.1:1/x')).toMatchObject({
      accounts_unknown: 'the database cannot be reached (ECONNREFUSED)',
    });
    proxy.freeze();
    expect(await firstLine(proxy.url)).toMatchObject({
      accounts_unknown: 'the database cannot be reached (the connection timed out)',
    });
  });

  test('fails if the accounts are in a file or the database cannot be reached', async () => {
    const inFile = await run(configFor({ file: 'accounts.yaml' }), 'accounts', 'migrate');
    expect([inFile.code, inFile.stderr]).toEqual([
      78,
      'accounts migrate: this configuration stores the accounts in a file, not in a database\n',
    ]);
    const away = await run(configFor(inDatabase('postgres://u:hunter2@127.0.0.1:1/x')), 'accounts', 'migrate');
    expect([away.code, away.stderr]).toEqual([
      1,
      'accounts migrate: the database cannot be reached (ECONNREFUSED) (store_unavailable)\n',
    ]);
  });
});

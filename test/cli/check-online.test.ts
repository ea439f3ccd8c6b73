import { execFile } from 'node:child_process';
import { X509Certificate } from 'node:crypto';
import { chmodSync, chownSync } from 'node:fs';
import { createServer as createPlainServer } from 'node:net';
import { createServer as createTlsServer } from 'node:tls';
import { promisify } from 'node:util';
import { describe, expect, test } from 'vitest';
import { migrate } from '../../src/accounts/postgres/migrate.ts';
import { createAuthority } from '../support/certificates.ts';
import { runCommand, type Ended } from '../support/cli.ts';
import { Folder, sidecarFile, type Contents } from '../support/folder.ts';
import { listen } from '../support/listen.ts';
import { describeWithPostgres, usePostgres } from '../support/postgres.ts';
import { masterKey, otherMasterKey } from '../support/stores.ts';

const day = 86_400_000;

const upstream = async (): Promise<string> =>
  `http://127.0.0.1:${await listen(createPlainServer((socket) => socket.destroy()))}`;

function check(folder: Folder, clock?: () => number): Promise<Ended> {
  return runCommand(['check', '--online', '--config', folder.file('sidecar.yaml')], clock && { clock });
}

describe('check --online', () => {
  test('prints a line for the store, its credentials and each upstream', async () => {
    const origin = await upstream();
    const folder = new Folder({ 'sidecar.yaml': sidecarFile(origin), 'accounts.yaml': 'accounts: []\n' });
    expect(await check(folder)).toEqual({
      code: 0,
      stdout:
        `ok      store          ${folder.file('accounts.yaml')}: 0 accounts\n` +
        'ok      credentials    0 accounts: all open\n' +
        `ok      upstream test  ${origin} accepts connections\nOK\n`,
      stderr: '',
    });
  });

  test('fails with the reason if an upstream does not listen', async () => {
    const folder = new Folder({ 'sidecar.yaml': sidecarFile('http://127.0.0.1:1'), 'accounts.yaml': 'accounts: []\n' });
    const { code, stdout } = await check(folder);
    expect(code).toBe(1);
    expect(stdout).toMatch(/^failed {2}upstream test {2}http:\/\/127\.0\.0\.1:1: ECONNREFUSED$/m);
    expect(stdout).not.toContain('OK');
    const json = await runCommand(['check', '--online', '--json', '--config', folder.file('sidecar.yaml')]);
    expect(JSON.parse(json.stdout)).toMatchObject({
      ok: false,
      problems: [],
      checks: [
        { check: 'store', ok: true },
        { check: 'credentials', ok: true },
        { check: 'upstream test', ok: false, detail: 'http://127.0.0.1:1: ECONNREFUSED' },
      ],
    });
  });

  test.skipIf(process.getuid?.() !== 0)(
    "fails with the operators' API if its user may not write to the trail",
    async () => {
      const folder = new Folder({
        'sidecar.yaml': sidecarFile(await upstream(), {
          operators: { port: 0, token: 'operators-token-of-a-test-0123456789' },
        }),
        'accounts.yaml': 'accounts: []\n',
        'accounts.audit.jsonl': '',
      });
      const trail = folder.file('accounts.audit.jsonl');
      for (const path of [folder.path, folder.file('sidecar.yaml'), folder.file('accounts.yaml'), trail]) {
        chmodSync(path, path === folder.path ? 0o755 : 0o644);
        chownSync(path, 65_534, 65_534);
      }
      const args = ['src/main.ts', 'check', '--online', '--config', folder.file('sidecar.yaml')];
      const checked = () => promisify(execFile)(process.execPath, args, { uid: 65_534, gid: 65_534 });
      expect((await checked()).stdout).toMatch(/^ok {6}store /m);
      // A command that root runs leaves a trail that belongs to root.
      chownSync(trail, 0, 0);
      await expect(checked()).rejects.toMatchObject({
        stdout: expect.stringMatching(
          /^failed {2}store .*accounts\.audit\.jsonl is read-only for this user$/m,
        ) as string,
      });
    },
  );

  test('fails if an upstream does not accept TLS, or its certificate is from an unknown authority', async () => {
    const [authority, stranger] = [createAuthority(), createAuthority()];
    const port = await listen(createTlsServer(stranger.issue('DNS:localhost'), (socket) => void socket.end()));
    const folder = new Folder({
      'sidecar.yaml': sidecarFile('', {
        environments: { test: { upstream: { url: `https://localhost:${port}`, ca: 'ca.crt' } } },
      }),
      'accounts.yaml': 'accounts: []\n',
      'ca.crt': authority.cert,
    });
    expect((await check(folder)).stdout).toMatch(
      /^failed {2}upstream test +https:.*(?:SELF_SIGNED|UNABLE_TO|signature)/m,
    );
    folder.write({ 'ca.crt': stranger.cert });
    expect((await check(folder)).stdout).toMatch(/^ok {6}upstream test +https:\S+ accepts connections$/m);
  });

  test('fails if a certificate of the listener or of an upstream expires within 14 days', async () => {
    // The certificates of this authority are valid for two days.
    const authority = createAuthority();
    const own = authority.issue('DNS:localhost');
    const port = await listen(createTlsServer(own, (socket) => void socket.end()));
    const folder = new Folder({
      'sidecar.yaml': sidecarFile('', {
        listen: { port: 0, tls: { cert: 'own.crt', key: 'own.key' } },
        environments: { test: { upstream: { url: `https://localhost:${port}`, ca: 'ca.crt' } } },
      }),
      'accounts.yaml': 'accounts: []\n',
      'own.crt': own.cert,
      'own.key': own.key,
      'ca.crt': authority.cert,
    });
    const soon = await check(folder);
    expect(soon.code).toBe(1);
    const lines = soon.stdout.match(/^failed {2}certificate .*valid until .* UTC, less than 14 days from now$/gm);
    expect(lines?.map((line) => line.split(/ {2,}/)[1])).toEqual([
      'certificate of upstream test',
      'certificate listen.tls.cert',
      'certificate environments.test.upstream.ca',
    ]);
    const ends = new X509Certificate(own.cert).validToDate.getTime();
    const lineAt = async (now: number): Promise<string | undefined> =>
      /^.* certificate listen\.tls\.cert .*$/m.exec((await check(folder, () => now)).stdout)?.[0];
    expect(await lineAt(ends - 14 * day)).toMatch(/^ok .* valid until \S+ \S+ UTC$/);
    expect(await lineAt(ends - 14 * day + 1)).toMatch(/^failed .* valid until .*, less than 14 days from now$/);
    expect(await lineAt(ends - 1)).toMatch(/^failed .* valid until /);
    expect(await lineAt(ends)).toMatch(/^failed .* expired on /);
    expect(await check(folder, () => ends - 15 * day)).toMatchObject({ code: 0 });
  });

  test('tries nothing if the configuration is invalid, and prints the first 100 problems and their number', async () => {
    for (const [count, lines] of [
      [100, 100],
      [101, 101],
      [3000, 101],
    ] as const) {
      const accounts = Array.from({ length: count }, (_, i) => ({ id: `a${i}`, active: true, keys: [] }));
      const folder = new Folder({ 'sidecar.yaml': sidecarFile('http://127.0.0.1:1'), 'accounts.yaml': { accounts } });
      const { code, stdout } = await check(folder);
      expect(code).toBe(78);
      const written = stdout.split('\n').slice(0, -1);
      expect(written).toHaveLength(lines);
      if (count > 100) expect(written.at(-1)).toBe(`${count} problems; these are the first 100`);
      const json = await runCommand(['check', '--json', '--config', folder.file('sidecar.yaml')]);
      expect(json.code).toBe(78);
      const { problems, problem_count } = JSON.parse(json.stdout) as { problems: unknown[]; problem_count: number };
      expect([problems.length, problem_count]).toEqual([100, count]);
    }
  });
});

describeWithPostgres('check --online with accounts in PostgreSQL', () => {
  const postgres = usePostgres();

  async function folderFor(url: string, key = masterKey, more: Contents = {}): Promise<Folder> {
    return new Folder({
      'sidecar.yaml': sidecarFile(await upstream(), {
        ...more,
        accounts: { postgres: { url, masterKey: { file: 'master-key' } } },
      }),
      'master-key': key,
    });
  }

  test('reports that the database cannot be reached', async () => {
    const { code, stdout } = await check(await folderFor('postgres://nobody@127.0.0.1:1/none'));
    expect(code).toBe(1);
    expect(stdout).toMatch(/^failed {2}store +the database cannot be reached \(ECONNREFUSED\)$/m);
    expect(stdout).toMatch(/^failed {2}credentials +not tested$/m);
  });

  test('says that a migration is missing', async () => {
    const url = await postgres.createDatabase();
    await postgres.psql(url, 'DROP SCHEMA envelope_sidecar CASCADE');
    const empty = await check(await folderFor(url));
    expect(empty.code).toBe(1);
    expect(empty.stdout).toMatch(
      /^failed {2}store +the schema is at version 0, but version \d+ is needed: run "accounts migrate"$/m,
    );
    const older = await postgres.createDatabase();
    await postgres.psql(older, `DELETE FROM envelope_sidecar.migrations WHERE name NOT LIKE '0001%'`);
    expect((await check(await folderFor(older))).stdout).toMatch(
      /^failed {2}store +the schema is at version 1, but version \d+ is needed: run/m,
    );
  });

  test("names the rights that the user lacks, including those to change accounts if the operators' API is enabled", async () => {
    const owner = await postgres.createDatabase();
    await postgres.psql(owner, 'CREATE ROLE reader LOGIN');
    const url = owner.replace('user=postgres', 'user=reader');
    const lacks = (rights: string) => new RegExp(`^failed {2}store .* lacks ${rights}`, 'm');
    expect((await check(await folderFor(url))).stdout).toMatch(
      lacks('USAGE on the schema envelope_sidecar: grant it$'),
    );
    await postgres.psql(owner, 'GRANT USAGE ON SCHEMA envelope_sidecar TO reader');
    expect((await check(await folderFor(url))).stdout).toMatch(lacks('SELECT on accounts, SELECT on api_keys, '));
    const grants =
      'GRANT USAGE ON SCHEMA x TO reader; GRANT SELECT, INSERT, UPDATE ON ALL TABLES IN SCHEMA x TO reader';
    await postgres.psql(owner, grants.replaceAll(' x ', ' envelope_sidecar '));
    await postgres.psql(owner, 'REVOKE INSERT ON envelope_sidecar.accounts FROM reader');
    // Without a limit, this user could use up all connections of the server, and nobody could make changes.
    expect((await check(await folderFor(url))).stdout).toMatch(
      /^ok {6}store .* migrated; its user has no CONNECTION LIMIT$/m,
    );
    await postgres.psql(owner, 'ALTER ROLE reader CONNECTION LIMIT 60');
    expect((await check(await folderFor(url))).stdout).toMatch(/^ok {6}store .* migrated$/m);
    for (const table of ['key_uses', 'previous_uses']) {
      await postgres.psql(owner, `REVOKE SELECT ON envelope_sidecar.${table} FROM reader`);
      expect((await check(await folderFor(url))).stdout).toMatch(lacks(`SELECT on ${table}: grant it$`));
      await postgres.psql(owner, `GRANT SELECT ON envelope_sidecar.${table} TO reader`);
    }
    const operators = { port: 0, token: 'operators-token-of-a-test-0123456789' };
    const { code, stdout } = await check(await folderFor(url, masterKey, { operators }));
    expect([code, stdout]).toEqual([1, expect.stringMatching(lacks('INSERT on accounts, '))]);
  });

  test('says that changes would fail because transactions are read-only, or because the encoding cannot represent every name', async () => {
    const owner = await postgres.createDatabase();
    const name = new URL(owner).pathname.slice(1);
    const server = owner.replace(name, 'postgres');
    const storeLine = async (url: string) => /^.* store .*$/m.exec((await check(await folderFor(url))).stdout)?.[0];
    await postgres.psql(server, `ALTER DATABASE ${name} SET default_transaction_read_only = on`);
    expect(await storeLine(owner)).toMatch(/^failed .* reachable, but its transactions are read-only for this user/);
    await postgres.psql(server, `ALTER DATABASE ${name} RESET default_transaction_read_only`);
    expect(await storeLine(owner)).toMatch(/^ok /);
    await postgres.psql(server, `CREATE DATABASE latin ENCODING 'LATIN1' TEMPLATE template0`);
    const latin = owner.replace(name, 'latin');
    await migrate(latin, () => {});
    expect(await storeLine(latin)).toMatch(/^failed .* reachable, but its encoding is LATIN1, and names need UTF8$/);
  });

  test('reports whether the master key unwraps the credentials', async () => {
    const url = await postgres.createDatabase();
    const folder = await folderFor(url);
    const config = ['--config', folder.file('sidecar.yaml')];
    for (const id of ['acme', 'globex']) {
      await runCommand(['accounts', 'add', id, '--name', id, ...config]);
      await runCommand(['encryption', 'enable', id, '--environment', 'test', ...config]);
    }
    const good = await check(folder);
    expect(good.code).toBe(0);
    expect(good.stdout).toMatch(/^ok {6}store +the database is reachable and migrated$/m);
    expect(good.stdout).toMatch(/^ok {6}credentials +2 accounts: all open with the master key$/m);
    folder.write({ 'master-key': otherMasterKey });
    const wrong = await check(folder);
    expect(wrong.code).toBe(1);
    expect(wrong.stdout).toMatch(
      /^failed {2}credentials +2 of 2 accounts failed: the sealed key of account \w+ in test does not open/m,
    );
    expect(wrong.stdout).not.toContain('sealed:v1');
    // This account is wrapped with the other master key.
    await runCommand(['accounts', 'add', 'initech', '--name', 'Initech', ...config]);
    await runCommand(['encryption', 'enable', 'initech', '--environment', 'test', ...config]);
    folder.write({ 'master-key': masterKey });
    const some = await check(folder);
    expect(some.code).toBe(1);
    expect(some.stdout).toMatch(
      /^failed {2}credentials +1 of 3 accounts failed: the sealed key of account initech in test does not open/m,
    );
  });
});

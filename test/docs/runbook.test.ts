import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { existsSync, readFileSync } from 'node:fs';
import { resolve } from 'node:path';
import { text } from 'node:stream/consumers';
import { expect, onTestFinished, test } from 'vitest';
import { createPaymentCore } from '../../src/demo/payment-core.ts';
import { runCommand } from '../support/cli.ts';
import { startServe } from '../support/command.ts';
import { Folder, sidecarFile } from '../support/folder.ts';
import { describeWithPostgres, postgresPrograms, usePostgres } from '../support/postgres.ts';
import { blocksIn } from '../support/snippets.ts';

const page = readFileSync('docs/runbook.md', 'utf8');

/** The code in a section that is marked to be run, without the indentation of its list. */
function commandsOf(section: string): string {
  const [, body = ''] = page.split(`\n## ${section}\n`);
  const code = blocksIn(body.split('\n## ')[0] ?? '', 'sh run');
  expect(code).not.toEqual([]);
  return code.join('');
}

test('the runbook names only files of deploy/ that exist, and shows a working copy', async () => {
  const named = [...page.matchAll(/\bdeploy\/[\w./-]*\w/g)].map(([path]) => path);
  expect(named.filter((path) => !existsSync(path))).toEqual([]);
  const [copy = ''] = /^cp accounts\.yaml\.backup .*$/m.exec(page) ?? [];
  const folder = new Folder({ 'sidecar.yaml': sidecarFile('http://127.0.0.1:1'), 'accounts.yaml': 'damaged\n' });
  folder.write({ 'accounts.yaml.backup': 'accounts: []\n' });
  expect(await shell(copy, folder, {})).toMatchObject({ stdout: 'OK\n', code: 0 });
});

describeWithPostgres('the runbook', () => {
  const postgres = usePostgres();
  /** A second server, which lacks the users of the first one. */
  const newServer = usePostgres();

  test('each of its commands does what it says', { timeout: 240_000 }, async () => {
    const core = createPaymentCore(() => {}).listen(0, '127.0.0.1');
    onTestFinished(() => void core.close());
    await once(core, 'listening');
    const { port } = core.address() as { port: number };
    const [url, restored] = [await postgres.createDatabase(), await newServer.createDatabase()];
    await newServer.psql(restored, 'DROP SCHEMA envelope_sidecar CASCADE');
    await postgres.psql(url, `CREATE ROLE sidecar; GRANT SELECT ON envelope_sidecar.accounts TO sidecar`);
    const store = { postgres: { url: '${DATABASE_URL}', masterKey: { file: 'master-key' } } };
    const folder = new Folder({
      'sidecar.yaml': sidecarFile(`http://127.0.0.1:${port}`, { accounts: store }),
      'master-key': Buffer.alloc(32, 1).toString('base64'),
    });
    const config = folder.file('sidecar.yaml');
    const env = { DATABASE_URL: url };
    const run = async (line: string): Promise<string> =>
      (await runCommand([...line.split(' '), '--config', config], { env })).stdout;
    const logged = async (line: string): Promise<string> =>
      (await runCommand([...line.split(' '), '--config', config], { env })).stderr;
    const first = await logged('accounts add acme --name Acme');
    await run('accounts add globex --name Globex');
    const issuing = await run('keys issue acme --environment test --kind secret --json');
    const { key, id } = JSON.parse(issuing) as { key: string; id: string };
    const before = JSON.parse(await run('encryption enable acme --environment test --json')) as { key: string };
    // Start two sidecars on one database, as during a rollout. Both must notice the changes.
    const sidecars = [await startServe(config, { env }), await startServe(config, { env })] as const;
    const [sidecar, other] = sidecars.map((each) => `http://127.0.0.1:${each.port}`);
    const authorized = { headers: { Authorization: `Bearer ${key}` } };
    const status = async (base = ''): Promise<number> => (await fetch(`${base}/api/v1/other`, authorized)).status;
    await expect.poll(() => status(sidecar)).not.toBe(401);

    const around = { ...env, OWNER_URL: url, LEAKED: key, RESTORED_URL: restored, MERCHANTS_URL: `${sidecar}` };
    const chosen = { ACCOUNT: 'acme', KEY_ID: id, ENVIRONMENT: 'test', KIND: 'secret', BACKUP_TIME: '2026-01-01' };
    const rest = { ...around, ...chosen };
    const leaked = await shell(commandsOf('A leaked API key').replace('curl ', 'sleep 1; curl '), folder, rest);
    expect(leaked).toMatchObject({ code: 0 });
    expect(leaked.stdout).toMatch(
      /^account +acme\nid +key_\w+\n(?:.*\n)*environment +test\nkind +secret\n(?:.*\n)*key_\w+ is revoked\.\n401\nkey +sk_test_/,
    );
    expect(await status(other)).toBe(401);

    const replaced = await shell(commandsOf('Leaked credentials'), folder, rest);
    expect(replaced).toMatchObject({ code: 0 });
    expect(replaced.stdout).not.toContain(before.key);

    // Log lines of the first and the last event in the backup, and of lost events. One of the lost events has the position of an event in
    // the backup.
    const last = await logged('accounts rename globex --name Globe');
    const lines = (actions: readonly string[]): string =>
      actions
        .map((action, i) => `${JSON.stringify({ action, position: i + 2, hash: '0f'.repeat(32), msg: 'audit' })}\n`)
        .join('');
    const granting = lines(['key_issued', 'account_added', 'account_renamed', 'account_activated']);
    // Without these events, something that was revoked or replaced works again.
    const taking = lines([
      'key_revoked',
      'key_rotated',
      'account_deactivated',
      'account_removed',
      'encryption_enabled',
      'encryption_disabled',
      'grace_changed',
      'grace_ended',
      'master_key_changed',
      'audit_key_changed',
    ]);
    folder.write({ 'audit.log': `${first}${last}${granting}${taking}` });
    const backup = await shell(commandsOf('Backup and restore'), folder, rest);
    expect(backup).toMatchObject({ code: 0 });
    expect(backup.stdout).toContain(`\n${taking}${granting}${taking}`);
    for (const kept of [first, last]) expect(backup.stdout).not.toContain(kept);
    expect(backup.stdout).toMatch(
      /^ok +credentials +1 account: all open[^]*\nOK\nID[^]*\nacme [^]*\nglobex [^]* key_revoked /m,
    );

    const upgrade = await shell(commandsOf('Upgrade and rollback'), folder, rest);
    expect(upgrade).toMatchObject({ code: 0 });
    expect(upgrade.stdout).toMatch(/^The tables are up to date\.\n[^]*\nOK\n$/);

    const lost = await shell(commandsOf('The master key is lost'), folder, rest);
    expect(lost).toMatchObject({ code: 0 });
    expect(lost.stdout).toMatch(/\nOK\n$/);
    const made = JSON.parse(readFileSync(folder.file('credentials-acme-test.json'), 'utf8')) as { key: string };
    expect(made.key).not.toBe(before.key);
  });
});

/** Runs a script as a reader would, with `sidecar` and the PostgreSQL programs on the PATH. */
async function shell(
  script: string,
  folder: Folder,
  env: Readonly<Record<string, string>>,
): Promise<{ code: number | null; stdout: string; stderr: string }> {
  const path = [resolve('bin'), ...(postgresPrograms === undefined ? [] : [postgresPrograms]), process.env['PATH']];
  const child = spawn('sh', ['-eu'], {
    cwd: folder.path,
    env: { ...process.env, SIDECAR_CONFIG: folder.file('sidecar.yaml'), ...env, PATH: path.join(':') },
    stdio: 'pipe',
  });
  const code = new Promise<number | null>((done) => void child.once('close', done));
  child.stdin.end(script);
  const [stdout, stderr] = await Promise.all([text(child.stdout), text(child.stderr)]);
  return { code: await code, stdout, stderr };
}

import { existsSync, rmSync } from 'node:fs';
import { expect, test } from 'vitest';
import { runCommand } from '../support/cli.ts';
import { startCommand } from '../support/command.ts';
import { eventually } from '../support/eventually.ts';
import { Folder, sidecarFile } from '../support/folder.ts';
import { describeWithPostgres, usePostgres } from '../support/postgres.ts';

const [oldKey, newKey] = [Buffer.alloc(32, 1).toString('base64'), Buffer.alloc(32, 2).toString('base64')];
const patience = { timeout: 20_000, interval: 20 };

/** Creates accounts wrapped with the old master key, and configures the new key before the old one, as documented. */
async function sealedWithOld(store: object, masterKey: (key: object) => object, count = 3) {
  const folder = new Folder({ 'accounts.yaml': 'accounts: []\n', 'master-key': oldKey, 'new-key': newKey });
  const accounts = masterKey({ file: 'master-key' });
  folder.write({ 'sidecar.yaml': sidecarFile('http://127.0.0.1:1', { accounts: { ...store, ...accounts } }) });
  const config = ['--config', folder.file('sidecar.yaml')];
  const encryption = { test: { enabled: true, key: 'k'.repeat(32), iv: 'i'.repeat(16) } };
  const lines = Array.from({ length: count }, (_, i) => JSON.stringify({ id: `a${i}`, name: 'A', encryption }));
  folder.write({ 'lines.ndjson': lines.join('\n') });
  await runCommand(['accounts', 'import', folder.file('lines.ndjson'), ...config]);
  folder.write({ 'master-key': `${newKey}\n${oldKey}\n` });
  const args = ['accounts', 'rekey', '--new-master-key-file', folder.file('new-key'), ...config];
  /** The line of `check --online` about the credentials if these master keys are configured. */
  const credentials = async (...keys: readonly string[]): Promise<string> => {
    folder.write({ 'master-key': keys.join('\n') });
    const { stdout } = await runCommand(['check', '--online', ...config]);
    return stdout.split('\n').find((line) => line.includes('  credentials  ')) ?? stdout;
  };
  return { folder, args, credentials };
}

type Setup = Awaited<ReturnType<typeof sealedWithOld>>;

/**
 * Expects that all credentials open with both keys after a rekey was killed. Then repeats the rekey, and expects that
 * they open with the new key alone.
 */
async function expectRepeatable({ args, credentials }: Setup): Promise<void> {
  expect(await credentials(newKey, oldKey)).toMatch(/^ok .* 3 accounts: all open/);
  const repeated = await runCommand(args);
  expect(repeated).toMatchObject({
    code: 0,
    stdout: expect.stringMatching(/^\d (?:account was|accounts were) wrapped with/) as string,
  });
  expect(await credentials(newKey)).toMatch(/^ok .* 3 accounts: all open/);
}

/** Node options that make a process create `file` after its nth sync to the disk, and then block forever. */
function stopping(nth: number, file: string): readonly string[] {
  const module = `
    import fs from 'node:fs';
    import { syncBuiltinESMExports } from 'node:module';
    const sync = fs.fsyncSync;
    let calls = 0;
    fs.fsyncSync = (descriptor) => {
      sync(descriptor);
      if (++calls < ${nth}) return;
      fs.writeFileSync(${JSON.stringify(file)}, '');
      Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0);
    };
    syncBuiltinESMExports();`;
  return ['--import', `data:text/javascript,${encodeURIComponent(module)}`];
}

test('a rekey of a file that is killed halfway can be repeated', async () => {
  const setup = await sealedWithOld({ file: 'accounts.yaml' }, (masterKey) => ({ masterKey }));
  const { folder, args } = setup;
  // The first sync is that of the trail. The process is killed before (2) and after (3) it renames the new file over
  // the old one.
  for (const step of [2, 3]) {
    const command = startCommand(args, { nodeOptions: stopping(step, folder.file('waits')) });
    await eventually('the command blocks', () => existsSync(folder.file('waits')), patience);
    rmSync(folder.file('waits'));
    expect(await command.signal('SIGKILL').ended()).toEqual({ code: null, signal: 'SIGKILL' });
    expect(await setup.credentials(newKey, oldKey)).toMatch(/^ok .* 3 accounts: all open/);
  }
  await expectRepeatable(setup);
});

describeWithPostgres('accounts in PostgreSQL', () => {
  const postgres = usePostgres();

  /** Runs a rekey, and kills it when it waits for this account, whose row is locked. */
  async function killedAt(id: string, url: string, { args }: Setup): Promise<void> {
    const isHeld = `SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND wait_event = 'PgSleep'`;
    const waits = `SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND wait_event_type = 'Lock'`;
    const untilSome = (query: string) =>
      eventually(`a session is found by ${query}`, async () => Number(await postgres.psql(url, query)) > 0, {
        ...patience,
        interval: 50,
      });
    const held = postgres.psql(
      url,
      `BEGIN; SELECT 1 FROM envelope_sidecar.encryption WHERE account_id = '${id}' FOR UPDATE; SELECT pg_sleep(60)`,
    );
    await untilSome(isHeld);
    const command = startCommand(args);
    await untilSome(waits);
    expect(await command.signal('SIGKILL').ended()).toEqual({ code: null, signal: 'SIGKILL' });
    const holder = isHeld.replace('count(*)', 'pg_cancel_backend(pid)');
    await Promise.allSettled([held, postgres.psql(url, holder)]);
  }

  test('a rekey of a database that is killed halfway can be repeated', async () => {
    const url = await postgres.createDatabase();
    const setup = await sealedWithOld({}, (masterKey) => ({ postgres: { url, masterKey } }));
    await killedAt('a1', url, setup);
    await expectRepeatable(setup);
  });

  test('a rekey records an event for each part that it has committed, even if it is killed after that part', async () => {
    const url = await postgres.createDatabase();
    const setup = await sealedWithOld({}, (masterKey) => ({ postgres: { url, masterKey } }), 60);
    const recorded = async (): Promise<string> =>
      postgres.psql(
        url,
        `SELECT string_agg(line::jsonb #>> '{details,accounts}', ' ' ORDER BY position) FROM envelope_sidecar.trail
          WHERE line::jsonb ->> 'action' = 'master_key_changed'`,
      );
    await killedAt('a9', url, setup);
    expect(await recorded()).toBe('50');
    expect(await runCommand(setup.args)).toMatchObject({ code: 0 });
    expect(await recorded()).toBe('50 10');
  });
});

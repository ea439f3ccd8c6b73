import { generateKeyPairSync } from 'node:crypto';
import { appendFileSync, readFileSync, truncateSync, writeFileSync } from 'node:fs';
import { hostname, userInfo } from 'node:os';
import { expect, test } from 'vitest';
import { commandsOn, lines } from '../support/command-line.ts';
import { Folder, sidecarFile } from '../support/folder.ts';
import { describeWithPostgres, usePostgres } from '../support/postgres.ts';
import { describeOnEachStore, masterKey, newFile, type NewStore } from '../support/stores.ts';

/** Creates a key pair. Returns the private key, and the command-line option that names the public key. */
function newKey(folder: Folder, name: string): { readonly pem: string; readonly option: string } {
  const { privateKey, publicKey } = generateKeyPairSync('ed25519');
  folder.write({ [`${name}.pub`]: publicKey.export({ type: 'spki', format: 'pem' }) });
  return {
    pem: privateKey.export({ type: 'pkcs8', format: 'pem' }),
    option: ` --key ${folder.file(`${name}.pub`)}`,
  };
}

/**
 * Creates a store. Its commands sign with the keys that were last given to `sign`, or do not sign if there are none.
 */
async function commands(newStore: NewStore) {
  const folder = new Folder({ 'accounts.yaml': 'accounts: []\n' });
  const accounts = await newStore();
  const sign = (...pems: readonly string[]): void => {
    const audit = pems.length === 0 ? {} : { key: { file: 'audit.pem' } };
    folder.write({
      'audit.pem': pems.join(''),
      'sidecar.yaml': sidecarFile('http://127.0.0.1:1', { accounts, audit }),
    });
  };
  sign();
  const { run } = commandsOn(folder.file('sidecar.yaml'));
  const add = (id: string) => run(`accounts add ${id} --name Name`);
  const exported = async (): Promise<string[]> => lines((await run('audit export')).stdout);
  return { folder, run, sign, add, exported, key: (name: string) => newKey(folder, name) };
}

describeOnEachStore('audit verify', (newStore) => {
  test('accepts a trail that is signed from some event on, and later with a new key; a writer without the key changes nothing', async () => {
    const { run, sign, add, key, exported } = await commands(newStore);
    const [one, two, other] = [key('one'), key('two'), key('other')];
    expect((await run('audit verify')).stdout).toBe('OK: 0 events, 0 signed\n');
    const empty = 'audit verify: event 1 is missing: it should be signed by a given key, but the trail is empty\n';
    expect(await run(`audit verify${one.option}`)).toMatchObject({ code: 1, stdout: '', stderr: empty });
    sign(one.pem);
    expect(await run('audit verify')).toMatchObject({ code: 1, stdout: '', stderr: empty });
    sign();
    await add('a');
    expect((await run('audit verify')).stdout).toBe('OK: 1 events, 0 signed\n');
    expect(await run(`audit verify${one.option}`)).toMatchObject({ code: 1 });
    sign(one.pem);
    await add('b');
    expect(await run('audit verify')).toMatchObject({
      stdout: 'OK: 3 events, 2 signed\n',
      stderr: 'warning: events 1 to 1 are not signed: compare event 1 with an anchor\n',
    });

    for (const pems of [[], [other.pem], [two.pem]]) {
      sign(...pems);
      expect(await add('c')).toMatchObject({
        code: 78,
        stderr: expect.stringContaining('(audit_key_missing)') as string,
      });
      expect((await run('accounts show c')).code).toBe(1);
    }
    sign(two.pem, one.pem);
    await add('c');
    sign(two.pem);
    await add('d');
    const unsigned = 'events 1 to 1 are not signed: compare event 1 with an anchor';
    const others =
      'events up to 4 are signed by a key that was not given: give that key, too, or compare event 4 with an anchor';
    expect(await run(`audit verify${two.option}`)).toMatchObject({
      stdout: 'OK: 6 events, 5 signed\n',
      stderr: `warning: ${unsigned}\nwarning: ${others}\n`,
    });
    expect(JSON.parse((await run(`audit verify${two.option} --json`)).stdout)).toEqual({
      events: 6,
      signed: 5,
      problems: [],
      warnings: [unsigned, others],
    });
    expect((await run(`audit verify${two.option}${one.option}`)).stderr).toBe(`warning: ${unsigned}\n`);
    expect(await run(`audit verify${one.option}`)).toMatchObject({ code: 1 });
    expect((await exported()).map((line) => (JSON.parse(line) as { action: string }).action)).toEqual([
      'account_added',
      'audit_key_changed',
      'account_added',
      'audit_key_changed',
      'account_added',
      'account_added',
    ]);
  });

  test('compares with anchors; a file needs neither store nor configuration', async () => {
    const { folder, run, add, exported } = await commands(newStore);
    const anchors: string[] = [];
    for (const id of ['a', 'b', 'c']) {
      const { stderr } = await add(id);
      const line = JSON.parse(stderr) as { position: number; hash: string; origin: string };
      expect(line.origin).toBe(`${userInfo().username}@${hostname()}`);
      anchors.push(` --anchor ${line.position}:${line.hash}`);
    }
    expect((await run(`audit verify${anchors.join('')}`)).stdout).toBe('OK: 3 events, 0 signed\n');
    const trail = await exported();
    expect(lines((await run('audit export --after 1')).stdout)).toEqual(trail.slice(1));
    folder.write({ 'cut.jsonl': `${trail.slice(0, 2).join('\n')}\n`, 'sidecar.yaml': 'not valid' });
    const verify = (rest: string) => run(`audit verify --trail ${folder.file('cut.jsonl')}${rest}`);
    expect(await verify('')).toMatchObject({ code: 0, stdout: 'OK: 2 events, 0 signed\n' });
    expect(await verify(anchors.join(''))).toMatchObject({
      code: 1,
      stderr: 'audit verify: event 3 is missing: it was removed: an anchor comes after the end of the trail\n',
    });
    expect(await verify(` --anchor 2:${'0'.repeat(64)}`)).toMatchObject({ code: 1 });
    expect(await verify(anchors[0] ?? '')).toMatchObject({
      code: 0,
      stderr: 'warning: events from 2 on come after the last anchor\n',
    });
    const { stdout } = await verify(`${anchors[2]} --json`);
    expect(JSON.parse(stdout)).toMatchObject({ events: 2, problems: [{ position: 3, fault: 'missing' }] });
    for (const wrong of [' --anchor 2:0', ' --anchor x', ` --key ${folder.file('cut.jsonl')}`]) {
      expect((await verify(wrong)).code).toBe(2);
    }
    expect(await run('audit verify --trail missing.jsonl')).toMatchObject({ code: 1 });
  });

  test('shows where an event came from, whatever actor is claimed', async () => {
    const { run, exported } = await commands(newStore);
    await run('accounts add acme --name Acme --actor somebody');
    expect(JSON.parse((await exported())[0] ?? '')).toMatchObject({
      actor: 'user:somebody',
      origin: `${userInfo().username}@${hostname()}`,
    });
  });
});

test('audit verify warns of a torn last line, and names one that was appended by hand', async () => {
  const { folder, run, add } = await commands(newFile);
  await add('a');
  const path = folder.file('accounts.audit.jsonl');
  appendFileSync(path, '{"position":2');
  expect(await run('audit verify')).toMatchObject({
    code: 0,
    stdout: 'OK: 1 events, 0 signed\n',
    stderr: 'warning: the last line is incomplete, as after a crash, and was not verified\n',
  });
  await add('b');
  expect((await run('audit verify')).stderr).toBe('');
  appendFileSync(path, '{"by":"hand"}\n');
  await add('c');
  const { code, stderr } = await run('audit verify');
  expect([code, stderr]).toEqual([1, 'audit verify: event 3 is unchained: it does not belong to the chain\n']);
  truncateSync(path, 10);
  writeFileSync(path, readFileSync(path));
  expect((await run('audit verify')).stdout).toBe('OK: 0 events, 0 signed\n');
});

test('a trail from the previous version is taken over with the first change', async () => {
  const { folder, run, add, exported } = await commands(newFile);
  const older = {
    at: '2026-11-01T00:00:00.000Z',
    actor: 'user:ana',
    action: 'account_added',
    account: 'x',
    details: {},
  };
  folder.write({ 'accounts.audit.jsonl': `${JSON.stringify(older)}\n`.repeat(3) });
  expect(await run('audit verify')).toMatchObject({
    code: 1,
    stderr: expect.stringContaining('event 1 is unchained') as string,
  });
  await add('a');
  expect((await run('audit verify')).stdout).toBe('OK: 5 events, 0 signed\n');
  expect(JSON.parse((await exported())[3] ?? '')).toMatchObject({
    position: 4,
    action: 'trail_begun',
    details: { events: 3 },
  });
  expect(lines((await run('audit list')).stdout)).toHaveLength(6);

  // Append events without a chain, as the previous version does after a rollback.
  appendFileSync(folder.file('accounts.audit.jsonl'), `${JSON.stringify(older)}\n`.repeat(2));
  await add('b');
  expect(await run('audit verify')).toMatchObject({
    code: 1,
    stderr: 'audit verify: event 6 is unchained: it does not belong to the chain\n',
  });
  expect(JSON.parse((await exported()).at(-1) ?? '')).toMatchObject({ position: 8, account: 'b' });
  expect(lines((await run('audit list')).stdout)).toHaveLength(9);
  const text = readFileSync(folder.file('accounts.audit.jsonl'), 'utf8');
  writeFileSync(folder.file('accounts.audit.jsonl'), text.replace('user:ana', 'user:ann'));
  expect(await run('audit verify')).toMatchObject({
    code: 1,
    stderr: expect.stringContaining('event 1 is changed') as string,
  });
});

test('a trail from the previous version is also taken over if audit.key is set with the upgrade', async () => {
  const { folder, run, add, sign, key } = await commands(newFile);
  const one = key('one');
  sign(one.pem);
  const older = JSON.stringify({
    at: '2026-11-01T00:00:00.000Z',
    actor: 'user:ana',
    action: 'account_added',
    details: {},
  });
  folder.write({ 'accounts.audit.jsonl': `${older}\n` });
  await add('a');
  expect((await run(`audit verify${one.option}`)).stdout).toBe('OK: 4 events, 3 signed\n');
  const path = folder.file('accounts.audit.jsonl');
  writeFileSync(path, readFileSync(path, 'utf8').replace('user:ana', 'user:ann'));
  expect(await run('audit verify')).toMatchObject({
    code: 1,
    stderr: expect.stringContaining('event 1 is changed') as string,
  });
});

describeWithPostgres('the trail in PostgreSQL', () => {
  const postgres = usePostgres();

  async function onDatabase() {
    const url = await postgres.createDatabase();
    const sql = (text: string) => postgres.psql(url, `SET search_path = envelope_sidecar; ${text}`);
    return { ...(await commands(async () => ({ postgres: { url, masterKey } }))), sql };
  }

  test.each([
    [`UPDATE trail SET line = replace(line, 'Name', 'Nome') WHERE position = 2`, 'event 2 is changed'],
    ['DELETE FROM trail WHERE position = 1', 'event 1 is missing'],
    ['DELETE FROM trail WHERE position = 3', 'event 3 is missing'],
    [`INSERT INTO trail SELECT position + 2, line FROM trail WHERE position = 3`, 'event 5 is moved'],
    [
      `UPDATE trail t SET line = o.line FROM trail o WHERE t.position IN (2, 3) AND o.position = 5 - t.position`,
      'event 2 is moved',
    ],
    [
      `INSERT INTO audit (at, actor, action, details) VALUES (now(), 'user:x', 'key_issued', '{}')`,
      'event 5 is unchained',
    ],
  ])('shows a change by its owner: %s', async (statement, problem) => {
    const { run, add, sql } = await onDatabase();
    for (const id of ['a', 'b', 'c', 'd']) await add(id);
    await sql(statement);
    expect(await run('audit verify')).toMatchObject({ code: 1, stderr: expect.stringContaining(problem) as string });
  });

  test.each([
    ['a copy of the last line', '9007199254740991, line', 'event 5 is moved'],
    ['a copy of the last line at the last position of all', '9223372036854775807, line', 'event 5 is moved'],
    [
      'a line that fits to the last one',
      `999999999999999, json_build_object('position', 3)::text`,
      'event 5 is unchained',
    ],
  ])('reports %s far beyond its end, and continues before that line', async (_what, row, problem) => {
    const { run, add, sql } = await onDatabase();
    await add('a');
    await add('b');
    const insert = `INSERT INTO trail SELECT ${row} FROM trail WHERE position = 2`;
    await expect(sql(insert)).rejects.toThrow('the trail has no line before this position');
    // Such a line may have been stored before the trigger existed.
    await sql(
      `ALTER TABLE trail DISABLE TRIGGER refuse_gap; ${insert}; ALTER TABLE trail ENABLE ALWAYS TRIGGER refuse_gap`,
    );
    await add('c');
    expect(await run('accounts deactivate a')).toMatchObject({ code: 0 });
    const positions = 'SELECT position FROM trail ORDER BY position LIMIT 4';
    expect(await sql(positions)).toBe('1\n2\n3\n4');
    expect(await run('audit verify')).toMatchObject({ code: 1, stderr: expect.stringContaining(problem) as string });
    expect(lines((await run('audit export')).stdout)).toHaveLength(5);
    await sql('DELETE FROM trail WHERE position > 4');
    expect((await run('audit verify')).stdout).toBe('OK: 4 events, 0 signed\n');
  });

  test.each([
    ['that say nothing', `SELECT 1000000 + n, '{}' FROM generate_series(0, 1) AS n`, ['moved', 'unchained']],
    [
      'of which one is chained to it',
      `SELECT 1000000, format('{"position":1000000,"prev":"%s"}', encode(sha256(convert_to(line, 'UTF8')), 'hex'))
        FROM trail WHERE position = 3 UNION SELECT 1000001, '{}'`,
      ['changed', 'moved: it is stored at position 1000000'],
    ],
    [
      'that are copies',
      `SELECT 1000000 + n, line FROM trail, generate_series(0, 1) AS n WHERE position = 2`,
      ['moved'],
    ],
  ])(
    'reports rows %s, next to each other far beyond its end, which writers take for its end',
    async (_what, rows, faults) => {
      const { run, add, sql } = await onDatabase();
      for (const id of ['a', 'b', 'c']) await add(id);
      const insert = `ALTER TABLE trail DISABLE TRIGGER refuse_gap; INSERT INTO trail ${rows}`;
      await sql(`${insert}; ALTER TABLE trail ENABLE ALWAYS TRIGGER refuse_gap`);
      for (const id of ['d', 'e']) await add(id);
      expect(await sql('SELECT max(position) FROM trail')).toBe('1000003');
      const { code, stderr } = await run('audit verify');
      expect(code).toBe(1);
      for (const fault of faults) expect(stderr).toContain(`event 4 is ${fault}`);
      expect(stderr).toContain('1000000');
    },
  );

  test('reports a line that its owner moved to a far position, although its chain is unchanged', async () => {
    const { run, add, sql } = await onDatabase();
    for (const id of ['a', 'b', 'c']) await add(id);
    await sql('UPDATE trail SET position = 9007199254740991 WHERE position = 3');
    expect(await run('audit verify')).toMatchObject({
      code: 1,
      stderr: 'audit verify: event 3 is moved: it is stored at position 9007199254740991\n',
    });
    expect((await run('audit list')).stdout).toContain('9007199254740991');
  });

  test('takes over what the previous version wrote while changes are made, and again after a rollback', async () => {
    const { run, add, sql, exported } = await onDatabase();
    const older = (count: number) =>
      sql(`INSERT INTO audit (at, actor, action, account_id, details)
        SELECT '2026-11-01Z', 'user:ana', 'key_issued', 'x', '{"key":"k"}' FROM generate_series(1, ${count})`);
    await older(120);
    await add('a');
    expect(await run('audit verify')).toMatchObject({
      code: 1,
      stderr: expect.stringContaining('event 2 is unchained') as string,
    });
    const migrating = run('accounts migrate');
    for (const id of ['b', 'c', 'd']) await add(id);
    expect((await migrating).stdout).toBe(
      'The tables are up to date.\nChained 120 events from the previous version.\n',
    );
    // The events were inserted in pages of 50, so a change made at the same time waits for one page at most.
    const most = 'SELECT max(count) FROM (SELECT count(*) FROM trail GROUP BY xmin) AS transactions';
    expect(await sql(most)).toBe('50');
    expect((await run('audit verify')).stdout).toBe('OK: 125 events, 0 signed\n');
    expect((await run('accounts migrate')).stdout).toBe('The tables are up to date.\n');

    await older(2);
    await sql('CREATE ROLE left_over; GRANT INSERT ON audit TO left_over');
    await add('e');
    expect(await run('audit verify')).toMatchObject({
      code: 1,
      stderr: expect.stringContaining('event 127 is unchained') as string,
    });
    expect(JSON.parse((await run('accounts migrate --actor olga')).stderr.split('\n').at(-2) ?? '')).toMatchObject({
      level: 'warn',
      role: 'left_over',
      msg: expect.stringContaining('may insert into the table "audit"') as string,
    });
    expect(await run('audit verify')).toMatchObject({
      stdout: 'OK: 129 events, 0 signed\n',
      stderr: 'warning: events up to 128 were copied from the table "audit": nothing shows who wrote them\n',
    });
    expect(JSON.parse((await exported()).at(-1) ?? '')).toMatchObject({
      action: 'trail_begun',
      actor: 'user:olga',
      details: { events: 2 },
    });
  });

  test('has neither a gap nor a fork after many writers at once', async () => {
    const { run } = await onDatabase();
    const writers = Array.from({ length: 8 }, async (_, writer) => {
      for (let i = 0; i < 10; i += 1) {
        expect(await run(`accounts add w${writer}-${i} --name Name`)).toMatchObject({ code: 0 });
      }
    });
    await Promise.all(writers);
    expect((await run('audit verify')).stdout).toBe('OK: 80 events, 0 signed\n');
  });
});

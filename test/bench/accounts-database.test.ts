import { expect, test } from 'vitest';
import { AccountsDatabase } from '../../bench/accounts-database.ts';
import { sidecarCommand } from '../../bench/sidecar.ts';
import { Folder } from '../support/folder.ts';
import { loadConfig } from '../../src/config/load.ts';
import { describeWithPostgres, usePostgres } from '../support/postgres.ts';

describeWithPostgres('the database of the growth curves', () => {
  const postgres = usePostgres();

  test('is filled step by step, and its keys are found', async () => {
    const url = await postgres.createDatabase();
    const database = await AccountsDatabase.open(url);
    await database.fillTo(30);
    await database.fillTo(1_070);
    expect(await database.count()).toBe(1_070);
    const times = await database.lookUps();
    expect(times).toHaveLength(5);
    for (const time of times) expect(time).toBeGreaterThan(0);
    await database.close();
  });

  test('is refused if it is not empty', async () => {
    const url = await postgres.createDatabase();
    const database = await AccountsDatabase.open(url);
    await database.fillTo(1);
    await database.close();
    await expect(AccountsDatabase.open(url)).rejects.toThrow('an empty database is needed');
  });

  test('is the one that the measured sidecar uses', async () => {
    const url = await postgres.createDatabase();
    const database = await AccountsDatabase.open(url);
    const directory = new Folder({}).path;
    const { masterKey } = database;
    const { args } = sidecarCommand('.', {
      directory,
      port: 1,
      upstream: 2,
      merchants: [],
      postgres: { url, masterKey },
    });
    await database.close();
    const loaded = loadConfig(args.at(-1) ?? '', {});
    expect(loaded.ok && loaded.config.store).toMatchObject({ type: 'postgres', url });
  });
});

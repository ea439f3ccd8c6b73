import { expect, test } from 'vitest';
import { migrate } from '../../../src/accounts/postgres/migrate.ts';
import { describeWithPostgres, usePostgres } from '../../support/postgres.ts';

describeWithPostgres('migrations', () => {
  const postgres = usePostgres();

  test('smoke', async () => {
    const url = await postgres.createDatabase();
    expect(await migrate(url)).toEqual([]);
    expect(await postgres.psql(url, 'select name from envelope_sidecar.migrations')).toBe('0001_accounts');
  });
});

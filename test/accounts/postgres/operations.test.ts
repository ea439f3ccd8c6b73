import { describeWithPostgres, usePostgres } from '../../support/postgres.ts';
import { describeOperations } from '../operations-suite.ts';
import { openStore } from './fixtures.ts';

describeWithPostgres('operations on PostgreSQL', () => {
  const postgres = usePostgres();

  describeOperations('in PostgreSQL', async () => {
    const url = await postgres.createDatabase();
    return { open: () => openStore(url) };
  });
});

import { describeWithPostgres, usePostgres } from '../../support/postgres.ts';
import { describeOperations } from '../operations-suite.ts';
import { openStore } from './fixtures.ts';

describeWithPostgres('what operators do', () => {
  const postgres = usePostgres();

  describeOperations('in PostgreSQL', async () => {
    const url = await postgres.createDatabase();
    return { open: () => openStore(url) };
  });
});

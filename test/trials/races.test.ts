import { expect, onTestFinished, test } from 'vitest';
import { describeWithPostgres } from '../support/postgres.ts';
import { runRaces } from '../../trials/races/races.ts';

describeWithPostgres('races', () => {
  test('of 200 charges with the end of their connections: no charge is seen twice, and each gets a response', async () => {
    const { problems, tables } = await runRaces(200, onTestFinished);
    expect(problems).toEqual([]);
    const together =
      tables[0]
        ?.find(([kind]) => kind === 'together')
        ?.slice(1)
        .map(Number) ?? [];
    const [races = 0, answered = 0, refusedSeen = 0] = together;
    expect(races).toBeGreaterThanOrEqual(200);
    // The races were real, because the charges won some and lost some.
    expect(answered).toBeGreaterThan(0);
    expect(refusedSeen).toBeGreaterThan(0);
  }, 120_000);
});

import { expect, onTestFinished, test } from 'vitest';
import { describeWithPostgres } from '../support/postgres.ts';
import { kinds } from '../../trials/soak/kinds.ts';
import { runSoak } from '../../trials/soak/soak.ts';

describeWithPostgres('a soak', () => {
  test('of six seconds with all kinds of clients finds nothing unexpected, and leaves nothing open', async () => {
    const { problems, tables } = await runSoak(0.1, onTestFinished);
    expect(problems).toEqual([]);
    const [held, clients] = tables;
    expect(held).toHaveLength(7);
    for (const [, atTheStart] of held?.slice(1) ?? []) expect(atTheStart).toMatch(/^\d+(?:\.\d MiB)?$/);
    expect(
      clients
        ?.slice(1)
        .map(([kind]) => kind)
        .toSorted(),
    ).toEqual(kinds.map(({ name }) => name).toSorted());
  }, 120_000);
});

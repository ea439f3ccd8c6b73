import { expect, onTestFinished, test } from 'vitest';
import { runOperatorsWork } from '../../trials/resources/resources.ts';
import { describeWithPostgres } from '../support/postgres.ts';
import { resourceOptions } from '../support/resource-options.ts';

describeWithPostgres("operators' work", () => {
  test('keys are revoked beside work on all accounts in both stores, and thousands of keys listed within the memory limit', async () => {
    const { problems, tables } = await runOperatorsWork(2, onTestFinished, resourceOptions);
    expect(problems).toEqual([]);
    const [revocations = [], manyKeys = []] = tables;
    // In each store: alone, and beside four commands.
    expect([revocations.length, manyKeys.length]).toEqual([1 + 2 * 5, 2]);
  }, 240_000);
});

import { expect, onTestFinished, test } from 'vitest';
import { runAttacks } from '../../trials/resources/resources.ts';
import { resourceOptions } from '../support/resource-options.ts';

test('every attack for two seconds: merchants and operators are served, within the memory limit', async () => {
  const { problems, tables } = await runAttacks(2, onTestFinished, resourceOptions);
  expect(problems).toEqual([]);
  const requests = tables[0]?.slice(1).map((line) => Number(line[1])) ?? [];
  expect(requests).toHaveLength(3);
  expect(Math.min(...requests)).toBeGreaterThan(4);
}, 240_000);

import { expect, onTestFinished, test } from 'vitest';
import { program } from '../../trials/load/sidecar.ts';
import { runResources } from '../../trials/resources/resources.ts';

/** The memory that Node needs for sources instead of compiled code. */
const more = 32 * 1_048_576;
/** Other tests run at the same time, on the same cores. */
const longestTime = 10_000;

/** Nor is it told how much slower an attack makes what it must not stop. */
const mostSlowed = 50;
const accounts = { file: 20, postgres: 500 };

test('every attack for two seconds: merchants are served, and operators, within the memory limit', async () => {
  const options = { program, more, longestTime, mostSlowed, accounts, keys: 20_000 };
  const { problems, tables } = await runResources(2, onTestFinished, options);
  expect(problems).toEqual([]);
  const requests = tables[0]?.slice(1).map((line) => Number(line[1])) ?? [];
  expect(requests).toHaveLength(3);
  expect(Math.min(...requests)).toBeGreaterThan(4);
}, 240_000);

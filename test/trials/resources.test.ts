import { expect, onTestFinished, test } from 'vitest';
import { program } from '../../trials/load/sidecar.ts';
import { runResources } from '../../trials/resources/resources.ts';

/** The additional memory that Node needs if it runs the sources instead of compiled code. */
const more = 32 * 1_048_576;
/** Much longer than in a real run, because other tests run on the same cores at the same time. */
const longestTime = 10_000;

/** How many times slower merchants or revocations may become during an attack or other work. This is generous for the same reason. */
const mostSlowed = 50;
const accounts = { file: 20, postgres: 500 };

test('every attack for two seconds: merchants and operators are served, within the memory limit', async () => {
  const options = { program, more, longestTime, mostSlowed, accounts, keys: 20_000 };
  const { problems, tables } = await runResources(2, onTestFinished, options);
  expect(problems).toEqual([]);
  const requests = tables[0]?.slice(1).map((line) => Number(line[1])) ?? [];
  expect(requests).toHaveLength(3);
  expect(Math.min(...requests)).toBeGreaterThan(4);
}, 240_000);

import { expect, onTestFinished, test } from 'vitest';
import { program } from '../../trials/load/sidecar.ts';
import { runResources } from '../../trials/resources/resources.ts';

/** The memory that Node needs for sources instead of compiled code. */
const more = 32 * 1_048_576;
/** Other tests run at the same time, on the same cores. */
const longestTime = 10_000;

test('every attack at once for three seconds: merchants are served within the memory limit', async () => {
  const { problems, tables } = await runResources(3, onTestFinished, { program, more, longestTime });
  expect(problems).toEqual([]);
  const requests = tables[0]?.slice(1).map((line) => Number(line[1])) ?? [];
  expect(requests).toHaveLength(2);
  expect(Math.min(...requests)).toBeGreaterThan(4);
}, 120_000);

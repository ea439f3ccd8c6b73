import { test } from 'vitest';
import { runKills } from '../../trials/restarts/kills.ts';
import { runReloads } from '../../trials/restarts/reloads.ts';
import { runStops } from '../../trials/restarts/stops.ts';

const loops = 4;

test.concurrent.for([
  ['reloads: no request fails, none is served from two configurations', runReloads],
  ['ends by SIGTERM: what was taken is answered, and the exit code is 0', runStops],
  ['ends by SIGKILL while keys are issued: the next start has nothing to repair', runKills],
] as const)(`${loops} %s`, { timeout: 120_000 }, async ([, run], { expect, onTestFinished }) => {
  const { problems, answered } = await run(loops, onTestFinished);
  expect(problems).toEqual([]);
  expect(answered).toBeGreaterThan(loops);
});

import { Registry } from 'prom-client';
import { expect, onTestFinished, test, vi } from 'vitest';
import { ClockWatch } from '../../src/telemetry/clock-watch.ts';
import { createLogger } from '../../src/telemetry/logger.ts';
import { send } from '../support/client.ts';
import { startGateway } from '../support/gateway.ts';
import { scrape } from '../support/metrics.ts';
import { acme, apiKey, keys } from '../support/sidecar.ts';

/**
 * Advances the two clocks by each step, in milliseconds, and makes a watch check them after each step.
 *
 * @returns the seconds of the jumps that it logged
 */
async function jumpsAfter(steps: readonly (readonly [wall: number, monotonic: number])[]) {
  const registry = new Registry();
  const lines: string[] = [];
  let [wall, monotonic] = [1e12, 500];
  const log = createLogger('info', { write: (line) => void lines.push(line) });
  const watch = new ClockWatch(
    registry,
    log,
    () => wall,
    () => monotonic,
  );
  onTestFinished(() => watch.stop());
  for (const [forward, passed] of steps) {
    wall += forward;
    monotonic += passed;
    watch.look();
  }
  const count = Number(/^envelope_sidecar_clock_jumps_back_total (\d+)$/m.exec(await registry.metrics())?.[1]);
  const seconds = lines.map((line) => (JSON.parse(line) as { seconds: number }).seconds);
  expect(seconds).toHaveLength(count);
  return seconds;
}

test.each([
  ['by more than a second', [[-60_000, 1_000]], [61]],
  ['by a second and a millisecond', [[-1, 1_000]], [1]],
  [
    'twice',
    [
      [-9_000, 1_000],
      [1_000, 1_000],
      [-19_000, 1_000],
    ],
    [10, 20],
  ],
  [
    'in small steps',
    [
      [500, 1_000],
      [500, 1_000],
      [500, 1_000],
    ],
    [2],
  ],
  [
    'after it jumped forward',
    [
      [3_600_000, 1_000],
      [-3_600_000, 1_000],
    ],
    [3_601],
  ],
] as const)('a clock that jumps back %s is reported', async (_name, steps, seconds) => {
  expect(await jumpsAfter(steps)).toEqual(seconds);
});

test.each([
  ['by a second', [[0, 1_000]]],
  [
    'forward',
    [
      [86_400_000, 1_000],
      [1_000, 1_000],
    ],
  ],
  [
    'not at all, while the process is held up',
    [
      [60_000, 60_000],
      [1_000, 1_000],
    ],
  ],
] as const)('a clock that jumps %s is not reported', async (_name, steps) => {
  expect(await jumpsAfter(steps)).toEqual([]);
});

test('a running sidecar reports that its clock jumped back, after which an expired key works again', async () => {
  let now = Date.parse('2026-11-01T00:00:00Z');
  const key = apiKey(keys.acme, { expiresAt: now });
  const { sidecar } = await startGateway({ accounts: [{ ...acme, keys: [key] }], clock: () => now });
  expect((await send(sidecar, 'GET /', { key: keys.acme })).status).toBe(401);
  now -= 3_600_000;
  expect((await send(sidecar, 'GET /', { key: keys.acme })).status).toBe(200);
  await vi.waitFor(
    () =>
      expect(sidecar.log.map(({ msg }) => msg)).toContain(
        'the clock jumped back: expired keys and ended grace periods may be valid again',
      ),
    3_000,
  );
  expect(await scrape(sidecar)).toContain('envelope_sidecar_clock_jumps_back_total 1');
});

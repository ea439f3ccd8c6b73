import { beforeEach, expect, onTestFinished, test, vi } from 'vitest';
import type { CredentialsSample } from '../../src/accounts/accounts.ts';
import { Readiness } from '../../src/admin/readiness.ts';
import { createLogger } from '../../src/telemetry/logger.ts';

type Take = () => Promise<CredentialsSample>;

const minutes = 60_000;
const good: CredentialsSample = { tried: 4, failures: [], noneUnwraps: false };
const oneFails: CredentialsSample = { ...good, failures: ['of another master key'] };

beforeEach(() => {
  vi.useFakeTimers();
  onTestFinished(() => void vi.useRealTimers());
});

function start() {
  const ratios: number[] = [];
  const log: string[] = [];
  const lines = { write: (line: string) => void log.push((JSON.parse(line) as { msg: string }).msg) };
  const readiness = new Readiness((ratio) => ratios.push(ratio), createLogger('info', lines));
  readiness.begin();
  return { readiness, ratios, log };
}

test('a database is checked every ten minutes, and the result is logged when it changes', async () => {
  const { readiness, ratios, log } = start();
  let sample = good;
  const take = vi.fn<Take>(async () => sample);
  await readiness.tryStore(take);
  sample = oneFails;
  await vi.advanceTimersByTimeAsync(10 * minutes - 1);
  expect(ratios).toEqual([0]);
  await vi.advanceTimersByTimeAsync(1);
  expect(ratios).toEqual([0, 0.25]);
  await vi.advanceTimersByTimeAsync(10 * minutes);
  sample = good;
  await vi.advanceTimersByTimeAsync(10 * minutes);
  sample = oneFails;
  await vi.advanceTimersByTimeAsync(10 * minutes);
  expect(ratios).toEqual([0, 0.25, 0.25, 0, 0.25]);
  expect(log).toEqual(Array.from({ length: 2 }, () => 'not all sealed credentials open with the master key'));
  expect(readiness.isReady).toBe(true);
  readiness.end();
  await vi.advanceTimersByTimeAsync(60 * minutes);
  expect(take).toHaveBeenCalledTimes(5);
});

test('until it can be used, a database is checked every two seconds; a later outage does not end readiness', async () => {
  const { readiness } = start();
  const take = vi.fn<Take>(async () => good).mockRejectedValueOnce(new Error('the database cannot be reached'));
  await readiness.tryStore(take);
  expect(readiness.isReady).toBe(false);
  await vi.advanceTimersByTimeAsync(2_000);
  expect(readiness.isReady).toBe(true);
  take.mockRejectedValue(new Error('the database cannot be reached'));
  await vi.advanceTimersByTimeAsync(10 * minutes);
  expect(take).toHaveBeenCalledTimes(3);
  expect(readiness.isReady).toBe(true);
  await vi.advanceTimersByTimeAsync(10 * minutes);
  expect(take).toHaveBeenCalledTimes(4);
});

test('that none of its credentials open ends no readiness, but prevents it if a database was unusable until then', async () => {
  const none: CredentialsSample = { tried: 2, failures: ['wrong', 'wrong'], noneUnwraps: true };
  const { readiness, log } = start();
  const take = vi.fn<Take>(async () => none).mockRejectedValueOnce(new Error('the schema is at version 0'));
  await readiness.tryStore(take);
  await vi.advanceTimersByTimeAsync(2_000);
  expect(take).toHaveBeenCalledTimes(2);
  expect(readiness.isReady).toBe(false);
  expect(log.at(-1)).toBe('no sealed credentials open with the master key: not ready');
  take.mockResolvedValueOnce(good);
  await vi.advanceTimersByTimeAsync(2_000);
  expect(readiness.isReady).toBe(true);
  await vi.advanceTimersByTimeAsync(10 * minutes);
  expect(take).toHaveBeenCalledTimes(4);
  expect(readiness.isReady).toBe(true);
});

test.each<[string, (readiness: Readiness) => Promise<void>]>([
  ['another database', (readiness) => readiness.tryStore(async () => good)],
  ['a file', async (readiness) => readiness.report(good)],
])(
  'once %s is in use, the previous database is not checked again, and a late result does not count',
  async (_, use) => {
    const { readiness, ratios } = start();
    const late = Promise.withResolvers<CredentialsSample>();
    const take = vi.fn<Take>(() => late.promise);
    const tried = readiness.tryStore(take);
    await use(readiness);
    late.resolve(oneFails);
    await tried;
    await vi.advanceTimersByTimeAsync(20 * minutes);
    expect(take).toHaveBeenCalledOnce();
    expect(new Set(ratios)).toEqual(new Set([0]));
  },
);

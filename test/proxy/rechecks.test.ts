import { expect, onTestFinished, test, vi } from 'vitest';
import type { KeyDirectory, LookupResult } from '../../src/accounts/key-directory.ts';
import { LinkedList } from '../../src/linked-list.ts';
import { startRechecks } from '../../src/proxy/rechecks.ts';
import type { Responder } from '../../src/proxy/respond/responder.ts';
import { createLogger } from '../../src/telemetry/logger.ts';
import { apiKey, globex, keys } from '../support/sidecar.ts';

/** Responses that have been in progress long enough to be checked, each with a key of its own. */
function responses(count: number, abort: (index: number) => void): LinkedList<Responder> {
  vi.useFakeTimers({ toFake: ['setInterval', 'clearInterval'] });
  onTestFinished(() => void vi.useRealTimers());
  const active = new LinkedList<Responder>();
  for (let index = 0; index < count; index += 1) {
    active.add({
      exchange: { principal: { key: { hash: `${index}` } } },
      http: { closed: false, status: 200, bodyComplete: true },
      timing: { startedAt: -10_000 },
      abort: () => abort(index),
    } as unknown as Responder);
  }
  return active;
}

test('as many keys are looked up at the same time as fit in a query, because with fewer, hundreds would take many round trips', () => {
  const find = vi.fn<() => Promise<LookupResult>>(() => new Promise(() => {}));
  const log = createLogger('info', { write: () => {} });
  const directory = { find } as unknown as KeyDirectory;
  onTestFinished(
    startRechecks(
      responses(251, () => {}),
      () => directory,
      Date.now,
      log,
    ),
  );
  vi.advanceTimersByTime(1_000);
  expect(find).toHaveBeenCalledTimes(250);
});

test('of forty responses in progress, one whose key is revoked ends although the key of another one cannot be looked up', async () => {
  const ended: number[] = [];
  const active = responses(40, (index) => ended.push(index));
  const good = { account: globex, key: apiKey(keys.globex) };
  const found: Record<string, LookupResult> = {
    0: 'unavailable',
    20: { ...good, key: { ...good.key, revokedAt: 1 } },
    30: undefined,
    35: { ...good, account: { ...globex, active: false } },
  };
  const find = vi.fn<(hash: string) => LookupResult>((hash) => (hash in found ? found[hash] : good));
  const lines: string[] = [];
  const log = createLogger('info', { write: (line) => void lines.push(line) });
  const directory = { find } as unknown as KeyDirectory;
  const stop = startRechecks(active, () => directory, Date.now, log);
  onTestFinished(stop);
  vi.advanceTimersByTime(1_000);
  await vi.waitFor(() => expect(find).toHaveBeenCalledTimes(40));
  expect(ended.toSorted((a, b) => a - b)).toEqual([0, 20, 30, 35]);
  expect(lines).toEqual([]);
});

test('what a directory finds after a reload has replaced it ends nothing, because it may have been closed', async () => {
  const ended: number[] = [];
  const { promise, resolve } = Promise.withResolvers<LookupResult>();
  const old = { find: () => promise } as unknown as KeyDirectory;
  const found = vi.fn<() => LookupResult>(() => ({ account: globex, key: apiKey(keys.globex) }));
  const present = { find: found } as unknown as KeyDirectory;
  let directory = old;
  const log = createLogger('info', { write: () => {} });
  onTestFinished(
    startRechecks(
      responses(1, (index) => ended.push(index)),
      () => directory,
      Date.now,
      log,
    ),
  );
  vi.advanceTimersByTime(1_000);
  directory = present;
  resolve('unavailable');
  await vi.waitFor(() => {
    vi.advanceTimersByTime(1_000);
    expect(found).toHaveBeenCalled();
  });
  expect(ended).toEqual([]);
});

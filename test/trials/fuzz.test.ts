import { spawnSync } from 'node:child_process';
import { fileURLToPath } from 'node:url';
import { describe, expect, test } from 'vitest';
import { runPart } from '../../trials/fuzz/campaign.ts';
import { runners } from '../../trials/fuzz/parts.ts';
import { describeWithPostgres } from '../support/postgres.ts';
import { ensure, type Part } from '../../trials/fuzz/part.ts';
import * as fc from 'fast-check';

describeWithPostgres('a short run', () => {
  const cases: Readonly<Record<string, number>> = {
    json: 5_000,
    envelope: 2_000,
    'request-reader': 3_000,
    request: 400,
    response: 500,
  };

  test.each(runners)(
    'of $name finds nothing, and covers what it has to',
    async ({ name, run }) => {
      const report = await run(cases[name] ?? 0, 1);
      expect(report.failure).toBeUndefined();
      expect(report.cases).toBeGreaterThanOrEqual(cases[name] ?? Infinity);
      const done = [
        'accepted',
        'opened',
        'the same requests in both',
        'forwarded, answered sealed',
        'answered sealed',
      ].flatMap((kind) => report.counts.get(kind) ?? []);
      expect(done.reduce((sum, count) => sum + count, 0)).toBeGreaterThan(20);
      if (name === 'request') expect(report.counts.get('tunnels')).toBeGreaterThan(0);
    },
    120_000,
  );
});

describe('runPart', () => {
  /** A part whose cases are numbers, and whose property fails for numbers above 20. */
  function partOf(check: (one: number, alone: boolean) => void): Part<number> {
    return {
      name: 'envelope',
      share: 1,
      lanes: 3,
      cases: fc.nat(1_000),
      open: () => Promise.resolve({ check: (one, _lane, alone) => check(one, alone), close: () => Promise.resolve() }),
    };
  }

  test('runs as many cases as requested', async () => {
    let run = 0;
    const report = await runPart(
      partOf(() => (run += 1)),
      100,
      1,
    );
    expect(run).toBe(100);
    expect(report).toMatchObject({ cases: 100, failure: undefined });
  });

  test('prints the smallest case that fails', async () => {
    const report = await runPart(
      partOf((one) => ensure(one <= 20, 'is small', one)),
      100,
      1,
    );
    expect(report.failure).toBe('Violation: is small\n  21\n21');
  });

  test('reports a failure that does not recur when its case runs alone', async () => {
    const report = await runPart(
      partOf((one, alone) => ensure(alone || one <= 20, 'is small', one)),
      100,
      1,
    );
    expect(report.failure).toMatch(/^not when run alone\nViolation: is small/);
  });
});

test('an unknown part is a usage error', () => {
  const main = fileURLToPath(new URL('../../trials/fuzz/main.ts', import.meta.url));
  const { status, stderr } = spawnSync(process.execPath, [main, '--part', 'nothing'], { encoding: 'utf8' });
  expect(status).toBe(2);
  expect(stderr).toContain('--part json|envelope|request-reader|request|response');
});

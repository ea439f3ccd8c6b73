import fc from 'fast-check';
import { Counter, Histogram, Registry } from 'prom-client';
import { expect, test } from 'vitest';
import { SeriesCounter, SeriesHistogram } from '../../src/telemetry/series.ts';

const labelNames = ['environment', 'status'] as const;
const bounds = [0.0005, 0.1, 1, 30];
const description = (name: string): { name: string; help: string; labelNames: typeof labelNames } => ({
  name,
  help: 'A help with a \\ and\na second line.',
  labelNames,
});

/** There are few values, so that series recur. Some values need escaping, and a number must result in the same label as its text. */
const labels = fc.record({
  environment: fc.constantFrom('test', 'live', 'a "quote"', '\\', 'two\nlines', '', '__proto__', '12'),
  status: fc.constantFrom(200, 404, 499),
});
const value = fc.oneof(
  fc.constantFrom(...bounds, 0, -0, 31, -1, 1e-9, 1e21),
  fc.double({ noNaN: true, noDefaultInfinity: true, min: 0, max: 100 }),
);

test('counters and histograms are exposed byte for byte as by prom-client after the same recordings', async () => {
  await fc.assert(
    fc.asyncProperty(fc.array(fc.tuple(labels, value), { maxLength: 50 }), async (recordings) => {
      const theirs = new Registry();
      const counter = new Counter({ ...description('things_total'), registers: [theirs] });
      const histogram = new Histogram({ ...description('thing_seconds'), buckets: bounds, registers: [theirs] });
      const own = new Registry();
      const ownCounter = new SeriesCounter(own, description('things_total'));
      const ownHistogram = new SeriesHistogram(own, { ...description('thing_seconds'), buckets: bounds });
      for (const [{ environment, status }, seconds] of recordings) {
        counter.inc({ environment, status });
        ownCounter.count(environment, status);
        histogram.observe({ environment, status }, seconds);
        ownHistogram.at(environment, status).observe(seconds);
      }
      expect(await own.metrics()).toBe(await theirs.metrics());
    }),
  );
});

test('a series can be exposed before anything was counted', async () => {
  const registry = new Registry();
  const counter = new SeriesCounter(registry, { name: 'things_total', help: 'Things.', labelNames: ['outcome'] });
  counter.at('ok');
  counter.at('failed');
  counter.count('failed');
  expect(await registry.metrics()).toBe(
    '# HELP things_total Things.\n# TYPE things_total counter\nthings_total{outcome="ok"} 0\nthings_total{outcome="failed"} 1\n',
  );
});

import fc from 'fast-check';
import { afterEach, beforeEach, describe, expect, test, vi } from 'vitest';
import { AccessLog, type AccessLine } from '../../src/telemetry/access-log.ts';
import { createLogger } from '../../src/telemetry/logger.ts';
import { anyCharacter, runs } from '../support/property.ts';

/** One line as the access log writes it, and as pino would have written it. */
function written(line: AccessLine, level: 'info' | 'warn' | 'error', now: number): { own: string; pino: string } {
  const lines: string[] = [];
  const log = createLogger('info', { write: (text: string) => void lines.push(text) });
  vi.setSystemTime(now);
  new AccessLog(log).write(line, now);
  log[level](line, 'request');
  const [own = '', pino = ''] = lines;
  return { own, pino };
}

const option = <T>(value: fc.Arbitrary<T>): fc.Arbitrary<T | undefined> => fc.option(value, { nil: undefined });
const oneOf = <T>(...values: T[]): fc.Arbitrary<T> => fc.constantFrom(...values);
/** Values that the schema and the database's checks accept. */
const identifier = fc.stringMatching(/^[A-Za-z0-9._-]{1,64}$/);
const route = fc.oneof(
  oneOf('unlisted', 'none', '/', '/*'),
  fc.stringMatching(/^(?:\/[A-Za-z0-9._~:-]+){1,4}(?:\/\*)?$/),
);
/** Messages of errors: any text, including half a surrogate pair and control characters. */
const text = fc.oneof(
  fc.string(),
  fc.string({ unit: anyCharacter, maxLength: 200 }),
  oneOf('\ud800', '\u0000"\\\n', '\u2028'),
);
const count = fc.nat({ max: 2 ** 31 - 1 });
const duration = fc.oneof(
  fc.nat({ max: 5_000_000 }).map((microseconds) => microseconds / 1_000),
  fc.integer({ min: 0, max: 1e15 }).map((microseconds) => microseconds / 1_000),
  oneOf(0, 0.001, 0.1, 0.999, 1, 1.001, 1e12),
);

const accessLines: fc.Arbitrary<AccessLine> = fc.record({
  request_id: fc.stringMatching(/^[A-Za-z0-9._-]{1,128}$/),
  trace_id: option(fc.stringMatching(/^[0-9a-f]{32}$/)),
  client: option(oneOf('203.0.113.7', '203.0.113.0/24', '2001:db8::7', '2001:db8:0::/48')),
  environment: option(oneOf('test', 'live')),
  route,
  method: option(oneOf('GET', 'POST', 'M-SEARCH')),
  status: fc.integer({ min: 100, max: 499 }),
  code: option(oneOf('missing_api_key', 'body_too_large')),
  closed: option(oneOf('limit', 'early_bytes')),
  reported: option(oneOf('key_not_permitted', 'method_not_allowed,key_not_permitted')),
  account: option(identifier),
  api_key: option(identifier),
  credentials: option(oneOf('current', 'previous', 'none')),
  reason: option(oneOf('encoding', 'not_json')),
  upstream_error: option(text),
  bytes_in: option(count),
  bytes_out: option(count),
  duration_ms: option(duration),
  upstream_ms: option(duration),
  envelope_ms: option(duration),
});

beforeEach(() => {
  vi.useFakeTimers({ toFake: ['Date'] });
});
afterEach(() => {
  vi.useRealTimers();
});

describe('an access line', () => {
  test('is byte for byte what pino would have written', () => {
    const times = fc.date({ min: new Date(0), max: new Date('9999-12-31'), noInvalidDate: true });
    fc.assert(
      fc.property(accessLines, times, (line, time) => {
        const { own, pino } = written(line, line.code === undefined ? 'info' : 'warn', time.getTime());
        expect(own).toBe(pino);
      }),
      { numRuns: runs(2_000) },
    );
  });

  test('of a 5xx status is also what pino would have written', () => {
    fc.assert(
      fc.property(accessLines, fc.integer({ min: 500, max: 599 }), (line, status) => {
        const { own, pino } = written({ ...line, status }, 'error', 0);
        expect(own).toBe(pino);
      }),
    );
  });

  test('has the time at which it was written, to the millisecond', () => {
    const lines: string[] = [];
    const log = new AccessLog(createLogger('info', { write: (line: string) => void lines.push(line) }));
    const [line] = fc.sample(accessLines, 1);
    if (line === undefined) throw new Error('no sample');
    for (const now of [0, 0, 1, 1_000, 999]) log.write(line, now);
    expect(lines.map((each) => (JSON.parse(each) as { time: string }).time)).toEqual([
      '1970-01-01T00:00:00.000Z',
      '1970-01-01T00:00:00.000Z',
      '1970-01-01T00:00:00.001Z',
      '1970-01-01T00:00:01.000Z',
      '1970-01-01T00:00:00.999Z',
    ]);
  });
});

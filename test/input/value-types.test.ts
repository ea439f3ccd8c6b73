import { expect, test } from 'vitest';
import {
  duration,
  instant,
  oneOf,
  size,
  text,
  within,
  WrongValue,
  type ValueType,
} from '../../src/input/value-types.ts';

/** The value that a string stands for; undefined if the string is refused. */
function read<T>(type: ValueType<T>, written: string): T | undefined {
  try {
    return type.pattern.test(written) ? type.read(written) : undefined;
  } catch (error) {
    if (error instanceof WrongValue) return undefined;
    throw error;
  }
}

test.each([
  ['0s', 0],
  ['250ms', 250],
  ['30s', 30_000],
  ['5m', 300_000],
  ['12h', 43_200_000],
  ['180d', 15_552_000_000],
  ['9007199254740991ms', 9007199254740991],
  ['9007199254740992ms', undefined],
  ['104249991375d', undefined],
  ['30', undefined],
  ['-1s', undefined],
  ['1.5s', undefined],
  ['1 s', undefined],
  ['1S', undefined],
  ['1min', undefined],
  ['s', undefined],
  ['', undefined],
  ['1s\n', undefined],
])('the duration %j is %j milliseconds', (written, milliseconds) => {
  expect(read(duration, written)).toBe(milliseconds);
});

test.each([
  ['0', 0],
  ['1024', 1024],
  ['512B', 512],
  ['64KiB', 65_536],
  ['1MiB', 1_048_576],
  ['2GiB', 2_147_483_648],
  ['8388607GiB', 9007198180999168],
  ['8388608GiB', undefined],
  ['1KB', undefined],
  ['1kib', undefined],
  ['1M', undefined],
  ['0x10', undefined],
  ['1e3', undefined],
  ['', undefined],
])('the size %j is %j bytes', (written, bytes) => {
  expect(read(size, written)).toBe(bytes);
});

test.each([
  ['0s', undefined],
  ['1ms', 1],
  ['1000ms', 1000],
  ['1001ms', undefined],
])('with bounds, the duration %j is %j', (written, milliseconds) => {
  expect(read(within(duration, 1, 1000, 'from 1ms to 1s'), written)).toBe(milliseconds);
});

test.each([
  ['2026-11-01', '2026-11-01T00:00:00.000Z'],
  ['2024-02-29', '2024-02-29T00:00:00.000Z'],
  ['2000-02-29T23:59:59Z', '2000-02-29T23:59:59.000Z'],
  ['2026-11-01T09:30:00Z', '2026-11-01T09:30:00.000Z'],
  ['2026-11-01t09:30:00z', '2026-11-01T09:30:00.000Z'],
  ['2026-11-01T09:30:00.125Z', '2026-11-01T09:30:00.125Z'],
  ['2026-11-01T00:30:00+01:00', '2026-10-31T23:30:00.000Z'],
  ['2026-12-31T23:00:00-23:59', '2027-01-01T22:59:00.000Z'],
  ['0001-01-01', '0001-01-01T00:00:00.000Z'],
])('the date %s is %s', (written, iso) => {
  expect(new Date(read(instant, written) ?? Number.NaN).toISOString()).toBe(iso);
});

test.each([
  '2026-02-29',
  '1900-02-29',
  '2026-04-31',
  '2026-13-01',
  '2026-00-10',
  '2026-01-00',
  '2026-02-30T00:00:00Z',
  '2026-11-01T24:00:00Z',
  '2026-11-01T23:60:00Z',
  '2026-11-01T23:59:60Z',
  '2026-11-01T09:30:00',
  '2026-11-01T09:30Z',
  '2026-11-01T09:30:00+24:00',
  '2026-11-01T09:30:00+01',
  '2026-11-01 09:30:00Z',
  '2026-11-1',
  '01.11.2026',
  '20261101',
  '+002026-11-01',
  '',
])('the date %j is refused', (written) => {
  expect(read(instant, written)).toBeUndefined();
});

test('an enumeration accepts only its values', () => {
  const type = oneOf(['GET', 'POST']);
  expect(['GET', 'POST', 'get', 'GETPOST', 'GET|POST', '', ' GET'].map((written) => read(type, written))).toEqual([
    'GET',
    'POST',
    ...Array.from({ length: 5 }, () => undefined),
  ]);
  expect([type.expected, oneOf(['live']).expected]).toEqual(['one of GET, POST', 'live']);
});

test('a text may not be empty', () => {
  expect([read(text, ' a '), read(text, '')]).toEqual([' a ', undefined]);
});

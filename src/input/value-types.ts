import type { EpochMs } from '../times.ts';

/** Thrown for an invalid value. The message says what is expected and never quotes the value. */
export class WrongValue extends Error {}

/** The type of a value that is written as text: its form and how it is read. */
export interface ValueType<T> {
  /** The name of the type in the documentation. */
  readonly name: string;
  /** Completes "expected …" in messages. */
  readonly expected: string;
  /** Matches all valid text. */
  readonly pattern: RegExp;
  /** All valid strings, if they can be listed. */
  readonly choices?: readonly string[];
  /** Whether a number is accepted too. It is read like text with the same digits. */
  readonly numbers?: true;
  /** Reads text that matches the pattern. Returns undefined if the text is still invalid. */
  readonly read: (text: string) => T | undefined;
  /** Formats a value as in a file. Absent if values of this type are never shown. */
  format?(value: T): string;
}

/** Reads text as a value of a type. @throws WrongValue if the text is invalid */
export function parseAs<T>(type: ValueType<T>, text: string): T {
  const value = type.pattern.test(text) ? type.read(text) : undefined;
  if (value === undefined) throw new WrongValue(`expected ${type.expected}`);
  return value;
}

/** Any text that is not empty. */
export const text: ValueType<string> = {
  name: 'text',
  expected: 'text',
  pattern: /./,
  read: (text) => text,
};

/** One of the listed strings. */
export function oneOf<const T extends string>(choices: readonly T[]): ValueType<T> {
  return {
    name: choices.map((choice) => `\`${choice}\``).join(', '),
    expected: choices.length > 1 ? `one of ${choices.join(', ')}` : choices.join(),
    pattern: new RegExp(`^(?:${choices.join('|')})$`),
    choices,
    read: (text) => choices.find((choice) => choice === text),
  };
}

const durationUnits: Readonly<Record<string, number>> = { ms: 1, s: 1000, m: 60_000, h: 3_600_000, d: 86_400_000 };
const sizeUnits: Readonly<Record<string, number>> = { B: 1, KiB: 1024, MiB: 1024 ** 2, GiB: 1024 ** 3 };

/** A duration such as `250ms`, `30s`, `5m`, `12h` or `180d`, read as milliseconds. */
export const duration: ValueType<number> = {
  name: 'duration',
  expected: 'a duration such as 250ms, 30s, 5m, 12h or 7d',
  pattern: /^[0-9]+(?:ms|s|m|h|d)$/,
  read: (text) => amount(text, durationUnits),
  format: formatDuration,
};

/** A size such as `64KiB` or `1MiB`, or a number of bytes, read as bytes. */
export const size: ValueType<number> = {
  name: 'size',
  expected: 'a size such as 512B, 64KiB, 1MiB or 2GiB',
  pattern: /^[0-9]+(?:B|KiB|MiB|GiB)?$/,
  numbers: true,
  read: (text) => amount(text, sizeUnits),
  format: formatSize,
};

/** A percentage such as `50%`, read as a fraction such as 0.5. */
export const share: ValueType<number> = {
  name: 'percentage',
  expected: 'a percentage from 1% to 100%',
  pattern: /^(?:[1-9][0-9]?|100)%$/,
  read: (text) => Number(text.slice(0, -1)) / 100,
  format: formatShare,
};

/** The same type of number within bounds; `range` completes `expected`, as in "from 1ms to 24d". */
export function within(type: ValueType<number>, min: number, max: number, range: string): ValueType<number> {
  return {
    ...type,
    expected: `${type.expected}, ${range}`,
    read: (text) => {
      const number = type.read(text);
      return number !== undefined && number >= min && number <= max ? number : undefined;
    },
  };
}

/** A point in time in RFC 3339 format, or a bare date, which stands for its first moment in UTC. It is read as epoch milliseconds. */
export const instant: ValueType<number> = {
  name: 'date',
  expected: 'a date such as 2026-11-01 or 2026-11-01T09:30:00Z',
  pattern:
    /^[0-9]{4}-[0-9]{2}-[0-9]{2}(?:[Tt](?:[01][0-9]|2[0-3]):[0-5][0-9]:[0-5][0-9](?:\.[0-9]+)?(?:[Zz]|[+-](?:[01][0-9]|2[0-3]):[0-5][0-9]))?$/,
  read: (text) => {
    const day = text.slice(0, 10);
    const midnight = Date.parse(`${day}T00:00:00Z`);
    // `Date.parse` reads the 29th to the 31st of a shorter month as days of the next month.
    if (Number.isNaN(midnight) || new Date(midnight).getUTCDate() !== Number(day.slice(8))) {
      throw new WrongValue('expected a date that exists');
    }
    return text === day ? midnight : Date.parse(text.toUpperCase());
  },
};

/** Formats a time as RFC 3339, without a fraction if the fraction is zero. */
export function rfc3339(time: EpochMs): string {
  const written = new Date(time).toISOString();
  return time % 1_000 === 0 ? `${written.slice(0, -5)}Z` : written;
}

/** Formats milliseconds as it is written in a file, such as `90s`. */
export function formatDuration(milliseconds: number): string {
  return inLargest(milliseconds, durationUnits);
}

/** Formats bytes as it is written in a file, such as `64KiB`. */
function formatSize(bytes: number): string {
  return inLargest(bytes, sizeUnits);
}

/** Formats a fraction as it is written in a file, such as `50%`. */
function formatShare(fraction: number): string {
  return `${Math.round(fraction * 100)}%`;
}

/** Formats an amount in the largest unit of which it is a whole multiple. */
function inLargest(amount: number, units: Readonly<Record<string, number>>): string {
  const [unit = '', size = 1] = Object.entries(units).findLast(([, size]) => amount > 0 && amount % size === 0) ?? [
    Object.keys(units)[0],
  ];
  return `${amount / size}${unit}`;
}

function amount(text: string, units: Readonly<Record<string, number>>): number | undefined {
  const [digits = ''] = /^[0-9]+/.exec(text) ?? [];
  const number = Number(digits) * (units[text.slice(digits.length)] ?? 1);
  return Number.isSafeInteger(number) ? number : undefined;
}

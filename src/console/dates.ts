import { signal } from '@preact/signals';

/** How often `now` is updated, in milliseconds. */
const step = 5_000;

/** The time to which ages are relative, in epoch milliseconds. */
export const now = signal(Date.now());
setInterval(() => {
  now.value = Date.now();
}, step);

const units: readonly (readonly [name: string, milliseconds: number])[] = [
  ['year', 365 * 86_400_000],
  ['month', 30 * 86_400_000],
  ['day', 86_400_000],
  ['hour', 3_600_000],
  ['minute', 60_000],
];

/** A duration in its largest whole unit: `3 days`. */
function length(milliseconds: number): string {
  for (const [name, size] of units) {
    const count = Math.floor(milliseconds / size);
    if (count >= 1) return `${count} ${name}${count === 1 ? '' : 's'}`;
  }
  return 'less than a minute';
}

/** The distance of a time: `3 days ago`, `in 2 hours`. */
export function distance(time: number, from: number): string {
  const apart = time - from;
  // An event after the last update of `now` would otherwise seem to be in the future.
  if (Math.abs(apart) < 45_000) return apart > 2 * step ? 'in a moment' : 'just now';
  return apart > 0 ? `in ${length(apart)}` : `${length(-apart)} ago`;
}

/** The full time in UTC, as in logs and the audit trail. */
export function inFull(date: string): string {
  return `${date.slice(0, 19).replace('T', ' ')} UTC`;
}

import { signal } from '@preact/signals';

/** How often `now` is updated, in milliseconds. */
const step = 5_000;

/** The current time, to which ages are relative, in epoch milliseconds. */
export const now = signal(Date.now());
setInterval(() => {
  now.value = Date.now();
}, step);

const units = [
  ['year', 365 * 86_400_000],
  ['month', 30 * 86_400_000],
  ['day', 86_400_000],
  ['hour', 3_600_000],
  ['minute', 60_000],
] as const;

const relative = new Intl.RelativeTimeFormat('en');

const second = ['second', 1_000] as const;

/**
 * The distance between two times in its largest whole unit, such as `3 days ago` or `in 2 hours`. Seconds are shown only if `least` is
 * `seconds`.
 */
export function distance(time: number, from: number, least: 'minutes' | 'seconds' = 'minutes'): string {
  const apart = time - from;
  const all = least === 'seconds' ? [...units, second] : units;
  const unit = all.find(([, size]) => Math.abs(apart) >= size);
  if (unit !== undefined && (unit !== second || apart < 0))
    return relative.format(Math.trunc(apart / unit[1]), unit[0]);
  // An event after the last update of `now` would otherwise seem to be in the future.
  return apart > 2 * step ? 'in a moment' : 'just now';
}

/** The full time in UTC, as in logs and the audit trail. */
export function inFull(date: string): string {
  return `${date.slice(0, 19).replace('T', ' ')} UTC`;
}

/** Whether a certificate needs attention, because it expires within 30 days. The first alert about a certificate uses the same limit. */
export function isEndingSoon(date: string): boolean {
  return Date.parse(date) < now.value + 30 * 86_400_000;
}

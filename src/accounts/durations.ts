import { duration, within } from '../input/kinds.ts';

const day = 86_400_000;

// The durations that operators may choose. The upper bounds catch a wrong unit.

/** How long an API key lives. */
export const lifetime = within(duration, 1_000, 3_650 * day, 'from 1s to 3650d');
/** How long the old key stays valid after its successor is issued. */
export const overlap = within(duration, 0, 365 * day, 'up to 365d');
/** The overlap if none is given. */
export const usualOverlap = '7d';
/** The longest grace, in milliseconds. */
export const maxGrace = 365 * day;
/** How long the previous credentials, or plaintext, are accepted besides the new credentials. */
export const grace = within(duration, 1_000, maxGrace, 'from 1s to 365d');

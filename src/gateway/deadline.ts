import type { Timeouts } from '../config/config.ts';
import { lingerTime } from './refusal.ts';

/** Which of the configured timeouts limits a wait, by what its expiry means. */
const limits = {
  request_timeout: 'request',
  upstream_timeout: 'upstream',
  client_stalled: 'idle',
} as const satisfies Readonly<Record<string, keyof Timeouts>>;

/** What an expired deadline means. */
export type Expiry = keyof typeof limits | 'rest_unread';

/** How long is waited for what would otherwise expire so. Milliseconds. */
export function timeFor(expiry: Expiry, timeouts: Timeouts): number {
  return expiry === 'rest_unread' ? lingerTime : timeouts[limits[expiry]];
}

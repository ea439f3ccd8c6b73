import { z } from 'zod';
import { share, size, within } from '../input/value-types.ts';
import type { Values } from '../yaml/values.ts';
import { rate, timeLimit } from './value-types.ts';

/** What clients may use, each and all together. */
export function limitsSchema({ value }: Values) {
  return z.strictObject({
    requestBody: value(within(size, 1, 256 * 1024 ** 2, 'from 1B to 256MiB'))
      .prefault('1MiB')
      .describe('Largest body on enveloped routes and the test endpoints, as sent. Other bodies stream without limit.'),
    buffered: value(size)
      .prefault('48MiB')
      .describe(
        'Bytes of bodies and of waiting requests held at once; beyond it requests are refused as `overloaded`.',
      ),
    header: value(within(size, 1024, 1024 ** 2, 'from 1KiB to 1MiB'))
      .prefault('16KiB')
      .describe('Largest head of a request: its first line and its headers.'),
    headers: z
      .int()
      .min(10)
      .max(10_000)
      .default(100)
      .describe('Header fields of a request; one with more is refused as `headers_too_large`.'),
    connections: z
      .int()
      .min(1)
      .max(1_000_000)
      .default(4096)
      .describe(
        'Client connections open at once. One more replaces the one that has been idle longest without ever carrying a ' +
          'known key, or is closed. At most half carry public keys.',
      ),
    inFlight: z
      .int()
      .min(1)
      .default(1024)
      .describe(
        'Requests in progress at once; more are refused as `overloaded`. At most an eighth are without a known key, and ' +
          'at most half with public keys.',
      ),
    failedKeys: value(rate)
      .prefault('20/1m')
      .describe(
        'Unknown API keys of one client, and envelopes of one API key in live that do not open, in this time; more are refused as `too_many_attempts`.',
      ),
    account: value(share)
      .prefault('50%')
      .describe(
        'Share of `connections`, `inFlight` and `buffered` that one account may use in one environment; beyond it its requests are ' +
          'refused as `overloaded`. Its public keys may use half of that. If both environments are served, `test` may use half of each in all.',
      ),
  });
}

/** How long the sidecar waits for what. */
export function timeoutsSchema({ value }: Values) {
  return z.strictObject({
    connect: value(timeLimit).prefault('2s').describe('To connect to the upstream, TLS included.'),
    header: value(timeLimit).prefault('10s').describe("For a request's head to arrive."),
    request: value(timeLimit)
      .prefault('60s')
      .describe('The time for an enveloped body to arrive; for other bodies, the longest pause.'),
    upstream: value(timeLimit)
      .prefault('30s')
      .describe("Until the head of the upstream's response, then the longest pause within it."),
    idle: value(timeLimit)
      .prefault('75s')
      .describe('How long an idle client connection is kept. Longer than the gateway in front keeps it.'),
    drain: value(timeLimit).prefault('25s').describe('From the start of a drain until connections are closed.'),
  });
}

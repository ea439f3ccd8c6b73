import { share, size, within, type ValueType } from '../input/value-types.ts';
import { rate, timeLimit } from './value-types.ts';

/**
 * The only description of a setting. The schema, the documentation, `GET /configuration` and the list of settings that need a restart are
 * derived from it. A new setting needs a row here, and code that enforces it.
 */
export interface Setting<T = unknown> {
  readonly type: ValueType<T> | WholeNumber;
  /** The default, as it would be written in the file. */
  readonly default: string | number;
  readonly text: string;
  /** Whether a change takes effect only after a restart. */
  readonly needsRestart?: true;
}

/** A number without a unit. The bounds are inclusive. */
export interface WholeNumber {
  readonly min: number;
  readonly max?: number;
}

/** The settings that are the members of an object in the file. */
export type Group = Readonly<Record<string, Setting>>;

/** The values of a group. */
export type ValuesOf<G extends Group> = {
  readonly [Name in keyof G]: G[Name]['type'] extends ValueType<infer T> ? T : number;
};

/** How much each client, and all clients together, may use. */
export const limitSettings = {
  requestBody: {
    type: within(size, 1, 256 * 1024 ** 2, 'from 1B to 256MiB'),
    default: '1MiB',
    text: 'Maximum size of a body on enveloped routes and the test endpoints, as sent. Other bodies stream without limit.',
  },
  buffered: {
    type: size,
    default: '48MiB',
    text: 'Maximum size in memory of all bodies and waiting requests together; beyond it, requests are refused as `overloaded`.',
  },
  header: {
    type: within(size, 1024, 1024 ** 2, 'from 1KiB to 1MiB'),
    default: '16KiB',
    text: 'Maximum size of the head of a request: request line and headers.',
    needsRestart: true,
  },
  headers: {
    type: { min: 10, max: 10_000 },
    default: 100,
    text: 'Maximum number of header fields of a request; beyond it, the request is refused as `headers_too_large`.',
  },
  connections: {
    type: { min: 1, max: 1_000_000 },
    default: 4096,
    text:
      'Maximum number of client connections. Beyond it, the connection that has been idle longest without ever carrying a known key ' +
      'is closed; if there is none, the new connection is closed. At most half of the connections may carry public keys.',
  },
  inFlight: {
    type: { min: 1 },
    default: 1024,
    text:
      'Maximum number of requests in progress; beyond it, requests are refused as `overloaded`. Requests without a known key get at ' +
      'most an eighth of this number, and requests with public keys at most half.',
  },
  failedKeys: {
    type: rate,
    default: '20/1m',
    text: 'Maximum number of unknown API keys from one client in this time; in live, also of failed envelopes with one API key. Beyond it, requests are refused as `too_many_attempts`.',
  },
  account: {
    type: share,
    default: '50%',
    text:
      'Maximum share of `connections`, `inFlight` and `buffered` for one account in one environment; beyond it, its requests are refused ' +
      'as `overloaded`. Its public keys get half of the share. If both environments are served, `test` gets half of each limit.',
  },
} as const satisfies Group;

/** How long the sidecar waits. */
export const timeoutSettings = {
  connect: { type: timeLimit, default: '2s', text: 'Time to connect to the upstream, including TLS.' },
  header: { type: timeLimit, default: '10s', text: "Time for a request's head to arrive." },
  request: {
    type: timeLimit,
    default: '60s',
    text: 'Time for an enveloped body to arrive; for other bodies, the longest pause.',
  },
  upstream: {
    type: timeLimit,
    default: '30s',
    text: "Time until the head of the upstream's response, then the longest pause within it.",
  },
  idle: {
    type: timeLimit,
    default: '75s',
    text: 'How long an idle client connection is kept. Set it to more than the time for which the gateway in front keeps idle connections.',
  },
  drain: {
    type: timeLimit,
    default: '25s',
    text: 'Time from the start of a drain until SIGTERM closes connections with requests in flight.',
  },
} as const satisfies Group;

const groups = { limits: limitSettings, timeouts: timeoutSettings } as const;
type Groups = { readonly [Name in keyof typeof groups]: ValuesOf<(typeof groups)[Name]> };

/** A value as it would be written in the file, under its full name. */
export interface WrittenSetting {
  readonly member: string;
  readonly value: string;
  readonly needsRestart: boolean;
}

/** The values of all groups, in the order in which they are documented. */
export function writtenSettings(values: Groups): readonly WrittenSetting[] {
  return Object.entries<Group>(groups).flatMap(([name, group]) => {
    const own: Readonly<Record<string, unknown>> = values[name as keyof Groups];
    return Object.entries(group).map(([setting, { type, needsRestart }]) => ({
      member: `${name}.${setting}`,
      value: 'format' in type ? type.format(own[setting]) : String(own[setting]),
      needsRestart: needsRestart === true,
    }));
  });
}

/** The values that a running process uses: the new values, except for settings that need a restart. */
export function settingsInForce(started: Groups, { limits, timeouts }: Groups): Groups {
  return {
    limits: inForce(limitSettings, started.limits, limits),
    timeouts: inForce(timeoutSettings, started.timeouts, timeouts),
  };
}

function inForce<G extends Group>(group: G, started: ValuesOf<G>, values: ValuesOf<G>): ValuesOf<G> {
  const kept = Object.keys(group).filter((name) => group[name]?.needsRestart === true);
  return { ...values, ...Object.fromEntries(kept.map((name) => [name, started[name]])) };
}

import { z } from 'zod';
import { refusals, type RefusalCode } from '../../errors.ts';
import { textValue } from '../../input/text-value.ts';
import { oneOf, rfc3339 } from '../../input/value-types.ts';
import { spans, type Span } from '../../telemetry/traffic-history.ts';
import { viewConfiguration } from '../configuration.ts';
import { account, endpoint, environment, type Endpoint } from '../endpoint.ts';
import { viewOverview } from '../overview.ts';

/** Endpoints for the session, the configuration and the traffic of this sidecar. Other sidecars are not included. */
export const sidecarEndpoints: readonly Endpoint[] = [
  endpoint({
    method: 'GET',
    path: '/session',
    operation: 'show_session',
    summary: 'Show the name, the role and the account of the token in use',
    role: 'viewer',
    accountToken: 'own',
    input: z.strictObject({}),
    response: { status: 200, view: 'Session' },
    run: async (_parts, _input, { token: { name, role, account = null } }) => ({ name, role, account }),
  }),
  endpoint({
    method: 'GET',
    path: '/configuration',
    operation: 'show_configuration',
    summary: 'Show the configuration in force, without secrets, and which members need a restart',
    role: 'viewer',
    input: z.strictObject({}),
    response: { status: 200, view: 'Configuration' },
    run: async ({ sidecar }) => viewConfiguration(sidecar().settings),
  }),
  endpoint({
    method: 'GET',
    path: '/overview',
    operation: 'show_overview',
    summary: 'Show the state of this sidecar: files in force, limits, certificates, due rotations',
    role: 'viewer',
    input: z.strictObject({}),
    response: { status: 200, view: 'Overview' },
    run: async ({ sidecar, recent }, _input, _caller, { now }) => viewOverview(sidecar(), recent, now),
  }),
  endpoint({
    method: 'GET',
    path: '/traffic',
    operation: 'show_traffic',
    summary:
      'Show the requests to this sidecar by their outcome, by minute over the last hour or by quarter of an hour over the last day',
    role: 'viewer',
    input: z.strictObject({
      span: textValue(oneOf(Object.keys(spans) as Span[])).prefault('1h'),
      environment: environment.optional().describe('Default: all requests, including those for unknown hosts.'),
    }),
    response: { status: 200, view: 'Traffic' },
    run: async ({ recent }, { span, environment }, _caller, { now }) => {
      const { slots, refusals } = recent.history.of(span, environment, now);
      return {
        slot_seconds: spans[span].length / 1_000,
        slots: slots.map(({ time, p50 = null, p99 = null, ...outcomes }) => {
          return Object.assign({ time: rfc3339(time), p50_ms: p50, p99_ms: p99 }, outcomes);
        }),
        refusals: refusals.map(([code, count]) => ({ code, count })),
      };
    },
  }),
  endpoint({
    method: 'GET',
    path: '/activity',
    operation: 'show_activity',
    summary: 'Show recent refusals of known accounts by this sidecar, and which API keys still need a grace period',
    role: 'viewer',
    accountToken: 'own',
    input: z.strictObject({ account: account.optional() }),
    response: { status: 200, view: 'Activity' },
    run: async ({ recent }, input, { token }) => ({
      refusals: recent.refusals.latest(token.account ?? input.account).map((refused) => ({
        time: rfc3339(refused.time),
        request_id: refused.requestId,
        account: refused.account,
        environment: refused.environment,
        key: refused.apiKey,
        route: refused.route,
        code: refused.code,
        reason: refused.reason ?? null,
      })),
      grace_uses: recent.graceUses.latest(token.account ?? input.account).map((use) => ({
        account: use.account,
        environment: use.environment,
        key: use.apiKey,
        last_used_at: rfc3339(use.lastUsedAt),
      })),
    }),
  }),
  endpoint({
    method: 'GET',
    path: '/failures',
    operation: 'show_failures',
    summary: 'Show the 20 accounts with the most refusals by this sidecar in the last ten minutes',
    role: 'viewer',
    input: z.strictObject({
      environment: environment.optional(),
      code: textValue(oneOf(Object.keys(refusals) as RefusalCode[]))
        .optional()
        .describe('Only refusals with this code.'),
    }),
    response: { status: 200, view: 'Failures' },
    run: async ({ recent }, wanted) => ({
      failures: recent.failures(wanted).map(({ code = null, ...failing }) => Object.assign({ code }, failing)),
    }),
  }),
];

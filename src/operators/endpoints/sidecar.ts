import { z } from 'zod';
import { rfc3339 } from '../../input/value-types.ts';
import { configurationOf } from '../configuration.ts';
import { account, endpoint, type Endpoint } from '../endpoint.ts';
import { overviewOf } from '../overview.ts';

/** The session, the configuration and the traffic of this sidecar. Other sidecars are not included. */
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
    run: async ({ sidecar }) => configurationOf(sidecar().settings),
  }),
  endpoint({
    method: 'GET',
    path: '/overview',
    operation: 'show_overview',
    summary: 'Show the state of this sidecar: files in force, limits, due rotations, the last hour by minute',
    role: 'viewer',
    input: z.strictObject({}),
    response: { status: 200, view: 'Overview' },
    run: async ({ sidecar, recent }) => overviewOf(sidecar(), recent),
  }),
  endpoint({
    method: 'GET',
    path: '/activity',
    operation: 'show_activity',
    summary: 'Show recent refusals of known accounts by this sidecar, and which API keys still need a grace',
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
    input: z.strictObject({}),
    response: { status: 200, view: 'Failures' },
    run: async ({ recent }) => ({ failures: recent.failures() }),
  }),
];

import { z } from 'zod';
import { configurationOf } from '../configuration.ts';
import { endpoint, type Endpoint } from '../endpoint.ts';

export const configurationEndpoints: readonly Endpoint[] = [
  endpoint({
    method: 'GET',
    path: '/configuration',
    operation: 'show_configuration',
    summary: 'Show the configuration in force, without secrets, and what needs a restart',
    role: 'viewer',
    input: z.strictObject({}),
    response: { status: 200, view: 'Configuration' },
    run: async ({ sidecar }) => configurationOf(sidecar().settings),
  }),
];

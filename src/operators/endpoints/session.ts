import { z } from 'zod';
import { endpoint, type Endpoint } from '../endpoint.ts';

export const sessionEndpoints: readonly Endpoint[] = [
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
];

import { z } from 'zod';
import { keyKinds } from '../../accounts/api-key.ts';
import { lifetime, overlap } from '../../accounts/durations.ts';
import { oneOf } from '../../yaml/kinds.ts';
import { textValue } from '../../yaml/text-value.ts';
import { account, endpoint, environment, key, type Endpoint } from '../endpoint.ts';

export const keyEndpoints: readonly Endpoint[] = [
  endpoint({
    method: 'GET',
    path: '/accounts/{account}/keys',
    operation: 'list_keys',
    summary: 'List the API keys of an account',
    role: 'viewer',
    input: z.strictObject({ account }),
    response: { status: 200, view: 'Keys' },
    run: async ({ operations }, input) => ({ keys: (await operations.show(input.account)).keys }),
  }),
  endpoint({
    method: 'POST',
    path: '/accounts/{account}/keys',
    operation: 'issue_key',
    summary: 'Make an API key and show it, once',
    role: 'operator',
    input: z.strictObject({
      account,
      environment,
      kind: textValue(oneOf(keyKinds)),
      expires_in: textValue(lifetime)
        .optional()
        .describe('How long it lives, such as 180d. Default: until it is revoked.'),
    }),
    response: { status: 201, view: 'IssuedKey' },
    makesSecret: true,
    run: ({ operations }, { account, environment, kind, expires_in }, caller) =>
      operations.issueKey(account, { environment, kind, lifetime: expires_in }, caller),
  }),
  endpoint({
    method: 'POST',
    path: '/accounts/{account}/keys/{key}/rotate',
    operation: 'rotate_key',
    summary: 'Make the successor of an API key; the old one lives on for a while',
    role: 'operator',
    input: z.strictObject({
      account,
      key,
      overlap: textValue(overlap).prefault('7d').describe('How long the old key lives on.'),
    }),
    response: { status: 201, view: 'IssuedKey' },
    makesSecret: true,
    run: ({ operations }, { account, key, overlap }, caller) => operations.rotateKey(account, key, overlap, caller),
  }),
  endpoint({
    method: 'POST',
    path: '/accounts/{account}/keys/{key}/revoke',
    operation: 'revoke_key',
    summary: 'End an API key, at once and for good',
    role: 'operator',
    input: z.strictObject({ account, key }),
    response: { status: 200, view: 'Key' },
    run: ({ operations }, { account, key }, caller) => operations.revokeKey(account, key, caller),
  }),
];

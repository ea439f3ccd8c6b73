import { z } from 'zod';
import { keyKinds } from '../../accounts/api-key.ts';
import { dueKinds, readPlace, type DuePlace } from '../../accounts/due.ts';
import { lifetime, newName, overlap, sha256, usualOverlap } from '../../accounts/value-types.ts';
import { oneOf, type ValueType } from '../../input/value-types.ts';
import { textValue } from '../../input/text-value.ts';
import { account, endpoint, environment, key, type Endpoint } from '../endpoint.ts';
import { readUses } from '../key-use.ts';
import { pageSize } from '../paging.ts';

const place: ValueType<DuePlace> = {
  name: 'place',
  expected: '`next` of the previous page',
  pattern: /^[A-Za-z0-9_-]{1,1000}$/,
  read: readPlace,
};

export const keyEndpoints: readonly Endpoint[] = [
  endpoint({
    method: 'GET',
    path: '/due',
    operation: 'list_due',
    summary: 'List the keys and credentials of all accounts that should be replaced or expire soon, most urgent first',
    role: 'viewer',
    accountToken: 'own',
    input: z.strictObject({
      environment: environment.optional(),
      kind: textValue(oneOf(dueKinds)).optional(),
      after: textValue(place).optional().describe('`next` of the previous page.'),
      limit: pageSize,
    }),
    response: { status: 200, view: 'Due' },
    takesTurns: true,
    run: async ({ operations }, { environment, kind, after, limit }, { token }) => {
      const query = { environment, kind, only: token.account, ...(after && { place: after }) };
      const { items, ...page } = await operations.duePage(limit, query);
      return { due: items, ...page };
    },
  }),
  endpoint({
    method: 'GET',
    path: '/keys/find',
    operation: 'find_key',
    summary: 'Find the account of a key by its hash',
    role: 'viewer',
    accountToken: 'own',
    input: z.strictObject({ sha256: textValue(sha256).describe('SHA-256 of the whole key, including its prefix.') }),
    response: { status: 200, view: 'Key' },
    run: ({ operations }, input, { token }) => operations.findKey(input.sha256, token.account),
  }),
  endpoint({
    method: 'GET',
    path: '/accounts/{account}/keys',
    operation: 'list_keys',
    summary: 'List the API keys of an account, page by page',
    role: 'viewer',
    input: z.strictObject({
      account,
      after: key.optional().describe('Starts after the key with this id.'),
      limit: pageSize,
    }),
    response: { status: 200, view: 'Keys' },
    run: async ({ operations }, { account, after, limit }) => {
      const { items, next } = await operations.keysPage(account, limit, after);
      return { keys: items, next };
    },
  }),
  endpoint({
    method: 'GET',
    path: '/accounts/{account}/keys/{key}',
    operation: 'show_key',
    summary: 'Show an API key, who revoked it, and its use at this sidecar',
    role: 'viewer',
    input: z.strictObject({ account, key }),
    response: { status: 200, view: 'ShownKey' },
    run: async (parts, { account, key }, { token }, { now }) => {
      const shown = await parts.operations.showKey(account, key);
      const useOf = await readUses(parts, token, [key], now);
      return { ...shown, use: useOf([key]) };
    },
  }),
  endpoint({
    method: 'POST',
    path: '/accounts/{account}/keys',
    operation: 'issue_key',
    summary: 'Create an API key and show it once',
    role: 'operator',
    input: z.strictObject({
      account,
      environment,
      kind: textValue(oneOf(keyKinds)),
      expires_in: textValue(lifetime)
        .optional()
        .describe('Its lifetime, such as 180d. Default: `keys.maxAge`; without that, the key does not expire.'),
      name: textValue(newName).optional().describe('What its owner calls it, such as Till 3.'),
    }),
    response: { status: 201, view: 'IssuedKey' },
    makesSecret: true,
    run: ({ operations }, { account, environment, kind, expires_in, name }, caller) =>
      operations.issueKey(account, { environment, kind, lifetime: expires_in, name }, caller),
  }),
  endpoint({
    method: 'POST',
    path: '/accounts/{account}/keys/{key}/rotate',
    operation: 'rotate_key',
    summary: 'Create the successor of an API key; the old one stays valid during the overlap',
    role: 'operator',
    input: z.strictObject({
      account,
      key,
      overlap: textValue(overlap).prefault(usualOverlap).describe('How long the old key stays valid.'),
    }),
    response: { status: 201, view: 'IssuedKey' },
    makesSecret: true,
    run: ({ operations }, { account, key, overlap }, caller) => operations.rotateKey(account, key, overlap, caller),
  }),
  endpoint({
    method: 'POST',
    path: '/accounts/{account}/keys/{key}/revoke',
    operation: 'revoke_key',
    summary: 'Revoke an API key permanently',
    role: 'operator',
    input: z.strictObject({ account, key }),
    response: { status: 200, view: 'ChangedKey' },
    urgent: true,
    run: ({ operations }, { account, key }, caller) => operations.revokeKey(account, key, caller),
  }),
];

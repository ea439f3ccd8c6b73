import { z } from 'zod';
import { grace } from '../../accounts/value-types.ts';
import { encodings } from '../../envelope/encoding.ts';
import { instant, oneOf } from '../../input/value-types.ts';
import { textValue } from '../../input/text-value.ts';
import { account, endpoint, environment, type Endpoint } from '../endpoint.ts';
import { after, pageSize } from '../paging.ts';

export const encryptionEndpoints: readonly Endpoint[] = [
  endpoint({
    method: 'GET',
    path: '/graces',
    operation: 'list_graces',
    summary: 'List the running grace periods, with their last uses',
    role: 'viewer',
    accountToken: 'own',
    input: z.strictObject({ after, limit: pageSize }),
    takesTurns: true,
    response: { status: 200, view: 'Graces' },
    run: async ({ operations }, { after, limit }, { token }) => {
      const { items, ...page } = await operations.gracesPage(limit, { after, only: token.account });
      return { graces: items, ...page };
    },
  }),
  endpoint({
    method: 'GET',
    path: '/accounts/{account}/encryption/{environment}',
    operation: 'show_encryption',
    summary: 'Show how an account encrypts, without the key',
    role: 'viewer',
    input: z.strictObject({ account, environment }),
    response: { status: 200, view: 'ShownEncryption' },
    run: async ({ operations, recent }, { account, environment }) => ({
      ...(await operations.showEncryption(account, environment)),
      unexpected_envelopes: recent.unexpectedEnvelopes(account, environment),
    }),
  }),
  endpoint({
    method: 'POST',
    path: '/accounts/{account}/encryption/{environment}/enable',
    operation: 'enable_encryption',
    summary:
      'Create a key and an IV and show them once; without a grace period, the previous ones stop working at once',
    role: 'operator',
    input: z.strictObject({
      account,
      environment,
      encoding: textValue(oneOf(encodings))
        .optional()
        .describe('Encoding of sealed responses. Default: unchanged, or hex.'),
      grace: textValue(grace)
        .optional()
        .describe('Also accept the previous credentials, or plaintext, for this long, such as 24h.'),
      replace: z.boolean().default(false).describe('Replace credentials that are in use.'),
    }),
    response: { status: 201, view: 'EnabledEncryption' },
    makesSecret: true,
    // This is urgent, because the replaced credentials may have leaked.
    urgent: true,
    run: ({ operations }, { account, environment, encoding, grace, replace }, caller) =>
      operations.enableEncryption(account, environment, { encoding, grace, replace }, caller),
  }),
  endpoint({
    method: 'POST',
    path: '/accounts/{account}/encryption/{environment}/disable',
    operation: 'disable_encryption',
    summary: 'Disable encryption: plaintext in both directions; the key and the IV are deleted',
    role: 'operator',
    roleInLive: 'admin',
    input: z.strictObject({
      account,
      environment,
      grace: textValue(grace)
        .optional()
        .describe('Keep opening envelopes and sealing their responses for this long, such as 24h.'),
    }),
    response: { status: 200, view: 'ChangedEncryption' },
    urgent: true,
    run: ({ operations }, { account, environment, grace }, caller) =>
      operations.disableEncryption(account, environment, grace, caller),
  }),
  endpoint({
    method: 'POST',
    path: '/accounts/{account}/encryption/{environment}/grace',
    operation: 'change_grace',
    summary: 'Change the end of a running grace period',
    role: 'operator',
    input: z.strictObject({
      account,
      environment,
      until: textValue(instant).describe('The new end of the grace period, within the next 365 days.'),
    }),
    response: { status: 200, view: 'ChangedEncryption' },
    run: ({ operations }, { account, environment, until }, caller) =>
      operations.changeGrace(account, environment, until, caller),
  }),
  endpoint({
    method: 'POST',
    path: '/accounts/{account}/encryption/{environment}/grace/end',
    operation: 'end_grace',
    summary: 'End a running grace period now: the previous credentials are deleted',
    role: 'operator',
    input: z.strictObject({ account, environment }),
    response: { status: 200, view: 'ChangedEncryption' },
    urgent: true,
    run: ({ operations }, { account, environment }, caller) =>
      operations.changeGrace(account, environment, undefined, caller),
  }),
];

import { z } from 'zod';
import { accountName, identifier } from '../accounts/file/schema.ts';
import { environmentNames, keyKinds } from '../accounts/api-key.ts';
import { grace, lifetime, overlap } from '../accounts/durations.ts';
import type { Operations, Request } from '../accounts/operations.ts';
import { accountView, enabledView, encryptionView, issuedKeyView, keyView } from '../accounts/views.ts';
import type { AccountView } from '../accounts/views.ts';
import { encodings } from '../envelope/encoding.ts';
import { oneOf } from '../yaml/kinds.ts';
import { textValue } from '../yaml/text-value.ts';

/** Where the API is. */
export const apiRoot = '/api/v1';

/** What the responses are, by their names in the API's description. */
export const views = {
  Account: accountView,
  Accounts: z
    .object({
      accounts: z.array(accountView),
      next: z.string().nullable().describe('`after` of the next page; null on the last one.'),
    })
    .describe('A page of accounts, in the order of their ids.'),
  Key: keyView,
  Keys: z.object({ keys: z.array(keyView) }).describe('All keys of an account, in the order in which they were made.'),
  IssuedKey: issuedKeyView,
  Encryption: encryptionView,
  EnabledEncryption: enabledView,
} as const;
export type ViewName = keyof typeof views;

/** One operation of the API. */
export interface Endpoint {
  readonly method: 'GET' | 'POST';
  /** Below the API's root, with `{parameters}` as OpenAPI writes them. */
  readonly path: string;
  /** Names it in the log, in metrics and in the API's description. */
  readonly operation: string;
  readonly summary: string;
  /** Path, query and body in one: no name stands in two of them. */
  readonly input: z.ZodObject;
  readonly response: { readonly status: 200 | 201; readonly view: ViewName };
  /** Whether it makes a secret, so that an `Idempotency-Key` is heeded. */
  readonly makesSecret?: true;
  /** @param input of this endpoint's schema */
  readonly run: (operations: Operations, input: never, request: Request) => Promise<object>;
}

const account = textValue(identifier).describe('The id of the account.');
const key = textValue(identifier).describe('The id of the key.');
const environment = textValue(oneOf(environmentNames));

/** Keeps an endpoint's function to the type of its input. */
function endpoint<Input extends z.ZodObject>(
  row: Omit<Endpoint, 'input' | 'run'> & {
    readonly input: Input;
    readonly run: (operations: Operations, input: z.output<Input>, request: Request) => Promise<object>;
  },
): Endpoint {
  return row;
}

/** How many accounts a page has at most. */
const longestPage = 1_000;

const pageSize = z
  .string({ error: `expected a number from 1 to ${longestPage}` })
  .transform((text, context) => {
    const size = /^[0-9]{1,4}$/.test(text) ? Number(text) : 0;
    if (size >= 1 && size <= longestPage) return size;
    context.addIssue(`expected a number from 1 to ${longestPage}`);
    return z.NEVER;
  })
  .describe(`Accounts on a page, from 1 to ${longestPage}.`);

/** All operations of the API, below `/api/v1`. */
export const endpoints: readonly Endpoint[] = [
  endpoint({
    method: 'GET',
    path: '/accounts',
    operation: 'list_accounts',
    summary: 'List accounts, page by page',
    input: z.strictObject({
      after: textValue(identifier).optional().describe('Begins behind the account with this id.'),
      limit: pageSize.prefault('100').meta({ type: 'integer', minimum: 1, maximum: longestPage, default: 100 }),
    }),
    response: { status: 200, view: 'Accounts' },
    run: async (operations, { after, limit }) => {
      const accounts: AccountView[] = [];
      for await (const each of operations.list(after)) {
        if (accounts.length === limit) return { accounts, next: accounts.at(-1)?.id ?? null };
        accounts.push(each);
      }
      return { accounts, next: null };
    },
  }),
  endpoint({
    method: 'POST',
    path: '/accounts',
    operation: 'add_account',
    summary: 'Add an account, active and without keys',
    input: z.strictObject({
      id: textValue(identifier).describe('Names the account for good.'),
      name: textValue(accountName).describe('The merchant, for people.'),
    }),
    response: { status: 201, view: 'Account' },
    run: (operations, { id, name }, request) => operations.add(id, name, request),
  }),
  endpoint({
    method: 'GET',
    path: '/accounts/{account}',
    operation: 'show_account',
    summary: 'Show an account with its keys and its encryption',
    input: z.strictObject({ account }),
    response: { status: 200, view: 'Account' },
    run: (operations, input) => operations.show(input.account),
  }),
  endpoint({
    method: 'POST',
    path: '/accounts/{account}/activate',
    operation: 'activate_account',
    summary: 'Let the requests of an account in again',
    input: z.strictObject({ account }),
    response: { status: 200, view: 'Account' },
    run: (operations, input, request) => operations.setActive(input.account, true, request),
  }),
  endpoint({
    method: 'POST',
    path: '/accounts/{account}/deactivate',
    operation: 'deactivate_account',
    summary: 'Refuse all requests of an account',
    input: z.strictObject({ account }),
    response: { status: 200, view: 'Account' },
    run: (operations, input, request) => operations.setActive(input.account, false, request),
  }),
  endpoint({
    method: 'GET',
    path: '/accounts/{account}/keys',
    operation: 'list_keys',
    summary: 'List the API keys of an account',
    input: z.strictObject({ account }),
    response: { status: 200, view: 'Keys' },
    run: async (operations, input) => ({ keys: (await operations.show(input.account)).keys }),
  }),
  endpoint({
    method: 'POST',
    path: '/accounts/{account}/keys',
    operation: 'issue_key',
    summary: 'Make an API key and show it, once',
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
    run: (operations, { account, environment, kind, expires_in }, request) =>
      operations.issueKey(account, { environment, kind, lifetime: expires_in }, request),
  }),
  endpoint({
    method: 'POST',
    path: '/accounts/{account}/keys/{key}/rotate',
    operation: 'rotate_key',
    summary: 'Make the successor of an API key; the old one lives on for a while',
    input: z.strictObject({
      account,
      key,
      overlap: textValue(overlap).prefault('7d').describe('How long the old key lives on.'),
    }),
    response: { status: 201, view: 'IssuedKey' },
    makesSecret: true,
    run: (operations, { account, key, overlap }, request) => operations.rotateKey(account, key, overlap, request),
  }),
  endpoint({
    method: 'POST',
    path: '/accounts/{account}/keys/{key}/revoke',
    operation: 'revoke_key',
    summary: 'End an API key, at once and for good',
    input: z.strictObject({ account, key }),
    response: { status: 200, view: 'Key' },
    run: (operations, { account, key }, request) => operations.revokeKey(account, key, request),
  }),
  endpoint({
    method: 'GET',
    path: '/accounts/{account}/encryption/{environment}',
    operation: 'show_encryption',
    summary: 'Show how an account encrypts, without the key',
    input: z.strictObject({ account, environment }),
    response: { status: 200, view: 'Encryption' },
    run: (operations, { account, environment }) => operations.showEncryption(account, environment),
  }),
  endpoint({
    method: 'POST',
    path: '/accounts/{account}/encryption/{environment}/enable',
    operation: 'enable_encryption',
    summary: 'Make a key and an IV and show them, once; others stop at once',
    input: z.strictObject({
      account,
      environment,
      encoding: textValue(oneOf(encodings)).optional().describe('Of sealed responses. Default: as before, or hex.'),
      grace: textValue(grace).optional().describe('Accept what was valid before for so long, such as 24h.'),
      replace: z.boolean().default(false).describe('Replace credentials that are in use.'),
    }),
    response: { status: 201, view: 'EnabledEncryption' },
    makesSecret: true,
    run: (operations, { account, environment, encoding, grace, replace }, request) =>
      operations.enableEncryption(account, environment, { encoding, grace, replace }, request),
  }),
  endpoint({
    method: 'POST',
    path: '/accounts/{account}/encryption/{environment}/disable',
    operation: 'disable_encryption',
    summary: 'Accept and answer plaintext; the key and the IV are forgotten',
    input: z.strictObject({ account, environment }),
    response: { status: 200, view: 'Encryption' },
    run: (operations, { account, environment }, request) => operations.disableEncryption(account, environment, request),
  }),
];

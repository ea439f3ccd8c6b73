import { z } from 'zod';
import { accountName, identifier } from '../../accounts/file/schema.ts';
import type { Unreadable } from '../../accounts/store.ts';
import type { AccountView } from '../../accounts/views.ts';
import { textValue } from '../../yaml/text-value.ts';
import { account, endpoint, pageSize, type Endpoint } from '../endpoint.ts';

export const accountEndpoints: readonly Endpoint[] = [
  endpoint({
    method: 'GET',
    path: '/accounts',
    operation: 'list_accounts',
    summary: 'List accounts, page by page',
    role: 'viewer',
    accountToken: 'own',
    input: z.strictObject({
      after: textValue(identifier).optional().describe('Begins behind the account with this id.'),
      limit: pageSize,
    }),
    response: { status: 200, view: 'Accounts' },
    run: async ({ operations }, { after, limit }, { token }) => {
      const accounts: AccountView[] = [];
      const messages: string[] = [];
      const unreadable: Unreadable = ({ message }) => void messages.push(message);
      for await (const each of operations.list({ after, only: token.account, unreadable })) {
        if (accounts.length === limit) return { accounts, next: accounts.at(-1)?.id ?? null, unreadable: messages };
        accounts.push(each);
      }
      return { accounts, next: null, unreadable: messages };
    },
  }),
  endpoint({
    method: 'POST',
    path: '/accounts',
    operation: 'add_account',
    summary: 'Add an account, active and without keys',
    role: 'operator',
    input: z.strictObject({
      id: textValue(identifier).describe('Names the account for good.'),
      name: textValue(accountName).describe('The merchant, for people.'),
    }),
    response: { status: 201, view: 'Account' },
    run: ({ operations }, { id, name }, caller) => operations.add(id, name, caller),
  }),
  endpoint({
    method: 'GET',
    path: '/accounts/{account}',
    operation: 'show_account',
    summary: 'Show an account with its keys and its encryption',
    role: 'viewer',
    input: z.strictObject({ account }),
    response: { status: 200, view: 'Account' },
    run: ({ operations }, input) => operations.show(input.account),
  }),
  endpoint({
    method: 'POST',
    path: '/accounts/{account}/activate',
    operation: 'activate_account',
    summary: 'Let the requests of an account in again',
    role: 'operator',
    input: z.strictObject({ account }),
    response: { status: 200, view: 'Account' },
    run: ({ operations }, input, caller) => operations.setActive(input.account, true, caller),
  }),
  endpoint({
    method: 'POST',
    path: '/accounts/{account}/deactivate',
    operation: 'deactivate_account',
    summary: 'Refuse all requests of an account',
    role: 'operator',
    input: z.strictObject({ account }),
    response: { status: 200, view: 'Account' },
    run: ({ operations }, input, caller) => operations.setActive(input.account, false, caller),
  }),
];

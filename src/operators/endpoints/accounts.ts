import { z } from 'zod';
import { successorId } from '../../accounts/key-maker.ts';
import { accountFilters } from '../../accounts/conditions.ts';
import { accountName, identifier, newName } from '../../accounts/value-types.ts';
import type { AccountView } from '../../accounts/views.ts';
import { oneOf } from '../../input/value-types.ts';
import { textValue } from '../../input/text-value.ts';
import { account, endpoint, type Endpoint } from '../endpoint.ts';
import { readUses } from '../key-use.ts';
import { after, pageSize } from '../paging.ts';

export const accountEndpoints: readonly Endpoint[] = [
  endpoint({
    method: 'GET',
    path: '/accounts',
    operation: 'list_accounts',
    summary: 'List accounts, page by page',
    role: 'viewer',
    accountToken: 'own',
    input: z.strictObject({
      after,
      limit: pageSize,
      search: textValue(accountName)
        .optional()
        .describe('Only accounts whose id or name contains this text, ignoring case.'),
      filter: textValue(oneOf(accountFilters))
        .optional()
        .describe(
          'Only accounts with this property. `inactive`: the account is inactive. `encrypting`: it encrypts in at least one environment. ' +
            '`due`: a key or credentials are at least 180 days old and should be rotated. `expiring`: a valid key expires within 30 ' +
            'days. `unused`: a valid key has not been used for 30 days.',
        ),
    }),
    takesTurns: true,
    response: { status: 200, view: 'Accounts' },
    run: async (parts, { after, limit, search, filter }, { token }, { now }) => {
      const { items, ...page } = await parts.operations.listPage(limit, {
        after,
        only: token.account,
        search,
        anyOf: filter && [filter],
      });
      const useOf = await readUses(parts, token, items.flatMap(listKeyIds), now);
      return { accounts: items.map((each) => Object.assign({ use: useOf(listKeyIds(each)) }, each)), ...page };
    },
  }),
  endpoint({
    method: 'POST',
    path: '/accounts',
    operation: 'add_account',
    summary: 'Add an active account without keys',
    role: 'operator',
    input: z.strictObject({
      id: textValue(identifier).describe('The permanent id of the account.'),
      name: textValue(newName).describe("The merchant's display name."),
    }),
    response: { status: 201, view: 'ChangedAccount' },
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
    run: async (parts, input, { token }, { now }) => {
      const shown = await parts.operations.show(input.account);
      const useOf = await readUses(parts, token, listKeyIds(shown), now);
      const made = new Map(shown.keys.map(({ id, created_at: at }) => [id, at]));
      const keys = shown.keys.map((key) => {
        return Object.assign({ use: useOf([key.id]), replaced_at: made.get(successorId(key.id)) ?? null }, key);
      });
      return { ...shown, keys };
    },
  }),
  endpoint({
    method: 'POST',
    path: '/accounts/{account}/rename',
    operation: 'rename_account',
    summary: 'Rename an account; its id stays the same',
    role: 'operator',
    accountToken: 'none',
    input: z.strictObject({ account, name: textValue(newName).describe("The merchant's display name.") }),
    response: { status: 200, view: 'ChangedAccount' },
    run: ({ operations }, { account, name }, caller) => operations.rename(account, name, caller),
  }),
  endpoint({
    method: 'POST',
    path: '/accounts/{account}/activate',
    operation: 'activate_account',
    summary: 'Accept requests from an account again',
    role: 'admin',
    accountToken: 'none',
    input: z.strictObject({ account }),
    response: { status: 200, view: 'ChangedAccount' },
    run: ({ operations }, input, caller) => operations.setActive(input.account, true, caller),
  }),
  endpoint({
    method: 'POST',
    path: '/accounts/{account}/deactivate',
    operation: 'deactivate_account',
    summary: 'Refuse all requests from an account',
    role: 'admin',
    accountToken: 'none',
    input: z.strictObject({ account }),
    response: { status: 200, view: 'ChangedAccount' },
    urgent: true,
    run: ({ operations }, input, caller) => operations.setActive(input.account, false, caller),
  }),
  endpoint({
    method: 'POST',
    path: '/accounts/{account}/remove',
    operation: 'remove_account',
    summary: 'Remove an account that is not active and has no valid key; its events stay in the trail',
    role: 'admin',
    accountToken: 'none',
    input: z.strictObject({ account }),
    response: { status: 200, view: 'ChangedAccount' },
    run: ({ operations }, input, caller) => operations.remove(input.account, caller),
  }),
];

function listKeyIds({ keys }: AccountView): readonly string[] {
  return keys.map(({ id }) => id);
}

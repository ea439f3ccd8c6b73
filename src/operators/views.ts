import { z } from 'zod';
import { accountView, enabledView, encryptionView, issuedKeyView, keyView } from '../accounts/views.ts';
import { operatorRoles } from '../config/config.ts';

/** The responses, by their names in the API's description. */
export const views = {
  Session: z
    .object({
      name: z.string().describe('The name of the token.'),
      role: z.enum(operatorRoles),
      account: z.string().nullable().describe('The only account that the token may see and change; null: all.'),
    })
    .describe('The token of the request.'),
  Account: accountView,
  Accounts: z
    .object({
      accounts: z.array(accountView),
      next: z.string().nullable().describe('`after` of the next page; null on the last one.'),
      unreadable: z
        .array(z.string())
        .describe('What is wrong with accounts of this page that are left out because the database holds odd values.'),
    })
    .describe('A page of accounts, in the order of their ids.'),
  Key: keyView,
  Keys: z.object({ keys: z.array(keyView) }).describe('All keys of an account, in the order in which they were made.'),
  IssuedKey: issuedKeyView,
  Encryption: encryptionView,
  EnabledEncryption: enabledView,
} as const;
export type ViewName = keyof typeof views;

import { z } from 'zod';
import { environmentNames } from '../accounts/api-key.ts';
import { dueView } from '../accounts/due.ts';
import {
  accountView,
  auditEventView,
  enabledView,
  encryptionView,
  issuedKeyView,
  keyView,
  shownKeyView,
} from '../accounts/views.ts';
import { refusals, type RefusalCode } from '../errors.ts';
import { operatorRoles } from '../config/choices.ts';

const time = z.string().meta({ format: 'date-time' });
const limit = z.object({ limit: z.int(), used: z.int() });

const refusalCode = z.enum(Object.keys(refusals) as RefusalCode[]).describe('As in docs/errors.md.');

/** The members that tell whether the content of a file is in force. */
const file = {
  in_force: z.boolean(),
  loaded_at: time
    .nullable()
    .describe('When the content in force was last loaded: a reload loads all files, whichever has changed.'),
  problems: z.array(z.string()).describe('Why the current content of the file is not in force.'),
};

/** The members of every page. */
const page = {
  next: z.string().nullable().describe('The value of `after` for the next page; null on the last page.'),
  unreadable: z
    .array(z.string())
    .describe(
      'Accounts omitted because their rows are invalid, each with the reason; if there are more than 100, the last item says how many more there are.',
    ),
};

/** The members of every response to a change. */
const change = {
  in_force: z
    .boolean()
    .describe('Whether this sidecar already uses the account as stored. The response waits up to 2 seconds for this.'),
};

/** The use of keys, as this sidecar saw it. */
const use = z
  .object({
    hours: z.array(z.int()).describe('Requests in the last 24 hours, by hour, oldest first. The last is incomplete.'),
    last_hour: z.int().describe('Requests in the last 60 minutes, accurate to within five minutes.'),
    last_at: time.nullable().describe('When the last request arrived.'),
    attempts: z.int().describe('Requests that were refused because a key was revoked or had expired.'),
    last_attempt_at: time.nullable(),
    days: z
      .array(z.int())
      .nullable()
      .describe(
        'Requests in the last 30 days through all sidecars, per 24 hours, oldest first, as stored once a minute. Null if the accounts are in a ' +
          'file, or if they cannot be read.',
      ),
  })
  .describe('Requests as this sidecar saw them since its start, and `days`.');
const usedKey = keyView
  .extend({ use, replaced_at: time.nullable().describe('When its successor was created; null if it has none.') })
  .describe('An API key, without the key itself, and its use.');

const listedAccount = accountView.extend({ use }).describe('A merchant, with the use of all its keys.');

/** The schemas of responses, by their names in the API's description. */
export const views = {
  Session: z
    .object({
      name: z.string().describe('The name of the token.'),
      role: z.enum(operatorRoles),
      account: z.string().nullable().describe('The only account that the token may see and change; null if all.'),
    })
    .describe('The token of the request.'),
  Overview: z
    .object({
      version: z.string(),
      ready: z.boolean(),
      configuration: z.object({
        ...file,
        needs_restart: z.array(z.string()).describe('Members that have changed but take effect only after a restart.'),
      }),
      accounts_file: z.object(file).nullable().describe('Null if the accounts are in a database.'),
      database: z
        .object({
          connected: z.boolean(),
          keys_cached: z.int(),
          cached_until: time
            .nullable()
            .describe(
              'While the database cannot be reached: until when cached keys work. Null while it can be reached, or if no cached key works.',
            ),
        })
        .nullable()
        .describe('Null if the accounts are in a file.'),
      master_keys: z.int().describe('The number of configured master keys.'),
      certificates: z.array(z.object({ certificate: z.string(), expires_at: time })),
      limits: z.object({ connections: limit, in_flight: limit, buffered: limit.describe('Bytes of bodies.') }),
      counts: z
        .object({
          accounts: z.int(),
          accounts_encrypting: z.int(),
          keys_due: z.int().describe('Valid keys that are older than 180 days.'),
          keys_expiring: z.int().describe('Valid keys that expire within 30 days.'),
          credentials_due: z.int(),
        })
        .nullable()
        .describe(
          'Null until the accounts in the database have been counted. They are counted at most every ten seconds, and less often if that takes long.',
        ),
      since: time.describe('When this sidecar started.'),
    })
    .describe('The current state of this sidecar.'),
  Traffic: z
    .object({
      slot_seconds: z.int().describe('The length of a slot.'),
      slots: z
        .array(
          z.object({
            time,
            served: z.int().describe('Answered by the core with a status below 500.'),
            refused: z.int().describe('Refused by the sidecar.'),
            failed: z.int().describe('Answered by the core with a status of 5xx.'),
            left: z.int().describe('Without a complete response: the client left, or the connection was closed.'),
            p50_ms: z.number().nullable().describe('Median duration of requests that the core answered.'),
            p99_ms: z.number().nullable(),
          }),
        )
        .describe('Oldest first. The last one is incomplete.'),
      refusals: z.array(z.object({ code: refusalCode, count: z.int() })).describe('By code, most frequent first.'),
    })
    .describe('Requests as this sidecar saw them since its start, by their outcome.'),
  Configuration: z
    .object({
      members: z.array(
        z.object({
          member: z.string().describe('Its name, such as `limits.requestBody`.'),
          value: z.string().nullable().describe('In the syntax of sidecar.yaml; null if not set.'),
          secret: z.boolean().describe('Whether the value is a secret, which is not shown.'),
          source: z
            .string()
            .nullable()
            .describe(
              'Where the value comes from: `inline`, `file PATH` or `variable NAME`; null if it is the default.',
            ),
          needs_restart: z.boolean().describe('Whether a change takes effect only after a restart.'),
        }),
      ),
    })
    .describe('The configuration in force, without secrets.'),
  Diagnosis: z
    .object({ cause: z.string().nullable().describe('Null if it opens.') })
    .describe('Why an envelope does not open, for the caller that sent the key.'),
  Account: accountView
    .extend({ keys: z.array(usedKey).describe(accountView.shape.keys.description ?? '') })
    .describe('A merchant, with all API keys and their use, and both environments.'),
  ChangedAccount: accountView.extend(change).describe('The account after a change.'),
  ListedAccount: listedAccount,
  Accounts: z.object({ accounts: z.array(listedAccount), ...page }).describe('A page of accounts, ordered by id.'),
  Key: keyView,
  Use: use,
  UsedKey: usedKey,
  ShownKey: shownKeyView
    .extend({ use })
    .describe('An API key, without the key itself, with its use and who revoked it.'),
  ChangedKey: keyView.extend(change).describe('The API key after a change.'),
  Keys: z
    .object({ keys: z.array(keyView), next: page.next })
    .describe('A page of the keys of an account, oldest first.'),
  Due: z
    .object({ due: z.array(dueView), ...page })
    .describe('Keys and credentials that should be replaced, most urgent first.'),
  IssuedKey: issuedKeyView.extend(change).describe('A new API key.'),
  Encryption: encryptionView,
  ShownEncryption: encryptionView
    .extend({
      unexpected_envelopes: z
        .int()
        .describe(
          'Requests in the last ten minutes, as this sidecar saw them, whose body begins like an envelope although the ' +
            'account does not encrypt.',
        ),
    })
    .describe(
      'How an account encrypts in one environment, and whether it sends envelopes although it does not encrypt. No secret.',
    ),
  ChangedEncryption: encryptionView.extend(change).describe('How an account encrypts after a change.'),
  Graces: z.object({ graces: z.array(encryptionView), ...page }).describe('Encryption with a running grace period.'),
  EnabledEncryption: enabledView.extend(change).describe('New credentials.'),
  Envelope: z
    .object({ data: z.string() })
    .describe('The envelope of the body. `Envelope-Credentials` is the fingerprint of its credentials.'),
  Events: z
    .object({
      events: z.array(auditEventView),
      ...page,
      next: z
        .string()
        .nullable()
        .describe(
          'The value of `before` for the next page, or of `after` if the request has `after`; null on the last page.',
        ),
    })
    .describe('Changes, sign-ins and refused requests, newest first or, with `after`, oldest first.'),
  Activity: z
    .object({
      refusals: z.array(
        z.object({
          time,
          request_id: z.string(),
          account: z.string(),
          environment: z.enum(environmentNames),
          key: z.string().describe('The id of the API key.'),
          route: z.string().describe('As configured, or `unlisted`.'),
          code: refusalCode,
          reason: z.string().nullable().describe('Why an envelope did not open.'),
        }),
      ),
      grace_uses: z
        .array(
          z.object({
            account: z.string(),
            environment: z.enum(environmentNames),
            key: z.string().describe('The id of the API key.'),
            last_used_at: time,
          }),
        )
        .describe(
          'API keys that have used a grace period, including one that has ended; the most recently used first.',
        ),
    })
    .describe(
      'Refusals since the start, newest first: at most 50 of each account and 1,000 in all. API keys that need a grace period: at most 1,000.',
    ),
  Failures: z
    .object({
      failures: z.array(
        z.object({
          account: z.string(),
          environment: z.enum(environmentNames),
          requests: z.int(),
          refusals: z.int().describe('If the query has a `code`, only refusals with that code.'),
          code: refusalCode.nullable().describe('The most frequent code.'),
          opened: z.int().describe('Envelopes that opened.'),
          unopened: z.int().describe('Envelopes that did not open, as `envelopes_total` counts them.'),
          unread: z
            .int()
            .describe(
              'Bodies that were refused without being opened: not envelopes, or for credentials that the account does not have.',
            ),
        }),
      ),
    })
    .describe('Accounts with refusals in the last ten minutes, most refusals first.'),
} as const;
export type ViewName = keyof typeof views;

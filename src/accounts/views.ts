import { z } from 'zod';
import { keyTexts } from '../envelope/credentials.ts';
import { encodings } from '../envelope/encoding.ts';
import {
  environmentNames,
  getEnvironment,
  keyKinds,
  keyStates,
  getKind,
  getState,
  type EnvironmentName,
} from './api-key.ts';
import { isInGrace, keyWarnings, listWarnings } from './conditions.ts';
import { rfc3339 } from '../input/value-types.ts';
import {
  auditActions,
  type RecordedEvent,
  type StoredAccount,
  type StoredEncryption,
  type StoredKey,
} from './store.ts';
import type { EpochMs } from '../times.ts';

// Accounts as `--json` and the operators' API show them. Dates are RFC 3339 or null. The views are schemas, because the description of the
// API is generated from them.

const date = z.string().meta({ format: 'date-time' });
const lastUsed = date
  .nullable()
  .optional()
  .describe('When it was last used, to within a few minutes; null if never. Absent if the store does not record it.');

export const keyView = z
  .object({
    id: z.string(),
    name: z.string().nullable().describe('What its owner calls it.'),
    hint: z
      .string()
      .nullable()
      .describe('The key with its middle left out, such as `sk_live_…oiTq`; null if not known.'),
    account: z.string().describe('The id of its account.'),
    environment: z.enum(environmentNames),
    kind: z.enum(keyKinds),
    state: z.enum(keyStates),
    warnings: z
      .array(z.enum(keyWarnings))
      .describe('`due`: older than 180 days, so it should be rotated. `expiring`: it expires within 30 days.'),
    created_at: date,
    expires_at: date.nullable(),
    revoked_at: date.nullable(),
    last_used_at: lastUsed,
  })
  .describe('An API key, without the key itself.');
export type KeyView = z.output<typeof keyView>;

export const shownKeyView = keyView.extend({
  revoked_by: z
    .string()
    .nullable()
    .describe('Who revoked it, as in the audit trail; null if not revoked, or not known.'),
});
export type ShownKeyView = z.output<typeof shownKeyView>;

export const encryptionView = z
  .object({
    account: z.string().describe('The id of its account.'),
    environment: z.enum(environmentNames),
    enabled: z.boolean(),
    encoding: z.enum(encodings).describe('Encoding of sealed responses.'),
    format: z.enum(keyTexts).nullable().describe('The format of the key and the IV; null if encryption is disabled.'),
    created_at: date.nullable().describe('When the credentials were created.'),
    previous: z
      .object({
        accepts: z
          .enum(['credentials', 'plaintext'])
          .describe('Whether the previous credentials or plaintext are accepted.'),
        until: date.describe('When they stop being accepted.'),
        last_used_at: lastUsed,
      })
      .nullable()
      .describe('Also accepted during the grace period.'),
  })
  .describe('How an account encrypts in one environment. Contains no secret.');
export type EncryptionView = z.output<typeof encryptionView>;

export const accountView = z
  .object({
    id: z.string(),
    name: z.string(),
    active: z.boolean(),
    keys: z
      .array(keyView)
      .describe('At most the newest 1,000; `GET /accounts/{account}/keys` returns all of them, in pages.'),
    encryption: z.object({ test: encryptionView, live: encryptionView }),
  })
  .describe('A merchant, with all API keys and both environments.');
export type AccountView = z.output<typeof accountView>;

export const auditEventView = z
  .object({
    position: z
      .int()
      .describe('Its position in the trail. Positions increase in the order in which events were written.'),
    at: date,
    actor: z
      .string()
      .describe(
        '`user:<name>` on the command line, `token:<name>` for the API, `sidecar` for reloads, `unknown` for refused requests.',
      ),
    action: z.enum(auditActions),
    account: z.string().nullable().describe('The id of the account; null if the event concerns all accounts.'),
    details: z.record(z.string(), z.union([z.string(), z.number(), z.boolean()])),
    origin: z
      .string()
      .nullable()
      .describe(
        'Where the change came from: the address of an API client, or `OSUSER@HOST` for a command; null if not known, or not shown to a token of one account.',
      ),
  })
  .describe('A change that was made. Never contains a secret.');
export type AuditEventView = z.output<typeof auditEventView>;

const secretShown = z
  .boolean()
  .describe('Whether this response contains the secret. False for a repeated request: the secret was shown before.');

export const issuedKeyView = keyView
  .extend({
    key: z.string().optional().describe('The API key itself. Shown once.'),
    replaces: z
      .object({ id: z.string(), expires_at: date })
      .optional()
      .describe('The key that it replaces, and when that key expires.'),
    secret_shown: secretShown,
  })
  .describe('A key that was just created.');
export type IssuedKeyView = z.output<typeof issuedKeyView>;

export const enabledView = encryptionView
  .extend({
    key: z.string().optional().describe('The AES key, 32 characters. Shown once.'),
    iv: z.string().optional().describe('The IV, 16 characters. Shown once.'),
    fingerprint: z
      .string()
      .describe(
        'The fingerprint of the key and the IV, with which the merchant checks them and names them in `Envelope-Credentials`.',
      ),
    secret_shown: secretShown,
  })
  .describe('Credentials that were just created.');
export type EnabledView = z.output<typeof enabledView>;

/** The context of a view. */
export interface Viewing {
  readonly now: EpochMs;
  /** Whether the store records when something was last used. */
  readonly recordsUse: boolean;
}

/** Maximum number of keys of one account in a view. An account can have more keys only if some of them ended long ago. */
const maxShownKeys = 1_000;

export function viewAccount(account: StoredAccount, viewing: Viewing): AccountView {
  return {
    id: account.id,
    name: account.name,
    active: account.active,
    keys: account.keys.slice(-maxShownKeys).map((key) => viewKey(account.id, key, viewing)),
    encryption: {
      test: viewEncryption(account, 'test', viewing),
      live: viewEncryption(account, 'live', viewing),
    },
  };
}

export function viewKey(account: string, key: StoredKey, { now, recordsUse }: Viewing): KeyView {
  const { id, name = null, prefix, lastFour, createdAt, expiresAt, revokedAt, lastUsedAt } = key;
  return {
    id,
    name,
    hint: lastFour === undefined ? null : `${prefix}…${lastFour}`,
    account,
    environment: getEnvironment(prefix),
    kind: getKind(prefix),
    state: getState(key, now),
    warnings: listWarnings(key, now),
    created_at: rfc3339(createdAt),
    expires_at: dateOrNull(expiresAt),
    revoked_at: dateOrNull(revokedAt),
    ...(recordsUse && { last_used_at: dateOrNull(lastUsedAt) }),
  };
}

export function viewEncryption(
  account: StoredAccount,
  environment: EnvironmentName,
  { now, recordsUse }: Viewing,
): EncryptionView {
  const encryption: StoredEncryption = account.encryption[environment] ?? never;
  const { enabled, encoding, credentials } = encryption;
  const previous = isInGrace(encryption, now) ? encryption.previous : undefined;
  return {
    account: account.id,
    environment,
    enabled,
    encoding,
    format: enabled && credentials !== undefined ? credentials.format : null,
    created_at: enabled ? dateOrNull(credentials?.createdAt) : null,
    previous:
      previous === undefined
        ? null
        : {
            accepts: previous.credentials === undefined ? 'plaintext' : 'credentials',
            until: rfc3339(previous.until),
            ...(recordsUse && { last_used_at: dateOrNull(previous.lastUsedAt) }),
          },
  };
}

export function viewEvent({ position, at, actor, action, account, details, origin }: RecordedEvent): AuditEventView {
  return { position, at: rfc3339(at), actor, action, account: account ?? null, details, origin: origin ?? null };
}

/** Stands for an environment in which encryption was never enabled. */
const never: StoredEncryption = { enabled: false, encoding: 'hex', credentials: undefined, previous: undefined };

function dateOrNull(time: number | undefined): string | null {
  return time === undefined ? null : rfc3339(time);
}

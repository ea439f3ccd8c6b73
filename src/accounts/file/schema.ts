import { z } from 'zod';
import { keyTexts } from '../../envelope/credentials.ts';
import { encodings } from '../../envelope/encoding.ts';
import { instant, oneOf, text } from '../../input/value-types.ts';
import type { Values } from '../../yaml/values.ts';
import { keyPrefixes } from '../api-key.ts';
import { accountName, apiKey, identifier, lastFour, sha256 } from '../value-types.ts';

/** The accounts file as written. Its documentation is generated from the descriptions. */
export type AccountsFile = z.output<ReturnType<typeof accountsSchema>>;

export function accountsSchema({ value }: Values) {
  const key = z.strictObject({
    id: value(identifier).describe('Identifies the key in logs and to the upstream. Unique in the file.'),
    name: value(accountName).optional().describe('The display name of the key.'),
    key: value(apiKey).optional().describe('The key itself, for development. In production, store `sha256`.'),
    prefix: value(oneOf(keyPrefixes)).optional().describe('Kind and environment of a key stored as `sha256`.'),
    sha256: value(sha256)
      .optional()
      .describe('Hash of the whole key, instead of `key`: `printf %s "$KEY" | sha256sum`.'),
    lastFour: value(lastFour).optional().describe('The last four characters of the key, shown in lists.'),
    createdAt: value(instant).describe('When the key was created. Rotation is due after 180 days.'),
    expiresAt: value(instant).optional().describe('When the key expires.'),
    revokedAt: value(instant)
      .optional()
      .describe('When the key was revoked. It is refused even if the date is in the future.'),
  });

  const encryption = z.strictObject({
    enabled: z.boolean().describe('Whether the account encrypts in this environment.'),
    key: value(text)
      .optional()
      .describe('The AES key; see `format`. Required if encryption is enabled. The key and the IV may be wrapped.'),
    iv: value(text).optional().describe('The IV; see `format`. Required if encryption is enabled.'),
    encoding: value(oneOf(encodings))
      .prefault('hex')
      .describe('Encoding of sealed responses. Requests may come in either encoding.'),
    format: value(oneOf(keyTexts))
      .prefault('text')
      .describe(
        '`text`: the key is 32 bytes of UTF-8; the IV is the first 16 characters of the `iv` string. ' +
          '`base64`: base64 of 32 and 16 bytes.',
      ),
    createdAt: value(instant)
      .optional()
      .describe('When the credentials were created. Rotation is due after 180 days, or never if this is absent.'),
    previous: z
      .strictObject({
        key: value(text).optional().describe('The previous key.'),
        iv: value(text).optional().describe('The previous IV. Without `key` and `iv`, plaintext is accepted.'),
        format: value(oneOf(keyTexts))
          .optional()
          .describe('Format of the previous credentials, if it differs from that of the current ones.'),
        until: value(instant).describe('The end of the grace period.'),
      })
      .optional()
      .describe('Credentials, or plaintext, that are also accepted during a grace period.'),
  });

  const account = z.strictObject({
    id: value(identifier).describe('Identifies the account in logs and to the upstream. Unique in the file.'),
    name: value(accountName).describe('The display name of the merchant.'),
    active: z.boolean().default(true).describe('If false, requests from the account are refused.'),
    keys: z
      .array(key)
      .prefault([])
      .describe('API keys. Several may be valid at the same time, so that you can rotate them.'),
    encryption: z
      .strictObject({
        test: encryption.optional().describe('Credentials for the test environment.'),
        live: encryption
          .optional()
          .describe('Credentials for the live environment. They must differ from those for test.'),
      })
      .prefault({})
      .describe('AES encryption, by environment.'),
  });

  return z.strictObject({
    accounts: z.array(account).describe('The accounts, with their API keys and credentials.'),
  });
}

import { z } from 'zod';
import { formatNames } from '../../envelope/credentials.ts';
import { encodings } from '../../envelope/encoding.ts';
import { instant, oneOf, text } from '../../input/value-types.ts';
import type { Values } from '../../yaml/values.ts';
import { keyPrefixes } from '../api-key.ts';
import { accountName, apiKey, identifier, lastFour, sha256 } from '../value-types.ts';

/** The accounts' file as written. Its documentation is generated from the descriptions. */
export type AccountsFile = z.output<ReturnType<typeof accountsSchema>>;

/** @param name which names accounts and keys may have */
export function accountsSchema({ value }: Values, name = accountName) {
  const key = z.strictObject({
    id: value(identifier).describe('Names the key in logs and to the upstream. Unique in the file.'),
    name: value(name).optional().describe('What its owner calls the key, for lists.'),
    key: value(apiKey).optional().describe('The key itself. For development: a key in use is better kept as `sha256`.'),
    prefix: value(oneOf(keyPrefixes)).optional().describe('Kind and environment of a key kept as `sha256`.'),
    sha256: value(sha256)
      .optional()
      .describe('Hash of the whole key, in place of `key`: `printf %s "$KEY" | sha256sum`.'),
    lastFour: value(lastFour).optional().describe('Its last four characters, for lists of keys kept as `sha256`.'),
    createdAt: value(instant).describe('When the key was made. Its age is watched, for rotation.'),
    expiresAt: value(instant).optional().describe('The key is refused from then on.'),
    revokedAt: value(instant).optional().describe('When it was revoked. The key is refused, whatever the date.'),
  });

  const encryption = z.strictObject({
    enabled: z.boolean().describe('Whether the account encrypts in this environment.'),
    key: value(text)
      .optional()
      .describe('The AES key; see `format`. Required if encryption is enabled. It may be wrapped, and so may the IV.'),
    iv: value(text).optional().describe('The IV; see `format`. Required if encryption is enabled.'),
    encoding: value(oneOf(encodings))
      .prefault('hex')
      .describe('Encoding of sealed responses. Requests may come in either encoding.'),
    format: value(oneOf(formatNames))
      .prefault('text')
      .describe(
        '`text`: the key is 32 bytes of UTF-8, the IV the first 16 characters of its text. ' +
          '`base64`: both are base64, of 32 and 16 bytes.',
      ),
    createdAt: value(instant)
      .optional()
      .describe('When the credentials were made. Their age is watched, for rotation.'),
    previous: z
      .strictObject({
        key: value(text).optional().describe('The key before.'),
        iv: value(text).optional().describe('The IV before. Without `key` and `iv`, plaintext is accepted.'),
        format: value(oneOf(formatNames))
          .optional()
          .describe('Format of the previous credentials, if it differs from that of the current ones.'),
        until: value(instant).describe('The end of the grace.'),
      })
      .optional()
      .describe('Also accepted for a time after a change.'),
  });

  const account = z.strictObject({
    id: value(identifier).describe('Names the account in logs and to the upstream. Unique in the file.'),
    name: value(name).describe('The display name of the merchant.'),
    active: z.boolean().default(true).describe('Requests of an account that is not active are refused.'),
    keys: z.array(key).prefault([]).describe('API keys. Several may be valid at a time, to rotate them.'),
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

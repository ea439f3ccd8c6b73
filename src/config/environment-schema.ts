import { z } from 'zod';
import { oneOf } from '../input/value-types.ts';
import type { Values } from '../yaml/values.ts';
import { certificates, hostName, privateKey, upstreamUrl } from './value-types.ts';

/** The schema of one member of `environments`. The short form of an upstream is converted to the long form. */
export function environmentSchema({ value, pem }: Values) {
  const upstream = z
    .union(
      [
        value(upstreamUrl),
        z.strictObject({
          url: value(upstreamUrl).describe('The address, as in the short form.'),
          ca: pem(certificates).optional().describe('CAs to trust instead of the public ones. Only for `https://`.'),
          cert: pem(certificates).optional().describe('Client certificate. Only for `https://`, together with `key`.'),
          key: pem(privateKey).optional().describe('Private key of the client certificate.'),
          authorization: value(oneOf(['forward']))
            .optional()
            .describe(
              'Forwards the `Authorization` header, for a payment core that checks API keys itself. By default it is removed.',
            ),
        }),
      ],
      { error: `expected ${upstreamUrl.expected}, or a mapping that contains "url"` },
    )
    .transform((written) => {
      const { url, authorization, ...tls } = 'url' in written ? written : { url: written };
      return {
        ca: undefined,
        cert: undefined,
        key: undefined,
        ...tls,
        ...url,
        forwardsAuthorization: authorization === 'forward',
      };
    });

  return z.strictObject({
    hosts: z
      .array(value(hostName))
      .min(1)
      .optional()
      .describe(
        'Hosts of this environment; letter case is ignored. Optional if there is only one environment, which then serves every host.',
      ),
    upstream: upstream.describe('Address of the payment core, in short form or with options.'),
  });
}

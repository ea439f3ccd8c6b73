import { z } from 'zod';
import { parseCredentials } from '../../envelope/formats.ts';
import { findCause } from '../../envelope/hints/diagnosis.ts';
import { endpoint, type Endpoint } from '../endpoint.ts';

const text = z.string().min(1).max(12_000);

export const diagnosisEndpoints: readonly Endpoint[] = [
  endpoint({
    method: 'POST',
    path: '/diagnosis',
    operation: 'diagnose_envelope',
    summary: 'Find out why an envelope does not open with a key and an IV; nothing is stored',
    role: 'viewer',
    accountToken: 'own',
    input: z.strictObject({
      key: text.describe('As the merchant received it.'),
      iv: text.describe('As the merchant received it.'),
      data: text.describe('The ciphertext, in hex or base64.'),
    }),
    response: { status: 200, view: 'Diagnosis' },
    run: async (_parts, { key, iv, data }) => {
      const credentials = parseCredentials(key, iv, 'text');
      if (Array.isArray(credentials)) {
        return { cause: credentials.map(({ member, message }) => `the ${member} ${message}`).join('; ') };
      }
      return { cause: findCause(data, credentials, key, iv) ?? null };
    },
  }),
];

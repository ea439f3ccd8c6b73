import manifest from '../package.json' with { type: 'json' };
import { findRefusal, refusals, type RefusalCode } from '../src/errors.ts';
import { cipherTestPaths } from '../src/proxy/admit/target.ts';
import { describedHeaders } from './merchants-headers.ts';
import { sealedText, type DemoCredentials } from './merchants-page.ts';
import {
  envelopeHeaders,
  headerReferences,
  reference,
  refusalExamples,
  refusalResponses,
  type Json,
} from './merchants-refusals.ts';

/** Payment cores have different enveloped endpoints, so this path stands for all of them. */
const envelopedPath = '/api/s2s/{endpoint}';

const codes = Object.keys(refusals) as RefusalCode[];

/** An OpenAPI 3.1 description of what merchants call: the two test endpoints, the envelope, and the refusals. */
export function merchantsOpenApi(demo: DemoCredentials): Json {
  return {
    openapi: '3.1.0',
    info: {
      title: 'Encrypted API calls, for merchants',
      version: manifest.version,
      description: 'The envelope, its headers, the two test endpoints and the errors. See docs/merchants.md.',
      license: { name: 'MIT', identifier: 'MIT' },
    },
    servers: [
      {
        url: '{base}',
        variables: {
          base: { default: 'http://127.0.0.1:8080', description: 'Your endpoint. The default is the demo.' },
        },
      },
    ],
    security: [{ apiKey: [] }],
    paths: {
      [cipherTestPaths.encrypt]: { post: encrypt(demo) },
      [cipherTestPaths.decrypt]: { post: decrypt(demo) },
      [envelopedPath]: {
        parameters: [
          {
            name: 'endpoint',
            in: 'path',
            required: true,
            description: 'An endpoint of the API, such as `charge`.',
            schema: { type: 'string' },
            example: 'charge',
          },
        ],
        post: send(demo),
        get: read(demo),
      },
    },
    components: {
      securitySchemes: {
        apiKey: { type: 'http', scheme: 'bearer', description: 'A secret API key: `sk_test_…` or `sk_live_…`.' },
      },
      schemas: schemas(),
      parameters: parameters(demo),
      examples: refusalExamples(demo),
      headers: Object.fromEntries(
        [...describedHeaders('API')].map(([name, { text, schema }]) => [name, { description: text, schema }]),
      ),
    },
  };
}

function encrypt(demo: DemoCredentials): Json {
  return {
    operationId: 'aes_encrypt',
    summary: 'Test only: encrypt a JSON document',
    description: 'White space between its tokens is removed, and nothing else is changed.',
    ...testEndpoint('encrypt', {
      requestBody: jsonBody({ description: 'Any JSON document.' }, { amount: 1500 }),
      response: jsonBody(reference('schemas/HexEnvelope'), { data: sealedText(demo, 'hex', '{"amount":1500}') }),
    }),
  };
}

function decrypt(demo: DemoCredentials): Json {
  return {
    operationId: 'aes_decrypt',
    summary: 'Test only: decrypt a ciphertext',
    description: 'If it does not decrypt to JSON, the `hint` of the error names the likely mistake.',
    ...testEndpoint('decrypt', {
      requestBody: jsonBody(reference('schemas/EncryptedData'), {
        encrypted_data: sealedText(demo, 'hex', '{"amount":1500}'),
      }),
      response: jsonBody({ description: 'The decrypted JSON document itself.' }, { amount: 1500 }),
    }),
  };
}

function testEndpoint(
  operation: 'encrypt' | 'decrypt',
  { requestBody, response }: { readonly requestBody: Json; readonly response: Json },
): Json {
  return {
    // No API key is needed, but if one is sent, it is checked.
    security: [{}, { apiKey: [] }],
    parameters: ['key', 'iv', 'X-Request-Id'].map((name) => reference(`parameters/${name}`)),
    requestBody: { required: true, ...requestBody },
    responses: {
      200: { description: 'Done.', headers: headerReferences('X-Request-Id'), ...response },
      ...refusalResponses(operation),
    },
  };
}

function send(demo: DemoCredentials): Json {
  const example = '{"amount":1500,"currency":"EUR"}';
  return {
    operationId: 'send_envelope',
    summary: 'Send an encrypted body, and get an encrypted response',
    description: 'PUT, PATCH and DELETE work alike.',
    ...enveloped(demo, 'send'),
    requestBody: {
      required: true,
      description: 'Encrypted with AES-256-CBC and PKCS#7 padding.',
      ...jsonBody(reference('schemas/Envelope'), { data: sealedText(demo, 'hex', example) }),
    },
  };
}

function read(demo: DemoCredentials): Json {
  return {
    operationId: 'read_envelope',
    summary: 'Send no body, and get an encrypted response',
    ...enveloped(demo, 'read'),
  };
}

function enveloped(demo: DemoCredentials, operation: 'send' | 'read'): Json {
  const sealed = {
    headers: envelopeHeaders,
    ...jsonBody(reference('schemas/Envelope'), { data: sealedText(demo, 'hex', '{"status":"succeeded"}') }),
  };
  return {
    parameters: ['Envelope-Credentials', 'X-Request-Id'].map((name) => reference(`parameters/${name}`)),
    responses: {
      '2XX': {
        description: 'A response of the API, sealed. Without a body, such as 204, there is nothing to open.',
        ...sealed,
      },
      ...refusalResponses(operation),
      default: { description: 'An error of the API, sealed.', ...sealed },
    },
  };
}

function schemas(): Json {
  const hex = '(?:[0-9A-Fa-f]{32})+';
  const base64 = '(?:[A-Za-z0-9+/]{4})*(?:[A-Za-z0-9+/]{4}|[A-Za-z0-9+/]{2}[AEIMQUYcgkosw048]=|[A-Za-z0-9+/][AQgw]==)';
  const envelope = (data: Json): Json => ({
    type: 'object',
    properties: { data },
    required: ['data'],
    additionalProperties: false,
  });
  return {
    Envelope: {
      description: 'JSON, encrypted. Decrypted with your key and IV, `data` is the document.',
      ...envelope({
        type: 'string',
        description: 'The ciphertext, in hex of either case or in padded base64.',
        pattern: `^(?:${hex}|${base64})$`,
      }),
    },
    HexEnvelope: {
      description: 'As `Envelope`, in lower-case hex.',
      ...envelope({ type: 'string', pattern: '^(?:[0-9a-f]{32})+$' }),
    },
    EncryptedData: {
      type: 'object',
      properties: { encrypted_data: { type: 'string', description: 'A ciphertext, as in `data` of an envelope.' } },
      required: ['encrypted_data'],
    },
    Problem: {
      description: "An error of the sidecar (RFC 9457). An error without one of these codes is the API's own.",
      type: 'object',
      properties: {
        type: { type: 'string', description: 'A link to the explanation of the code.' },
        title: { type: 'string' },
        status: { type: 'integer' },
        detail: { type: 'string', description: 'What to correct. The text may change.' },
        code: {
          type: 'string',
          enum: codes,
          description: codes.map((code) => `- \`${code}\`: ${findRefusal(code).detail}`).join('\n'),
        },
        request_id: { type: 'string', description: 'The same as the header `X-Request-Id`.' },
        forwarded: {
          type: 'string',
          enum: ['no', 'maybe'],
          description: 'Whether the payment core may have seen the request. Repeat a payment only if it is `no`.',
        },
        hint: { type: 'string', description: 'In test: the likely mistake.' },
      },
      required: ['type', 'title', 'status', 'detail', 'code', 'request_id', 'forwarded'],
      additionalProperties: false,
    },
  };
}

function parameters(demo: DemoCredentials): Json {
  const header = (name: string, more: Json): Json => ({ name, in: 'header', ...more });
  const optional = [...describedHeaders('you')].map(([name, { text, schema }]) => [
    name,
    header(name, { required: false, description: text, schema }),
  ]);
  return {
    key: header('key', {
      required: true,
      description: 'The encryption key: 32 bytes of UTF-8. Use test credentials only.',
      schema: { type: 'string' },
      example: demo.key,
    }),
    iv: header('iv', {
      required: true,
      description: 'The IV: its first 16 characters count.',
      schema: { type: 'string' },
      example: demo.iv,
    }),
    ...Object.fromEntries(optional),
  };
}

function jsonBody(schema: Json, example: unknown): Json {
  return { content: { 'application/json': { schema, example } } };
}

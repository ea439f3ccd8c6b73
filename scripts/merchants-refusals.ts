import { Refusal, findRefusal, refusals, type RefusalCode } from '../src/errors.ts';
import { problemDocument } from '../src/proxy/respond/problem.ts';
import { sealedText, type DemoCredentials } from './merchants-page.ts';

export type Json = Readonly<Record<string, unknown>>;

const codes = Object.keys(refusals) as RefusalCode[];

const ofCore = ['upstream_unavailable', 'upstream_timeout', 'sealing_failed'] as const;
const ofEnvelopes = ['envelope_required', 'envelope_malformed'] as const;
const ofBodies = ['unsupported_content_encoding', 'body_too_large'] as const;
const ofOthers = ['invalid_cipher_test', 'encryption_not_supported'] as const;

/** Refusals that test endpoints never return, because these endpoints need no key, accept POST from everyone and forward nothing. */
const neverOnTests = [
  ...(['missing_api_key', 'key_not_permitted', 'method_not_allowed', 'encryption_not_supported'] as const),
  ...ofEnvelopes,
  ...ofCore,
];

/** The refusals that each operation never returns. */
const impossible = {
  encrypt: [...neverOnTests, 'decryption_failed'],
  decrypt: neverOnTests,
  send: ofOthers,
  read: [...ofOthers, ...ofEnvelopes, ...ofBodies],
} as const satisfies Readonly<Record<string, Codes>>;

type Codes = readonly RefusalCode[];
type Operation = keyof typeof impossible;

/** The error responses of an operation, by status. */
export function refusalResponses(operation: Operation): Json {
  const without: Codes = impossible[operation];
  const possible = codes.filter((code) => !without.includes(code));
  const statuses = [...new Set(possible.map((code) => findRefusal(code).status))];
  return Object.fromEntries(
    statuses.map((status) => {
      const ofStatus = possible.filter((code) => findRefusal(code).status === status);
      const isEnveloped = operation === 'send' || operation === 'read';
      return [status, isEnveloped ? envelopedResponse(ofStatus) : plainResponse(ofStatus)];
    }),
  );
}

function plainResponse(all: Codes): Json {
  return {
    description: `${all.map((code) => `\`${code}\``).join(', ')}.`,
    headers: headerReferences('X-Request-Id', ...headersOf(all)),
    content: { 'application/problem+json': contentOf('Problem', all) },
  };
}

/**
 * The response of an enveloped endpoint. For an account without encryption, none of these refusals is sealed. The API's own errors have the
 * same statuses.
 */
function envelopedResponse(all: Codes): Json {
  const sealed = all.filter((code) => findRefusal(code).sealed === true);
  const list = all.map((code) => `\`${code}\`${sealed.includes(code) ? ' (sealed)' : ''}`);
  return {
    description: `${list.join(', ')}, or an error of the API, sealed.`,
    headers: { ...envelopeHeaders, ...headerReferences(...headersOf(all)) },
    content: {
      'application/problem+json': contentOf('Problem', all),
      'application/json': contentOf('Envelope', sealed, '_sealed'),
    },
  };
}

function headersOf(all: Codes): string[] {
  return all.some((code) => findRefusal(code).retryAfter !== undefined) ? ['Retry-After'] : [];
}

function contentOf(schema: string, some: Codes, suffix = ''): Json {
  const examples = some.map((code) => [code, reference(`examples/${code}${suffix}`)]);
  const named = some.length > 0 && { examples: Object.fromEntries(examples) as Json };
  return { schema: reference(`schemas/${schema}`), ...named };
}

/** Examples of these operations' refusals, as the sidecar sends them: plain, or sealed with the demo's credentials. */
export function refusalExamples(demo: DemoCredentials): Json {
  const occurrence = {
    requestId: '4e0b6f0c-3f2c-4d5e-9a53-0a6c1f1f7b1e',
    errorsPage: 'https://docs.example/errors',
  };
  const possible = codes.filter((code) => Object.values(impossible).some((never: Codes) => !never.includes(code)));
  return Object.fromEntries(
    possible.flatMap((code) => {
      const { title: summary, sealed } = findRefusal(code);
      const document = problemDocument(new Refusal(code), occurrence).toString();
      const plain = [code, { summary, value: JSON.parse(document) as Json }];
      const envelope = { data: sealedText(demo, 'hex', document) };
      return sealed === true
        ? [plain, [`${code}_sealed`, { summary: `${summary}, sealed`, value: envelope }]]
        : [plain];
    }),
  );
}

/** The headers that any response with envelopes may have. */
export const envelopeHeaders = headerReferences(
  'Envelope',
  'Envelope-Content-Type',
  'Envelope-Credentials',
  'Envelope-Hint',
  'X-Request-Id',
);

export function headerReferences(...names: readonly string[]): Json {
  return Object.fromEntries(names.map((name) => [name, reference(`headers/${name}`)]));
}

export function reference(component: string): Json {
  return { $ref: `#/components/${component}` };
}

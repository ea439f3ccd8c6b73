import { requestIdForm } from '../src/proxy/admit/head.ts';
import { fingerprintForm } from '../src/proxy/admit/sealing.ts';

/** A header that merchants send or read. Their page and their OpenAPI document are generated from these rows. */
interface HeaderRow {
  readonly name: string;
  readonly from: 'you' | 'API';
  /** The value as written on the page. */
  readonly value: string;
  /** One or two sentences, in Markdown. */
  readonly text: string;
  /** The JSON Schema of the value. If there is none, OpenAPI describes the header by other means. */
  readonly schema?: Readonly<Record<string, unknown>>;
}

/** The schema of a credentials fingerprint. */
const fingerprint = { type: 'string', pattern: fingerprintForm.source };
const requestId = { type: 'string', pattern: requestIdForm.source };

export const headerRows = [
  {
    name: 'Authorization',
    from: 'you',
    value: 'Bearer <API key>',
    text: 'With every request. Only the two test endpoints need none.',
  },
  { name: 'Content-Type', from: 'you', value: 'application/json', text: 'With every body.' },
  {
    name: 'Envelope-Credentials',
    from: 'you',
    value: '<fingerprint>',
    text: 'Names the key and IV that you have. The response is sealed with them, even during a rotation.',
    schema: fingerprint,
  },
  {
    name: 'X-Request-Id',
    from: 'you',
    value: '<id>',
    text: 'Optional. 1 to 128 letters, digits, dots, underscores and hyphens.',
    schema: requestId,
  },
  {
    name: 'Envelope',
    from: 'API',
    value: 'sealed',
    text: 'The body is an envelope. Without this header it is plain.',
    schema: { type: 'string', const: 'sealed' },
  },
  {
    name: 'Envelope-Content-Type',
    from: 'API',
    value: '<type>',
    text: 'The type of the decrypted body, if it is not `application/json`.',
    schema: { type: 'string' },
  },
  {
    name: 'Envelope-Credentials',
    from: 'API',
    value: 'current',
    text: 'During a rotation: the pair that the body is sealed with, `current`, `previous` or `none`.',
    schema: { type: 'string', enum: ['current', 'previous', 'none'] },
  },
  {
    name: 'Envelope-Hint',
    from: 'API',
    value: '<text>',
    text: 'In test: what was accepted, but is probably a mistake.',
    schema: { type: 'string' },
  },
  {
    name: 'X-Request-Id',
    from: 'API',
    value: '<id>',
    text: 'Your own id, or a new one. Log it, and quote it to support.',
    schema: requestId,
  },
  {
    name: 'Retry-After',
    from: 'API',
    value: '<seconds>',
    text: 'With a temporary error: wait this long before you send the request again.',
    schema: { type: 'integer', minimum: 0 },
  },
] as const satisfies readonly HeaderRow[];

/** The headers of one direction that OpenAPI describes as headers, by their names. */
export function describedHeaders(from: HeaderRow['from']): ReadonlyMap<string, Required<HeaderRow>> {
  const rows: readonly HeaderRow[] = headerRows;
  const described = rows.filter((row): row is Required<HeaderRow> => row.from === from && row.schema !== undefined);
  return new Map(described.map((row) => [row.name, row]));
}

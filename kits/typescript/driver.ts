/** Runs this kit for kits/conformance: one JSON object per line on stdin, one outcome per line on stdout. */
import { createInterface } from 'node:readline';
import { inspect } from 'node:util';
import { Envelope, EnvelopeError, selftest, type EnvelopeOptions } from './envelope.ts';
import { envelopeFetch, OutcomeUnknown, Refusal } from './fetch.ts';

interface Operation {
  readonly op: string;
  readonly key: string;
  readonly iv: string;
  readonly key_text?: 'text' | 'base64';
  readonly encoding?: 'hex' | 'base64';
  readonly plaintext: string;
  readonly data: string;
  readonly url: string;
  readonly method: string;
  readonly headers?: Record<string, string>;
  readonly body?: string;
  readonly migrating?: boolean;
  readonly timeout_ms?: number;
  readonly max_bytes?: number;
  readonly any_id?: boolean;
}

let current: Envelope | undefined;
/** One client for each set of options. It is kept during rotations. */
const clients = new Map<string, typeof fetch>();

function clientFor(operation: Operation) {
  const {
    migrating = false,
    timeout_ms: timeout = 10_000,
    max_bytes: maxBytes = 65_536,
    any_id: anyId = false,
  } = operation;
  const name = JSON.stringify([migrating, timeout, maxBytes, anyId]);
  const envelope = (): Envelope => current ?? envelopeOf({ key: '', iv: '' });
  const client = clients.get(name) ?? envelopeFetch({ envelope, migrating, timeout, maxBytes, checkId: !anyId });
  clients.set(name, client);
  return client;
}

function envelopeOf({ key, iv, key_text: keyText, encoding }: Pick<Operation, 'key' | 'iv' | 'key_text' | 'encoding'>) {
  return new Envelope({
    key,
    iv,
    ...(keyText && { keyText }),
    ...(encoding && { encoding }),
  } satisfies EnvelopeOptions);
}

async function call(operation: Operation): Promise<object> {
  current = envelopeOf(operation);
  const { url, method, headers = {}, body } = operation;
  const response = await clientFor(operation)(url, { method, headers, ...(body !== undefined && { body }) });
  return { status: response.status, type: response.headers.get('Content-Type'), body: await response.text() };
}

async function run(operation: Operation): Promise<object> {
  switch (operation.op) {
    case 'clients':
      return { clients: ['fetch'] };
    case 'selftest':
      return { passed: selftest() };
    case 'call':
      return call(operation);
  }
  const envelope = envelopeOf(operation);
  switch (operation.op) {
    case 'seal':
      return { data: envelope.seal(operation.plaintext) };
    case 'open':
      return { plaintext: envelope.open(operation.data) };
    case 'fingerprint':
      return { fingerprint: envelope.fingerprint };
    case 'show':
      return {
        shown: [String(envelope), inspect(envelope, { depth: 9, showHidden: true }), JSON.stringify(envelope)],
      };
    case 'compat':
      return { plaintext: envelope.compat().open(operation.data), data: envelope.compat().seal('\ud800') };
    default:
      return { error: { type: 'driver', code: 'unknown_op' } };
  }
}

function errorIn(error: unknown): object {
  if (error instanceof EnvelopeError) return { type: 'envelope', code: error.code, message: error.message };
  if (error instanceof Refusal) {
    const { status, code, hint, requestId, retryAfter, forwarded, message } = error;
    const [request_id, retry_after] = [requestId, retryAfter];
    return { type: 'refusal', status, code, hint, request_id, retry_after, forwarded, message };
  }
  if (error instanceof OutcomeUnknown) {
    const { reason, status, requestId, message, cause } = error;
    const refusal = cause instanceof Refusal ? errorIn(cause) : undefined;
    return { type: 'outcome_unknown', code: reason, status, request_id: requestId, refusal, message };
  }
  return { type: 'other', message: String(error) };
}

for await (const line of createInterface({ input: process.stdin })) {
  const outcome = await run(JSON.parse(line) as Operation).catch((error: unknown) => ({ error: errorIn(error) }));
  process.stdout.write(`${JSON.stringify(outcome)}\n`);
}

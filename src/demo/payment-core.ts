import type { IncomingMessage, Server, ServerResponse } from 'node:http';
import { z } from 'zod';
import { http } from '../http.ts';
import { failure, Ledger, type Response } from './ledger.ts';

/** Maximum length of a body in bytes; a longer one gets a 413. */
const bodyLimit = 1_048_576;

const payment = z.object({
  amount: z.int().positive(),
  currency: z.string().regex(/^[A-Z]{3}$/, 'must be three capital letters'),
  reference: z.string().min(1).max(100).optional(),
});

/** The input of an operation: the account that the sidecar found, the last part of the path, and the body's JSON. */
interface Call {
  readonly account: string;
  readonly id: string;
  readonly body: unknown;
}

/**
 * A stand-in payment core, the upstream of the demo. It keeps everything in memory, trusts `X-Account-Id` and knows nothing about
 * envelopes.
 *
 * @param log receives one line for each request, with its JSON body, so that the demo shows what reached the core
 */
export function createPaymentCore(log: (line: string) => void): Server {
  const ledger = new Ledger();
  const initialize = '/api/v1/transactions/initialize';
  const operations = new Map<string, (call: Call) => Response>([
    [`POST ${initialize}`, (call) => withPayment(call, (body) => ledger.add(call.account, body, 'pending'))],
    ['GET /api/v1/transactions', ({ account }) => ledger.list(account)],
    ['GET /api/v1/transactions/:id', ({ account, id }) => ledger.show(account, id)],
    ['POST /api/s2s/charge', (call) => withPayment(call, (body) => ledger.add(call.account, body, 'succeeded'))],
    ['GET /api/s2s/transactions', ({ account }) => ledger.list(account)],
  ]);

  const responseTo = (request: IncomingMessage, path: string, text: string | undefined): Response => {
    const method = request.method === 'HEAD' ? 'GET' : (request.method ?? '');
    if (method === 'OPTIONS' && path === initialize) return { status: 204, body: undefined };

    const cut = path.lastIndexOf('/') + 1;
    const operation = operations.get(`${method} ${path}`) ?? operations.get(`${method} ${path.slice(0, cut)}:id`);
    if (operation === undefined) return failure(404, 'not_found', 'There is no endpoint with this path and method.');
    const account = readAccount(request);
    if (account === undefined) return failure(403, 'account_missing', 'The request names no account.');
    if (text === undefined) return failure(413, 'body_too_large', `A body may have at most ${bodyLimit} bytes.`);
    return operation({ account, id: path.slice(cut), body: parseJson(text) });
  };

  const handle = async (request: IncomingMessage, response: ServerResponse): Promise<void> => {
    const text = await readText(request);
    const [path = ''] = (request.url ?? '').split('?', 1);
    const reply = responseTo(request, path, text);
    if (path === initialize) allowBrowsers(response);
    send(response, reply);
    const account = readAccount(request) ?? '(no account)';
    log(printable(`${reply.status} ${request.method} ${request.url} ${account} ${text ?? '(too large)'}`));
  };

  return http.createServer((request, response) => {
    // Reading fails only if the client disconnects, so no response is needed.
    handle(request, response).catch(() => response.destroy());
  });
}

function withPayment({ body }: Call, operation: (body: z.output<typeof payment>) => Response): Response {
  if (body === undefined) return failure(400, 'invalid_json', 'The body must be a JSON document.');
  const parsed = payment.safeParse(body);
  if (parsed.success) return operation(parsed.data);
  const [issue] = parsed.error.issues;
  return failure(400, 'invalid_request', `${issue?.path.join('.') || 'body'}: ${issue?.message ?? 'is invalid'}`);
}

function readAccount(request: IncomingMessage): string | undefined {
  const account = request.headers['x-account-id'];
  return typeof account === 'string' && account !== '' ? account : undefined;
}

/**
 * Reads the whole body; undefined if it is too long. A body that is too long is still read to its end, so that the client reads the
 * response.
 */
async function readText(request: IncomingMessage): Promise<string | undefined> {
  const chunks: Buffer[] = [];
  let size = 0;
  for await (const chunk of request as AsyncIterable<Buffer>) {
    size += chunk.length;
    if (size <= bodyLimit) chunks.push(chunk);
  }
  return size <= bodyLimit ? Buffer.concat(chunks).toString() : undefined;
}

/** Parses JSON. Returns undefined if the text is not JSON, because no JSON document has that value. */
function parseJson(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    return undefined;
  }
}

function send(response: ServerResponse, { status, body }: Response): void {
  if (body === undefined) {
    response.writeHead(status).end();
    return;
  }
  const text = JSON.stringify(body);
  response
    .writeHead(status, { 'Content-Type': 'application/json', 'Content-Length': Buffer.byteLength(text) })
    .end(text);
}

/** Allows pages on any origin to start payments with a public key. */
function allowBrowsers(response: ServerResponse): void {
  response.setHeader('Access-Control-Allow-Origin', '*');
  response.setHeader('Access-Control-Allow-Methods', 'POST');
  response.setHeader('Access-Control-Allow-Headers', 'Authorization, Content-Type');
}

/** Makes text safe to print on a single line. Control characters from a client could break the line or control the terminal. */
function printable(text: string): string {
  return text
    .slice(0, 2_000)
    .replace(/\s+/g, ' ')
    .replace(/[\p{Cc}\p{Cf}]/gu, '?')
    .trimEnd();
}

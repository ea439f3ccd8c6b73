import { createCipheriv, createDecipheriv, createSecretKey, hash, randomUUID, type KeyObject } from 'node:crypto';
import { readFileSync } from 'node:fs';
import { Agent, createServer, type IncomingMessage, type ServerResponse } from 'node:http';
import { Readable } from 'node:stream';
import httpProxy from 'http-proxy';
import { pino } from 'pino';
import { Counter } from 'prom-client';
import type { PeerSettings } from '../settings.ts';

/** A reverse proxy based on http-proxy, with handlers that open and seal envelopes: `node server.ts SETTINGS`. */
interface Account {
  readonly id: string;
  /** Absent if the account does not encrypt. */
  readonly encryption?: { readonly key: KeyObject; readonly iv: Buffer };
}

const settings = JSON.parse(readFileSync(process.argv[2] ?? '', 'utf8')) as PeerSettings;
const accounts = new Map<string, Account>();
for (const [sha256, { account: id, key, iv }] of Object.entries(settings.accounts)) {
  const encrypts = key !== undefined && iv !== undefined;
  accounts.set(sha256, {
    id,
    ...(encrypts && { encryption: { key: createSecretKey(Buffer.from(key)), iv: Buffer.from(iv) } }),
  });
}

const log = pino(
  { base: null, timestamp: pino.stdTimeFunctions.isoTime },
  pino.destination({ dest: settings.accessLog, sync: false, minLength: 4096 }),
);
const requests = new Counter({ name: 'requests_total', help: 'Requests answered.', labelNames: ['method', 'status'] });

const target = `http://127.0.0.1:${settings.upstream}`;
const agent = new Agent({ keepAlive: true, maxFreeSockets: 2048 });
const passing = httpProxy.createProxyServer({ target, agent });
const sealing = httpProxy.createProxyServer({ target, agent, selfHandleResponse: true });
for (const proxy of [passing, sealing]) {
  proxy.on('error', (_error, _req, res) => {
    if ('writeHead' in res && !res.headersSent) res.writeHead(502);
    res.end();
  });
}

function collect(stream: IncomingMessage): Promise<Buffer> {
  return new Promise((resolve, reject) => {
    const chunks: Buffer[] = [];
    stream.on('data', (chunk: Buffer) => chunks.push(chunk));
    stream.on('end', () => resolve(chunks.length === 1 ? (chunks[0] as Buffer) : Buffer.concat(chunks)));
    stream.on('error', reject);
  });
}

/** The account for which the response to a request is sealed. */
const sealedFor = new WeakMap<IncomingMessage, NonNullable<Account['encryption']>>();

sealing.on('proxyRes', (upstreamResponse, req, res) => {
  const encryption = sealedFor.get(req);
  if (encryption === undefined) return;
  collect(upstreamResponse).then(
    (plaintext) => respondSealed(res, upstreamResponse, plaintext, encryption),
    () => res.destroy(),
  );
});

function respondSealed(
  res: ServerResponse,
  { statusCode = 502, headers: upstreamHeaders }: IncomingMessage,
  plaintext: Buffer,
  { key, iv }: NonNullable<Account['encryption']>,
): void {
  const cipher = createCipheriv('aes-256-cbc', key, iv);
  const body = `{"data":"${cipher.update(plaintext, undefined, 'hex')}${cipher.final('hex')}"}`;
  const headers = { ...upstreamHeaders };
  delete headers.connection;
  delete headers['keep-alive'];
  delete headers['transfer-encoding'];
  headers['content-type'] = 'application/json';
  headers['content-length'] = String(body.length);
  headers['envelope'] = 'sealed';
  res.writeHead(statusCode, headers);
  res.end(body);
}

const hexDigits = /^[0-9a-f]+$/i;

/** The plaintext of an envelope, or the reason why there is none. */
function openEnvelope(
  body: Buffer,
  { key, iv }: NonNullable<Account['encryption']>,
): Buffer | keyof PeerSettings['refusals'] {
  let data: unknown;
  try {
    const envelope = JSON.parse(body.toString()) as { data?: unknown };
    if (Object.keys(envelope).length === 1) data = envelope.data;
  } catch {
    return 'envelope_malformed';
  }
  if (typeof data !== 'string') return 'envelope_malformed';
  if (data.length % 2 !== 0 || !hexDigits.test(data)) return 'decryption_failed';
  try {
    const decipher = createDecipheriv('aes-256-cbc', key, iv);
    const plaintext = Buffer.concat([decipher.update(data, 'hex'), decipher.final()]);
    JSON.parse(plaintext.toString());
    return plaintext;
  } catch {
    return 'decryption_failed';
  }
}

function refuse(res: ServerResponse, code: keyof PeerSettings['refusals'], requestId: string): void {
  const { status, body } = settings.refusals[code];
  const text = body.join(requestId);
  res.writeHead(status, {
    'Content-Type': 'application/problem+json',
    'Content-Length': Buffer.byteLength(text),
    'Cache-Control': 'no-store',
    ...(status === 401 && { 'WWW-Authenticate': 'Bearer' }),
  });
  res.end(text);
}

async function handle(
  req: IncomingMessage,
  res: ServerResponse,
  requestId: string,
  account: Account | undefined,
): Promise<void> {
  if (account === undefined) {
    req.resume();
    refuse(res, 'invalid_api_key', requestId);
    return;
  }
  req.headers['x-account-id'] = account.id;
  const { encryption } = account;
  if (encryption === undefined || req.url?.startsWith('/api/s2s/') !== true) {
    passing.web(req, res);
    return;
  }
  sealedFor.set(req, encryption);
  req.headers['accept-encoding'] = 'identity';
  const body = await collect(req);
  if (body.length === 0) {
    sealing.web(req, res);
    return;
  }
  const plaintext = openEnvelope(body, encryption);
  if (typeof plaintext === 'string') {
    refuse(res, plaintext, requestId);
    return;
  }
  req.headers['content-length'] = String(plaintext.length);
  sealing.web(req, res, { buffer: Readable.from([plaintext]) });
}

const server = createServer((req, res) => {
  const startedAt = performance.now();
  const given = req.headers['x-request-id'];
  const requestId = typeof given === 'string' ? given : randomUUID();
  req.headers['x-request-id'] = requestId;
  res.setHeader('X-Request-Id', requestId);
  const key = req.headers.authorization?.replace(/^Bearer +/i, '') ?? '';
  const account = accounts.get(hash('sha256', key));
  res.once('finish', () => {
    const { method, headers } = req;
    const { statusCode: status } = res;
    requests.inc({ method: method ?? '', status });
    log.info({
      request_id: requestId,
      account: account?.id,
      method,
      status,
      bytes_in: Number(headers['content-length'] ?? 0),
      bytes_out: Number(res.getHeader('content-length') ?? 0),
      duration_ms: performance.now() - startedAt,
    });
  });
  handle(req, res, requestId, account).catch(() => res.destroy());
});
server.keepAliveTimeout = 75_000;
server.listen(settings.port, '127.0.0.1', 4096);

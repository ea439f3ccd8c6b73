import { createCipheriv, createDecipheriv, createSecretKey, hash, type KeyObject } from 'node:crypto';
import { readFileSync } from 'node:fs';
import { createServer, type IncomingMessage, type ServerResponse } from 'node:http';
import { connect, type Socket } from 'node:net';
import type { PeerSettings } from '../settings.ts';

/**
 * Shows the lowest cost of the same bytes on Node: `node server.ts SETTINGS`. It uses node:http towards the client and
 * sockets towards the upstream, looks up the key, decrypts, runs JSON.parse, and encrypts. It has no routes, limits,
 * timeouts, log or metrics, and it relies on the upstream to state every length. Any further cost is the sidecar's own.
 */
interface Account {
  readonly id: string;
  /** Absent if the account does not encrypt. */
  readonly encryption: { readonly key: KeyObject; readonly iv: Buffer } | undefined;
}

const settings = JSON.parse(readFileSync(process.argv[2] ?? '', 'utf8')) as PeerSettings;
const accounts = new Map<string, Account>();
for (const [sha256, { account: id, key, iv }] of Object.entries(settings.accounts)) {
  const encryption =
    key === undefined || iv === undefined ? undefined : { key: createSecretKey(Buffer.from(key)), iv: Buffer.from(iv) };
  accounts.set(sha256, { id, encryption });
}

type OnResponse = (head: string, body: Buffer) => void;

/** A keep-alive connection to the upstream, which carries one request at a time. */
class Connection {
  readonly #socket: Socket;
  #received: Buffer | undefined;
  #onResponse: OnResponse | undefined;

  constructor() {
    this.#socket = connect(settings.upstream, '127.0.0.1').setNoDelay(true);
    this.#socket.on('data', (chunk: Buffer) => this.#receive(chunk));
  }

  send(head: string, body: Buffer, onResponse: OnResponse): void {
    this.#onResponse = onResponse;
    this.#socket.write(head + body.toString('latin1'), 'latin1');
  }

  #receive(chunk: Buffer): void {
    const all = this.#received === undefined ? chunk : Buffer.concat([this.#received, chunk]);
    this.#received = all;
    const end = all.indexOf('\r\n\r\n');
    if (end === -1) return;
    const head = all.toString('latin1', 0, end);
    const length = Number(/\r\ncontent-length: *(\d+)/i.exec(head)?.[1] ?? 0);
    if (all.length < end + 4 + length) return;
    this.#received = undefined;
    idle.push(this);
    this.#onResponse?.(head, all.subarray(end + 4));
  }
}

const idle: Connection[] = [];

const notForwarded = /^(?:connection|keep-alive|content-length|content-type|envelope)$/i;

/** The upstream's headers as a flat list, except those that describe its body. */
function headersOf(head: string): string[] {
  const headers: string[] = [];
  for (const line of head.split('\r\n').slice(1)) {
    const colon = line.indexOf(': ');
    const name = line.slice(0, colon);
    if (!notForwarded.test(name)) headers.push(name, line.slice(colon + 2));
  }
  return headers;
}

function refuse(res: ServerResponse, code: keyof PeerSettings['refusals'], requestId: string): void {
  const { status, body } = settings.refusals[code];
  const text = body.join(requestId);
  const headers = ['X-Request-Id', requestId, 'Content-Type', 'application/problem+json'];
  res.writeHead(status, [...headers, 'Content-Length', String(text.length)]);
  res.end(text);
}

/** The plaintext of an envelope, or the reason why there is none. */
function open(
  body: Buffer,
  { key, iv }: NonNullable<Account['encryption']>,
): Buffer | 'envelope_malformed' | 'decryption_failed' {
  const data = /^\{"data":"([^"\\]*)"\}$/.exec(body.toString('latin1'))?.[1];
  if (data === undefined) return 'envelope_malformed';
  if (data.length % 32 !== 0 || !/^[0-9a-f]+$/i.test(data)) return 'decryption_failed';
  try {
    const decipher = createDecipheriv('aes-256-cbc', key, iv);
    const plaintext = Buffer.concat([decipher.update(Buffer.from(data, 'hex')), decipher.final()]);
    JSON.parse(plaintext.toString('latin1'));
    return plaintext;
  } catch {
    return 'decryption_failed';
  }
}

function exchange(req: IncomingMessage, res: ServerResponse, sent: Buffer): void {
  const { method = '', url = '', headers } = req;
  const given = headers['x-request-id'];
  const requestId = typeof given === 'string' ? given : 'floor';
  const account = accounts.get(hash('sha256', headers.authorization?.slice('Bearer '.length) ?? ''));
  if (account === undefined) {
    refuse(res, 'invalid_api_key', requestId);
    return;
  }
  const encryption = url.startsWith('/api/s2s/') ? account.encryption : undefined;
  const body = encryption === undefined || sent.length === 0 ? sent : open(sent, encryption);
  if (typeof body === 'string') {
    refuse(res, body, requestId);
    return;
  }
  const length = body.length === 0 ? '' : `Content-Type: application/json\r\nContent-Length: ${body.length}\r\n`;
  const head = `${method} ${url} HTTP/1.1\r\nHost: ${headers.host}\r\nX-Account-Id: ${account.id}\r\n${length}\r\n`;
  (idle.pop() ?? new Connection()).send(head, body, (responseHead, plaintext) => {
    const response = headersOf(responseHead);
    let sealed = plaintext.toString('latin1');
    if (encryption !== undefined) {
      const cipher = createCipheriv('aes-256-cbc', encryption.key, encryption.iv);
      sealed = `{"data":"${cipher.update(plaintext).toString('hex')}${cipher.final().toString('hex')}"}`;
      response.push('Envelope', 'sealed');
    }
    response.push('Content-Type', 'application/json', 'Content-Length', String(sealed.length));
    res.writeHead(Number(responseHead.slice(9, 12)), response);
    res.end(sealed, 'latin1');
  });
}

const server = createServer((req, res) => {
  let body: Buffer = Buffer.alloc(0);
  req.on('data', (chunk: Buffer) => (body = body.length === 0 ? chunk : Buffer.concat([body, chunk])));
  req.on('end', () => exchange(req, res, body));
});
server.keepAliveTimeout = 75_000;
server.listen(settings.port, '127.0.0.1', 4096);

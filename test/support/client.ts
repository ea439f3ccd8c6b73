import { spawnSync } from 'node:child_process';
import { request, type IncomingHttpHeaders } from 'node:http';
import { expect } from 'vitest';
import { findRefusal, type RefusalCode } from '../../src/errors.ts';

/** The address to which a request is sent. The default host is 127.0.0.1. */
interface Listener {
  readonly host?: string;
  readonly port: number;
}

/** The parts of a request after its request line. */
export interface Sent {
  /** Sent as `Authorization: Bearer …`. */
  readonly key?: string;
  readonly headers?: Readonly<Record<string, string | readonly string[]>>;
  readonly body?: string | Buffer;
  /** Whether the body, even an empty one, is sent in chunks without a stated length. */
  readonly chunked?: boolean;
}

/** A complete response. */
export interface Response {
  readonly status: number;
  readonly headers: IncomingHttpHeaders;
  readonly bytes: Buffer;
  readonly body: string;
}

/** Sends a request on a new connection; `line` is `'METHOD /path'`. Rejects if the connection ends before the response is complete. */
export function send(to: Listener, line: string, sent: Sent = {}): Promise<Response> {
  const [method = '', path = ''] = line.split(' ');
  const headers: Record<string, string | string[]> = {};
  if (sent.key !== undefined) headers['Authorization'] = `Bearer ${sent.key}`;
  if (sent.chunked === true) headers['Transfer-Encoding'] = 'chunked';
  else if (sent.body !== undefined) headers['Content-Length'] = String(Buffer.byteLength(sent.body));
  for (const [name, value] of Object.entries(sent.headers ?? {})) {
    headers[name] = typeof value === 'string' ? value : [...value];
  }
  return new Promise((resolve, reject) => {
    const req = request({ host: to.host ?? '127.0.0.1', port: to.port, method, path, headers, agent: false }, (res) => {
      const chunks: Buffer[] = [];
      res.on('data', (chunk: Buffer) => chunks.push(chunk));
      res.on('error', reject);
      res.on('end', () => {
        const bytes = Buffer.concat(chunks);
        resolve({ status: res.statusCode ?? 0, headers: res.headers, bytes, body: bytes.toString() });
      });
    });
    req.on('error', reject);
    // The body is a Buffer, because Node would write a string body together with the head, in the body's encoding, which is the wrong one
    // for headers.
    req.end(Buffer.from(sent.body ?? ''));
  });
}

/** A key and an IV, as merchants receive them. */
interface Credentials {
  readonly key: string;
  readonly iv: string;
}

function openssl({ key, iv }: Credentials, input: Buffer, ...args: readonly string[]): Buffer {
  const hex = (text: string): string => Buffer.from(text).toString('hex');
  const options = ['enc', '-aes-256-cbc', '-K', hex(key), '-iv', hex(iv), ...args];
  const { status, stdout, stderr } = spawnSync('openssl', options, { input, maxBuffer: 1 << 26 });
  if (status !== 0) throw new Error(stderr.toString());
  return stdout;
}

/** Encrypts `plaintext` with the openssl command line. With `-nopad`, its length must be a multiple of the block size. */
export function encrypted(credentials: Credentials, plaintext: string | Buffer, ...args: '-nopad'[]): Buffer {
  return openssl(credentials, Buffer.from(plaintext), ...args);
}

/** Decrypts `ciphertext` with the openssl command line. Throws if the key or the padding is wrong. */
export function decrypted(credentials: Credentials, ciphertext: Buffer): Buffer {
  return openssl(credentials, ciphertext, '-d');
}

/** Makes the envelope of `plaintext`, with the ciphertext in hex, without the sidecar's code. */
export function envelopeOf(credentials: Credentials, plaintext: string | Buffer): string {
  return JSON.stringify({ data: encrypted(credentials, plaintext).toString('hex') });
}

/** Opens a sealed response without the sidecar's code, and checks every property of a sealed response. */
export function opened(credentials: Credentials, response: Response, encoding: 'hex' | 'base64' = 'hex'): string {
  expect(response.headers).toMatchObject({ envelope: 'sealed', 'content-type': 'application/json' });
  const data = /^\{"data":"([^"]*)"\}$/.exec(response.body)?.[1] ?? '';
  const ciphertext = Buffer.from(data, encoding);
  expect(ciphertext.toString(encoding)).toBe(data);
  return decrypted(credentials, ciphertext).toString();
}

/** Expects a refusal that is not sealed, exactly as the table of refusals describes it. */
export function expectPlainRefusal(response: Response, code: RefusalCode, hint?: string): void {
  expect(response.headers).not.toHaveProperty('envelope');
  expect(response.headers).not.toHaveProperty('envelope-content-type');
  expect(response.headers['content-type']).toBe('application/problem+json');
  expectProblem(response, response.body, code, hint);
}

/** Expects a refusal that is sealed with these credentials. */
export function expectSealedRefusal(credentials: Credentials, response: Response, code: RefusalCode): void {
  expect(response.headers['envelope-content-type']).toBe('application/problem+json');
  expectProblem(response, opened(credentials, response), code);
}

/** Parses a problem document. The hint of an ambiguous request is left out, because it depends on the request and has tests of its own. */
export function explained(body: string, code: RefusalCode): object {
  const { hint, ...others } = JSON.parse(body) as { hint?: string };
  return hint === undefined || code === 'ambiguous_request' ? others : { ...others, hint };
}

function expectProblem(response: Response, body: string, code: RefusalCode, hint?: string): void {
  const { status, title, detail, retryAfter, forwarded } = findRefusal(code);
  expect(explained(body, code)).toEqual({
    type: 'about:blank',
    title,
    status,
    detail,
    code,
    request_id: response.headers['x-request-id'],
    forwarded: forwarded ?? expect.stringMatching(/^(?:no|maybe)$/),
    ...(hint === undefined || code === 'ambiguous_request' ? {} : { hint }),
  });
  expect(response.status).toBe(status);
  expect(response.headers['x-request-id']).toMatch(/^[A-Za-z0-9._-]{1,128}$/);
  expect(response.headers['content-length']).toBe(String(response.bytes.length));
  expect(response.headers['cache-control']).toBe('no-store');
  expect(response.headers['www-authenticate']).toBe(status === 401 ? 'Bearer' : undefined);
  expect('retry-after' in response.headers).toBe(retryAfter !== undefined);
}

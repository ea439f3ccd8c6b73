/**
 * `fetch` for merchants of envelope-sidecar: seals requests, opens responses, and throws typed errors. See README.md.
 */
import { randomUUID } from 'node:crypto';
import { setTimeout as sleep } from 'node:timers/promises';
import { EnvelopeError, type Envelope } from './envelope.ts';

export interface Options {
  /** Returns the credentials. It is called for each request, so that a rotation needs no restart. */
  readonly envelope: () => Envelope | Promise<Envelope>;
  /** Paths whose bodies are sealed. Default: `/api/s2s/`. The two test endpoints are never among them. */
  readonly prefixes?: readonly string[];
  /** Whether a 2xx may be unsealed; use this only while an account starts or stops encrypting. */
  readonly migrating?: boolean;
  /** The longest wait for a whole response, in milliseconds. Default: 60 s. */
  readonly timeout?: number;
  /** The maximum size of a response's body, in bytes as sent. Default: 16 MiB. */
  readonly maxBytes?: number;
  /** The maximum number of times that a request is sent again if the core has not seen it. Default: 2. */
  readonly retries?: number;
  /** Whether a response must have its request's `X-Request-Id`. Default: true; false behind a gateway that replaces it. */
  readonly checkId?: boolean;
  /** The `fetch` to wrap. */
  readonly fetch?: typeof fetch;
}

/** Whether the core can have seen a request. */
export type Forwarded = 'no' | 'maybe';

/** The sidecar refused the request. Decide by `code`, never by the status. */
export class Refusal extends Error {
  override readonly name = 'Refusal';
  readonly status: number;
  readonly code: string;
  readonly hint: string | undefined;
  readonly requestId: string | undefined;
  /** The value of `Retry-After`, in seconds. */
  readonly retryAfter: number | undefined;
  readonly forwarded: Forwarded;

  constructor(status: number, problem: Readonly<Record<string, unknown>>, retryAfter: number | undefined) {
    const text = (name: string): string | undefined => (typeof problem[name] === 'string' ? problem[name] : undefined);
    const hint = text('hint');
    super(`${status} ${text('code')}: ${hint ?? text('detail') ?? ''}`);
    this.status = status;
    this.code = text('code') ?? '';
    this.hint = hint;
    this.requestId = text('request_id');
    this.retryAfter = retryAfter;
    this.forwarded = problem['forwarded'] === 'no' ? 'no' : 'maybe';
  }
}

/** Why the outcome is unknown. */
export type Unknown = 'lost' | 'swapped' | 'status' | 'refused' | 'unsealed' | 'not_opened' | 'too_large';

/** The payment may have been made: look it up by your reference before you send it again. */
export class OutcomeUnknown extends Error {
  override readonly name = 'OutcomeUnknown';
  readonly reason: Unknown;
  readonly status: number | undefined;
  readonly requestId: string | undefined;

  /** @param cause a Refusal for `refused` */
  constructor(reason: Unknown, response: Response | undefined, cause?: unknown) {
    super(`the outcome is unknown: ${reason}${response === undefined ? '' : `, ${response.status}`}`, { cause });
    this.reason = reason;
    this.status = response?.status;
    this.requestId = response?.headers.get('X-Request-Id') ?? undefined;
  }
}

/** If `Retry-After` exceeds this many seconds, waiting is left to the caller. */
const longestWait = 60;

/** A `fetch` that throws EnvelopeError (nothing was sent), Refusal or OutcomeUnknown. */
export function envelopeFetch(options: Options): typeof fetch {
  const { prefixes = ['/api/s2s/'], retries = 2, timeout = 60_000 } = options;
  return async (input, init) => {
    const original = new Request(input, init);
    const { pathname } = new URL(original.url);
    const enveloped = isEnveloped(pathname, prefixes);
    const envelope = await options.envelope();
    const headers = new Headers(original.headers);
    const body = original.body === null ? undefined : new Uint8Array(await original.arrayBuffer());
    if (!headers.has('X-Request-Id')) headers.set('X-Request-Id', randomUUID());
    if (enveloped) headers.set('Envelope-Credentials', envelope.fingerprint);
    const sealed = enveloped && body !== undefined && body.length > 0;
    if (sealed) headers.set('Content-Type', 'application/json');
    const sent = sealed ? envelope.sealBody(strictText(body)) : body;

    for (let attempt = 0; ; attempt += 1) {
      const signal = AbortSignal.any([original.signal, AbortSignal.timeout(timeout)]);
      const { method, url } = original;
      const request = { method, headers, body: sent ?? null, redirect: 'manual', signal } as const;
      try {
        const response = await lost((options.fetch ?? fetch)(url, request));
        if (options.checkId !== false && isOurs(response)) pair(headers, response);
        return await read(response, enveloped && method !== 'HEAD' ? envelope : undefined, options);
      } catch (error) {
        if (!(error instanceof Refusal) || error.forwarded !== 'no' || attempt === retries) throw error;
        if (error.retryAfter === undefined || error.retryAfter > longestWait) throw error;
        await sleep(error.retryAfter * 1_000, undefined, { signal: original.signal });
      }
    }
  };
}

/** Matches paths as the sidecar does, ignoring case and a slash at the end. */
function isEnveloped(pathname: string, prefixes: readonly string[]): boolean {
  const path = pathname.toLowerCase().replace(/\/$/, '');
  return !/^\/api\/s2s\/aes-(?:en|de)crypt$/.test(path) && prefixes.some((prefix) => `${path}/`.startsWith(prefix));
}

const isProblem = (type: string | null): boolean => /^application\/problem\+json\b/i.test(type ?? '');

/** Whether a response claims to come from the sidecar, or to be a success. */
function isOurs({ headers, ok }: Response): boolean {
  return ok || headers.has('Envelope') || isProblem(headers.get('Content-Type'));
}

/** After one response too many on a connection, each request gets the response to the previous one. */
function pair(sent: Headers, response: Response): void {
  const received = response.headers.get('X-Request-Id');
  if (received !== null && received !== sent.get('X-Request-Id')) throw new OutcomeUnknown('swapped', response);
}

/** @param envelope undefined if nothing is sealed */
async function read(response: Response, envelope: Envelope | undefined, options: Options): Promise<Response> {
  const { status, headers } = response;
  const readsBody =
    response.body !== null && (envelope !== undefined || (status >= 400 && isProblem(headers.get('Content-Type'))));
  let bytes = readsBody ? await readBytes(response, options.maxBytes ?? 16_777_216) : undefined;
  let type = headers.get('Content-Type');
  const sealed = envelope !== undefined && headers.get('Envelope')?.toLowerCase() === 'sealed';
  if (bytes !== undefined && sealed) {
    bytes = openBytes(bytes, envelope, response);
    type = headers.get('Envelope-Content-Type') ?? 'application/json';
  }
  const problem = bytes !== undefined && status >= 400 && isProblem(type) ? problemIn(bytes) : undefined;
  if (problem !== undefined) {
    const refusal = new Refusal(status, problem, retryAfterOf(headers));
    throw status >= 500 && refusal.forwarded !== 'no' ? new OutcomeUnknown('refused', response, refusal) : refusal;
  }
  if (status === 502 || status === 503 || status === 504) throw new OutcomeUnknown('status', response);
  if (envelope !== undefined && response.ok && !sealed && bytes !== undefined && bytes.length > 0) {
    if (options.migrating !== true) throw new OutcomeUnknown('unsealed', response);
  }
  if (bytes === undefined) return response;
  const restored = new Headers(headers);
  for (const name of ['Content-Length', 'Envelope-Content-Type']) restored.delete(name);
  if (type !== null) restored.set('Content-Type', type);
  return new Response(bytes, { status, statusText: response.statusText, headers: restored });
}

async function lost<T>(promise: Promise<T>, response?: Response): Promise<T> {
  try {
    return await promise;
  } catch (error) {
    throw new OutcomeUnknown('lost', response, error);
  }
}

async function readBytes(response: Response, maxBytes: number): Promise<Uint8Array<ArrayBuffer>> {
  const chunks: Uint8Array[] = [];
  let size = 0;
  const reader = response.body?.getReader();
  for (;;) {
    const { done = true, value } = (await lost(Promise.resolve(reader?.read()), response)) ?? {};
    if (value !== undefined) chunks.push(value);
    size += value?.length ?? 0;
    if (size > maxBytes) {
      await reader?.cancel();
      throw new OutcomeUnknown('too_large', response);
    }
    if (done) return new Uint8Array(Buffer.concat(chunks));
  }
}

function openBytes(bytes: Uint8Array, envelope: Envelope, response: Response): Uint8Array<ArrayBuffer> {
  try {
    return new TextEncoder().encode(envelope.openBody(strictText(bytes)));
  } catch (error) {
    throw new OutcomeUnknown('not_opened', response, error);
  }
}

function strictText(bytes: Uint8Array): string {
  try {
    return new TextDecoder('utf-8', { fatal: true, ignoreBOM: true }).decode(bytes);
  } catch {
    throw new EnvelopeError('not_utf8', 'the body is not UTF-8');
  }
}

/** Undefined if this is not a problem document from the sidecar. */
function problemIn(bytes: Uint8Array): Record<string, unknown> | undefined {
  try {
    const problem = JSON.parse(strictText(bytes)) as Record<string, unknown> | null;
    return typeof problem?.['code'] === 'string' && typeof problem['request_id'] === 'string' ? problem : undefined;
  } catch {
    return undefined;
  }
}

function retryAfterOf(headers: Headers): number | undefined {
  const value = headers.get('Retry-After') ?? '';
  return /^\d{1,6}$/.test(value) ? Number(value) : undefined;
}

import { createCipheriv, hash } from 'node:crypto';
import { Refusal } from '../src/errors.ts';
import { problemDocument } from '../src/proxy/respond/problem.ts';
import { documentOf } from './documents.ts';
import { merchantsOf, type Merchant } from './merchants.ts';
import type { Workload } from './workloads.ts';

/** A request in bytes, and its expected result, which is created on demand because it may be large. */
export interface Exchange {
  readonly request: Buffer;
  readonly expected: () => Expected;
}

export interface Expected {
  readonly status: number;
  readonly contentType: string;
  readonly sealed: boolean;
  readonly body: Buffer;
  /** The account that the upstream must see, and the SHA-256 of the body that it must receive; undefined if it must receive nothing. */
  readonly forwarded: { readonly account: string; readonly sha256: string } | undefined;
}

/** The merchants whose keys every peer knows. Half of them encrypt. */
const known = { encrypting: merchantsOf(100, 'encrypting'), plain: merchantsOf(100, 'plain') } as const;
export const knownMerchants: readonly Merchant[] = [...known.encrypting, ...known.plain];

/** Only one merchant sends bodies of this size, because those of a hundred would fill the memory. */
const large = 1_024 ** 2;

/**
 * The exchanges of a workload, which are the same for each of a hundred merchants. They are computed without the sidecar's code for
 * envelopes.
 *
 * @param checked whether the upstream reports the request that it received
 */
export function exchangesOf(workload: Workload, checked = false): Exchange[] {
  const { kind, sent = 0, answered } = workload;
  const merchants = kind === 'plain' ? known.plain : known.encrypting;
  const path = `${kind === 'plain' ? '/api/v1' : '/api/s2s'}/responses/${answered}${checked ? '?check' : ''}`;
  const plaintext = sent === 0 ? undefined : documentOf(sent);
  const response = kind === 'refused' ? undefined : documentOf(answered);
  return merchants.slice(0, sent > large ? 1 : undefined).map((merchant, i) => {
    const requestId = requestIdOf(i);
    const apiKey = response === undefined ? `${merchant.apiKey}-nobody` : merchant.apiKey;
    const body = plaintext && sealed(plaintext, merchant);
    return {
      request: requestOf(path, apiKey, requestId, body),
      expected: () => (response === undefined ? refusal(requestId) : forwarded(merchant, plaintext, response)),
    };
  });
}

function refusal(requestId: string): Expected {
  return {
    status: 401,
    contentType: 'application/problem+json',
    sealed: false,
    body: problemDocument(new Refusal('invalid_api_key'), { requestId, errorsPage: undefined }),
    forwarded: undefined,
  };
}

function forwarded(merchant: Merchant, plaintext: Buffer | undefined, response: Buffer): Expected {
  return {
    status: 200,
    contentType: 'application/json',
    sealed: merchant.encryption !== undefined,
    body: sealed(response, merchant),
    forwarded: { account: merchant.id, sha256: hash('sha256', plaintext ?? '') },
  };
}

/** Requests with envelopes that must not open, each because of a different fault. A proxy that accepted one would save work. */
export function brokenRequests(): { readonly fault: string; readonly request: Buffer }[] {
  const [merchant] = known.encrypting;
  if (merchant === undefined) return [];
  const good = sealed(documentOf(350), merchant).toString();
  const envelopes = {
    'is not JSON': good.slice(0, -1),
    'has two members': good.replace('{', '{"more":1,'),
    'is not hex': good.replace(/.."}$/, 'zz"}'),
    'has half a block': good.replace(/.{16}"}$/, '"}'),
    'lacks its padding': good.replace(/.{32}"}$/, '"}'),
    'has no JSON in it': sealed(Buffer.from('{"amount":'), merchant).toString(),
  };
  return Object.entries(envelopes).map(([fault, envelope]) => ({
    fault,
    request: requestOf('/api/s2s/responses/156', merchant.apiKey, 'bench-broken', Buffer.from(envelope)),
  }));
}

/** The same request from each merchant: with a document of this size, which is sealed if the merchant encrypts, or without a body. */
export function requestsOf(merchants: readonly Merchant[], path: string, sent?: number): Buffer[] {
  const plaintext = sent === undefined ? undefined : documentOf(sent);
  return merchants.map((merchant, i) =>
    requestOf(path, merchant.apiKey, requestIdOf(i), plaintext && sealed(plaintext, merchant)),
  );
}

function requestIdOf(i: number): string {
  return `bench-${String(i).padStart(6, '0')}`;
}

function requestOf(path: string, apiKey: string, requestId: string, body: Buffer | undefined): Buffer {
  const head = [
    `${body === undefined ? 'GET' : 'POST'} ${path} HTTP/1.1`,
    'Host: api.pay.example',
    'User-Agent: merchant/1.0',
    'Accept: application/json',
    `Authorization: Bearer ${apiKey}`,
    `X-Request-Id: ${requestId}`,
    ...(body === undefined ? [] : ['Content-Type: application/json', `Content-Length: ${body.length}`]),
    '',
    '',
  ].join('\r\n');
  return Buffer.concat([Buffer.from(head), body ?? Buffer.alloc(0)]);
}

/** The plaintext in an envelope of the merchant, or as it is if the merchant does not encrypt. */
function sealed(plaintext: Buffer, { encryption }: Merchant): Buffer {
  if (encryption === undefined) return plaintext;
  const cipher = createCipheriv('aes-256-cbc', encryption.key, encryption.iv);
  return Buffer.from(`{"data":"${cipher.update(plaintext, undefined, 'hex')}${cipher.final('hex')}"}`);
}

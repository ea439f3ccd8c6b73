import { accountsFile, globexEntry, sidecarFile, type Contents } from '../../test/support/folder.ts';
import { acmeLive, acmeTest, keys } from '../../test/support/sidecar.ts';
import { openedBy, sealedBy, type MerchantCredentials } from './cipher.ts';
import type { Asked, Outcome } from './client.ts';
import type { CoreResponse, CountingCore } from './core.ts';

/**
 * Two configurations. The core, key ids and credentials of each carry its name, so that a response with parts of both
 * can be detected.
 */
export type Pair = readonly [Version, Version];

/** One of the two configurations. */
export interface Version {
  readonly name: string;
  readonly core: CountingCore;
  readonly credentials: MerchantCredentials;
}

/** A request, and a function that returns the problem with its response, or undefined. */
export interface Exchange {
  readonly id: string;
  readonly asked: Asked;
  complaint(outcome: Outcome & { readonly kind: 'answered' }): string | undefined;
}

export function pairOf(one: CountingCore, two: CountingCore): Pair {
  return [
    { name: 'one', core: one, credentials: acmeTest },
    { name: 'two', core: two, credentials: acmeLive },
  ];
}

/**
 * The files of one version. Its previous credentials are the other version's current ones. Therefore, both versions serve a merchant with
 * either credentials, and `Envelope-Credentials` says whether the version takes them for its current or its previous ones.
 */
export function contentsOf(version: Version, other: Version, more: Contents = {}): Contents {
  return { 'sidecar.yaml': sidecarFile(version.core.origin, more), 'accounts.yaml': accountsOf(version, other) };
}

/** The accounts file of one version. */
export function accountsOf(version: Version, other: Version): Contents {
  const until = new Date(Date.now() + 86_400_000).toISOString();
  const acme = {
    id: 'acme',
    name: 'Acme Stores',
    keys: [{ id: `acme-${version.name}`, key: keys.acme, createdAt: '2026-11-01' }],
    encryption: { test: { enabled: true, ...version.credentials, previous: { ...other.credentials, until } } },
  };
  const globex = {
    ...globexEntry(),
    keys: [{ id: `globex-${version.name}`, key: keys.globex, createdAt: '2026-11-01' }],
  };
  return accountsFile(acme, globex);
}

/** A charge for the account that does not encrypt. */
export function plainCharge(pair: Pair, id: string, path: string, size = 0): Exchange {
  const body = JSON.stringify({ id, padding: 'y'.repeat(size) });
  return {
    id,
    asked: { method: 'POST', path, headers: headersOf(keys.globex, id), body },
    complaint: (outcome) => {
      if (outcome.status !== 200) return `status ${outcome.status}`;
      const response = parsed(outcome.body);
      const version = pair.find(({ name }) => name === response?.core);
      return mixture(version, response, 'globex', id, body.length);
    },
  };
}

/** A charge for the account that encrypts, sealed with the credentials of `sealing`. */
export function sealedCharge(pair: Pair, sealing: Version, id: string, path: string, size = 0): Exchange {
  const plaintext = JSON.stringify({ id, padding: 'y'.repeat(size) });
  const body = sealedBy(sealing.credentials, plaintext);
  return {
    id,
    asked: { method: 'POST', path, headers: headersOf(keys.acme, id), body },
    complaint: ({ status, headers, body: sealed }) => {
      if (status !== 200) return `status ${status}`;
      const taken = headers['envelope-credentials'];
      const version = pair.find((each) => (each === sealing) === (taken === 'current'));
      const opened = openedBy(sealing.credentials, sealed);
      if (opened === undefined || headers['envelope'] !== 'sealed')
        return 'not sealed with the credentials it came with';
      return mixture(version, parsed(opened), 'acme', id, plaintext.length);
    },
  };
}

/** A GET for the account that encrypts. It has no body, so the version alone decides which credentials seal the response. */
export function sealedLook(pair: Pair, id: string, path: string): Exchange {
  const headers = { ...headersOf(keys.acme, id), 'Envelope-Credentials': 'current' };
  return {
    id,
    asked: { method: 'GET', path, headers },
    complaint: ({ status, body }) => {
      if (status !== 200) return `status ${status}`;
      // With the wrong key, one body in 256 decrypts to what looks like valid padding, so only readable text counts as
      // opened.
      const responses = pair.map(({ credentials }) => parsed(openedBy(credentials, body) ?? ''));
      const version = pair.find((_, i) => responses[i] !== undefined);
      return mixture(version, responses[0] ?? responses[1], 'acme', id, 0);
    },
  };
}

export function headersOf(key: string, id: string): Readonly<Record<string, string>> {
  return { Authorization: `Bearer ${key}`, 'Idempotency-Key': id };
}

/** The part of a response that does not match its version or its request; undefined if everything matches. */
function mixture(
  version: Version | undefined,
  response: CoreResponse | undefined,
  account: string,
  id: string,
  length: number,
): string | undefined {
  if (version === undefined || response === undefined) return 'a response of no version';
  const expected = { core: version.name, apiKey: `${account}-${version.name}`, id, length };
  const got = { core: response.core, apiKey: response.apiKey, id: response.id, length: response.length };
  const [wanted, found] = [JSON.stringify(expected), JSON.stringify(got)];
  return wanted === found ? undefined : `${found} instead of ${wanted}`;
}

function parsed(body: string): CoreResponse | undefined {
  try {
    return JSON.parse(body) as CoreResponse;
  } catch {
    return undefined;
  }
}

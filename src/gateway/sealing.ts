import type { Encryption, Grace } from '../accounts/account.ts';
import type { Credentials } from '../envelope/credentials.ts';
import type { Encoding } from '../envelope/encoding.ts';
import type { RequestHead } from './request-head.ts';

/** With what a response is sealed. */
export interface Sealing {
  readonly credentials: Credentials;
  readonly encoding: Encoding;
}

/** How a request is answered, and what `Envelope-Credentials` says of it during a grace. */
export interface SealingChoice {
  /** Undefined: plain. */
  readonly sealing: Sealing | undefined;
  readonly grace: 'current' | 'previous' | 'none' | undefined;
}

/** The grace that is on. @param now epoch milliseconds */
export function graceAt({ grace }: Encryption, now: number): Grace | undefined {
  return grace !== undefined && now < grace.until ? grace : undefined;
}

/**
 * How a request is answered as long as no body says more. Without a grace with the current credentials; during one with
 * the previous ones, or in plain where there were none, because whoever has the current ones already can say so.
 */
export function chooseByHead(head: RequestHead, encryption: Encryption, grace: Grace | undefined): SealingChoice {
  const takesCurrent = grace === undefined || head.credentialsWish?.toLowerCase() === 'current';
  const credentials = takesCurrent ? encryption.credentials : grace.previous;
  return credentials === undefined ? plain : chooseByCredentials(credentials, encryption, grace);
}

/** How a request is answered whose envelope these credentials have opened. */
export function chooseByCredentials(
  opened: Credentials,
  encryption: Encryption,
  grace: Grace | undefined,
): SealingChoice {
  const label = opened === encryption.credentials ? 'current' : 'previous';
  return {
    sealing: { credentials: opened, encoding: encryption.encoding },
    grace: grace === undefined ? undefined : label,
  };
}

/** How plaintext is answered during a grace that accepts it. */
export const plain: SealingChoice = { sealing: undefined, grace: 'none' };

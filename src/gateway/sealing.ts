import type { Encryption, Grace } from '../accounts/account.ts';
import type { EnvelopeSealer } from '../envelope/codec.ts';
import type { RequestHead } from './request-head.ts';

/** How a request is answered, and what `Envelope-Credentials` says of it during a grace. */
export interface SealingChoice {
  /** Undefined: plain. */
  readonly sealer: EnvelopeSealer | undefined;
  readonly grace: 'current' | 'previous' | 'none' | undefined;
}

/** The grace that is on. @param now epoch milliseconds */
export function graceAt({ grace }: Encryption, now: number): Grace | undefined {
  return grace !== undefined && now < grace.until ? grace : undefined;
}

/**
 * How a request is answered unless its body decides. Without a grace with the current credentials; during one with the
 * previous ones, or in plain if there were none, because a caller that has the current ones already can say so.
 */
export function chooseByHead(head: RequestHead, encryption: Encryption, grace: Grace | undefined): SealingChoice {
  const takesCurrent = grace === undefined || head.credentialsWish?.toLowerCase() === 'current';
  const sealer = takesCurrent ? encryption.current : grace.previous;
  return sealer === undefined ? plain : chooseByOpener(sealer, encryption, grace);
}

/** How a request is answered whose envelope was opened by the current credentials or by those of the grace. */
export function chooseByOpener(
  openedBy: EnvelopeSealer,
  encryption: Encryption,
  grace: Grace | undefined,
): SealingChoice {
  const label = openedBy === encryption.current ? 'current' : 'previous';
  return { sealer: openedBy, grace: grace === undefined ? undefined : label };
}

/** How plaintext is answered during a grace that accepts it. */
export const plain: SealingChoice = { sealer: undefined, grace: 'none' };

import type { Encryption, EncryptionOn, Grace } from '../accounts/account.ts';
import type { EnvelopeSealer } from '../envelope/codec.ts';
import type { RequestHead } from './request-head.ts';

/** How a request is answered, and what `Envelope-Credentials` says of it during a grace. */
export interface SealingChoice {
  /** Undefined: plain. */
  readonly sealer: EnvelopeSealer | undefined;
  readonly grace: 'current' | 'previous' | 'none' | undefined;
}

/** How an account encrypts now; undefined if it does not, or no longer. @param now epoch milliseconds */
export function encryptionAt(encryption: Encryption | undefined, now: number): Encryption | undefined {
  return encryption?.kind === 'ending' && now >= encryption.until ? undefined : encryption;
}

/** The grace that is on. @param now epoch milliseconds */
function graceAt({ grace }: EncryptionOn, now: number): Grace | undefined {
  return grace !== undefined && now < grace.until ? grace : undefined;
}

/**
 * How a request is answered unless its body decides. Without a grace with the current credentials; during one with the
 * previous ones, or in plain if there were none, because a caller that has the current ones already can say so.
 * After it was disabled, plain is what is current.
 *
 * @param encryption in force now
 * @param now epoch milliseconds
 */
export function chooseByHead(head: RequestHead, encryption: Encryption, now: number): SealingChoice {
  const wishesCurrent = head.credentialsWish?.toLowerCase() === 'current';
  if (encryption.kind === 'ending') return wishesCurrent ? plain : { sealer: encryption.previous, grace: 'previous' };
  const grace = graceAt(encryption, now);
  const takesCurrent = grace === undefined || wishesCurrent;
  const sealer = takesCurrent ? encryption.current : grace.previous;
  return sealer === undefined ? plain : chooseByOpener(sealer, encryption, grace);
}

/** How a request is answered whose envelope was opened by the current credentials or by those of the grace. */
export function chooseByOpener(
  openedBy: EnvelopeSealer,
  encryption: Encryption,
  grace: Grace | undefined,
): SealingChoice {
  if (encryption.kind === 'ending') return { sealer: openedBy, grace: 'previous' };
  const label = openedBy === encryption.current ? 'current' : 'previous';
  return { sealer: openedBy, grace: grace === undefined ? undefined : label };
}

/** How plaintext is answered during a grace that accepts it. */
export const plain: SealingChoice = { sealer: undefined, grace: 'none' };

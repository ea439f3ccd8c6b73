import type { GatewayRequest } from './gateway-request.ts';

/**
 * Takes note of the key a request came with, and of what a grace let pass, where that is recorded.
 *
 * @param now epoch milliseconds
 */
export function noteUse({ rules, holder, environment, encryption, refusal, grace }: GatewayRequest, now: number): void {
  const { uses } = rules.directory;
  if (uses === undefined || holder?.account.active !== true || environment === undefined) return;
  uses.key(holder.key.id, now);
  const until = encryption?.kind === 'ending' ? encryption.until : encryption?.grace?.until;
  if (until !== undefined && refusal === undefined && (grace === 'previous' || grace === 'none')) {
    uses.previous(holder.account.id, environment, until, now);
  }
}

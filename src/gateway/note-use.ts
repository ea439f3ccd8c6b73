import type { Reply } from './reply.ts';

/**
 * Takes note of the key a request came with, and of what a grace let pass, where that is recorded.
 *
 * @param now epoch milliseconds
 */
export function noteUse({ request, refusal, sealing }: Reply, now: number): void {
  const { rules, holder, environment, encryption } = request;
  const { uses } = rules.directory;
  if (uses === undefined || holder?.account.active !== true || environment === undefined) return;
  uses.key(holder.key.id, now);
  if (encryption?.grace === undefined || sealing === undefined || refusal !== undefined) return;
  if (sealing.sealer !== encryption.current || encryption.current === undefined) {
    uses.previous(holder.account.id, environment, encryption.grace.until, now);
  }
}

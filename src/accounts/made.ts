import type { AuditEvent, StoredAccount } from './store.ts';

/** The view for a repeated request. The secret was shown when the change was made, so it is not shown again. */
export function repeated<View extends object>(view: View): View {
  return 'secret_shown' in view ? { ...view, secret_shown: false } : view;
}

type Source = Pick<AuditEvent, 'actor' | 'origin' | 'requestId'>;

/** Selects the members of an event that say who asked for the change, and from where. */
export function pickSource({ actor, origin, requestId }: Source): Source {
  return { actor, origin, requestId };
}

/** A change that has been decided but not yet written. */
export interface ChangeOutcome<View, Secret> {
  /** The new version of the account; undefined if nothing changes, or if the account is removed. */
  readonly account: StoredAccount | undefined;
  readonly removed?: true;
  /** The result for the caller, which is returned again if the request is repeated. */
  readonly view: View;
  /** The part of the result that is shown only once. */
  readonly secret?: Secret;
  readonly details: AuditEvent['details'];
}
